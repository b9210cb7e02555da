package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The error for a corrupt file says what to do about it.
func TestOpenNoDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("no database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := Open(path)
	if err == nil {
		db.Close()
		t.Fatal("it was opened")
	}
	if want := "move " + path + " away"; !strings.Contains(err.Error(), want) {
		t.Errorf("it does not say what to do: got %v, want %q in it", err, want)
	}
}

// A file that is damaged further on can be opened; Explain adds what to do to the later
// error.
func TestExplainDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	db, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// The first page stays: it identifies the file as a database and locates its tables.
	copy(data[4096:], strings.Repeat("garbage ", len(data)/8))
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if db, err = Open(path); err == nil {
		defer db.Close()
		err = db.EachOpen(context.Background(), func(Question) {})
		err = db.Explain(err)
	}
	if want := "move " + path + " away"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q in it", err, want)
	}
	if other := errors.New("other"); db != nil && db.Explain(other) != other {
		t.Error("an error of something else is not as it was")
	}
}
