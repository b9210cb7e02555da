package daemon

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
)

// The cost of a project for each call: a check of each folder up to the repository's top, and of
// the file.
func BenchmarkProject(b *testing.B) {
	for _, name := range []string{"without", "with"} {
		b.Run(name, func(b *testing.B) {
			top := b.TempDir()
			inside := filepath.Join(top, "a", "b", "c")
			if err := os.MkdirAll(inside, 0o700); err != nil {
				b.Fatal(err)
			}
			if err := os.Mkdir(filepath.Join(top, ".git"), 0o700); err != nil {
				b.Fatal(err)
			}
			if name == "with" {
				if err := os.WriteFile(filepath.Join(top, ".thoughtgate.yaml"), []byte("schema: 1\n"), 0o600); err != nil {
					b.Fatal(err)
				}
			}
			p := newProjects(slog.New(slog.DiscardHandler))
			for b.Loop() {
				if _, err := p.in(inside); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
