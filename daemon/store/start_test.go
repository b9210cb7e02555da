package store

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func aStart(server string, n byte) Start {
	return Start{
		StartKey: StartKey{Project: "/home/ana/a project", Server: server, Digest: []byte(strings.Repeat(string(rune(n)), 32))},
		Shown:    []byte(`{"server":"` + server + `"}`), Noticed: time.Date(2026, 11, 20, 12, 0, 0, 123456000, time.UTC),
	}
}

func TestStartsComeBackAsTheyWere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	db := open(t, path)
	first, second, gone := aStart("files", 'a'), aStart("files", 'b'), aStart("files\x00'", 'c')
	for _, s := range []Start{first, second, gone} {
		if err := db.KeepStart(ctx, &s, nil); err != nil {
			t.Fatal(err)
		}
	}
	second.Accepted, second.Decider = second.Noticed.Add(time.Hour), "ana"
	if err := db.KeepStart(ctx, &second, []StartKey{gone.StartKey}); err != nil {
		t.Fatal(err)
	}
	also := aStart("clock", 'd')
	if err := db.KeepStart(ctx, &also, nil); err != nil {
		t.Fatal(err)
	}
	for range 2 { // present, then absent
		if err := db.DropStart(ctx, also.StartKey); err != nil {
			t.Fatal(err)
		}
	}
	closeDB(t, db)
	got, err := open(t, path).Starts(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Start{first, second}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
