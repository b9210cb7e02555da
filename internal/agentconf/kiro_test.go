package agentconf

import (
	"os"
	"path/filepath"
	"testing"
)

// Files of agents are found in a folder whose name looks like a pattern.
func TestKiroAgentsInOddFolder(t *testing.T) {
	cwd := filepath.Join(t.TempDir(), "a[b]*")
	path := filepath.Join(cwd, ".kiro", "agents", "mine.json")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(`{"mcpServers":{"a":{"command":"x"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := kiro{}.Find(Env{Home: t.TempDir(), Cwd: cwd})
	if err != nil || len(found.Warnings) != 1 {
		t.Errorf("%v, %v; want a warning", found, err)
	}
}
