package store

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is kept of a wrap that is over outlives the daemon, and not the system.
func TestGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	db := open(t, path)
	a := Gone{Session: "a", Agent: "cursor", Wrap: Process{PID: 7, Start: 1 << 60}, Cgroup: "/a", Ended: 99, Left: []Process{{PID: 8, Start: 9}}}
	b := Gone{Session: "b", Agent: "codex", Wrap: Process{PID: 9, Start: 3}}
	for _, g := range []Gone{a, b} {
		if err := db.KeepGone(ctx, &g); err != nil {
			t.Fatal(err)
		}
	}
	closeDB(t, db)
	db = open(t, path)
	got, err := db.Gone(ctx)
	if diff := cmp.Diff([]Gone{a, b}, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if err := db.DropGone(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.sql.Exec(`UPDATE gone SET boot = 'another'`); err != nil {
		t.Fatal(err)
	}
	if got, err := db.Gone(ctx); len(got) != 0 || err != nil {
		t.Errorf("of another boot: %v, %v", got, err)
	}
}
