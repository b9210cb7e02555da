package store

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestProtections(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	db := open(t, path)
	at := time.Date(2026, 11, 20, 12, 0, 0, 123456000, time.UTC)
	one := Protection{ID: "1", Agent: "claude-code", Since: at, Text: []byte("a very secret argument")}
	two := Protection{ID: "2", Agent: "cursor", Since: at.Add(-time.Hour), Ending: true, Text: []byte("x")}
	for _, p := range []Protection{one, two} {
		if err := db.PutProtection(ctx, &p); err != nil {
			t.Fatal(err)
		}
	}
	got, err := db.Protections(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Protection{two, one}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	one.Text = []byte("another")
	if err := db.PutProtection(ctx, &one); err != nil {
		t.Fatal(err)
	}
	if err := db.DeleteProtection(ctx, "2"); err != nil {
		t.Fatal(err)
	}
	if err := db.DeleteProtection(ctx, "2"); err != nil {
		t.Errorf("one that is not there: %v", err)
	}
	if got, err = db.Protections(ctx); err != nil || len(got) != 1 || string(got[0].Text) != "another" {
		t.Errorf("got %+v, %v", got, err)
	}
	files, err := filepath.Glob(path + "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("very secret")) {
			t.Errorf("%s holds what was replaced", file)
		}
	}
}
