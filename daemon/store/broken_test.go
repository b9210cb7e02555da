package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Who has a broken file is told what to do about it.
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
	if !strings.Contains(err.Error(), "move it away") {
		t.Errorf("it does not say what to do: %v", err)
	}
}
