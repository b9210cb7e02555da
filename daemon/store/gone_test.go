package store

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Entries of ended wraps outlive the daemon, but not a reboot.
func TestGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	db := open(t, path)
	a := EndedWrap{Session: "a", Agent: "cursor", Wrap: Process{PID: 7, Start: 1 << 60}, Cgroup: "/a", Ended: 99, Left: []Process{{PID: 8, Start: 9}}}
	b := EndedWrap{Session: "b", Agent: "codex", Wrap: Process{PID: 9, Start: 3}}
	for _, g := range []EndedWrap{a, b} {
		if err := db.KeepGone(ctx, &g); err != nil {
			t.Fatal(err)
		}
	}
	closeDB(t, db)
	db = open(t, path)
	got, err := db.Gone(ctx)
	if diff := cmp.Diff([]EndedWrap{a, b}, got); diff != "" || err != nil {
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

// However many wraps an agent opens and kills, the first one is still known.
func TestGoneAreNotCrowdedOut(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "state.db"))
	first := EndedWrap{Session: "first", Agent: "codex", Wrap: Process{PID: 7, Start: 1}, Ended: 9}
	if err := db.KeepGone(ctx, &first); err != nil {
		t.Fatal(err)
	}
	boot, _ := Boot()
	_, err := db.sql.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
		INSERT INTO gone SELECT 's' || i, 'codex', i, i, '', i, 'null', ? FROM n`, boot)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.KeepGone(ctx, &EndedWrap{Session: "last", Agent: "codex", Wrap: Process{PID: 8, Start: 1}, Ended: 9}); err != nil {
		t.Fatal(err)
	}
	got, err := db.Gone(ctx)
	if err != nil || len(got) != 5002 || got[0].Session != "first" {
		t.Errorf("%d are kept, want 5002, the first of them first; %v", len(got), err)
	}
}
