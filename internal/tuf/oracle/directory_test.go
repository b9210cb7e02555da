package oracle

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/theupdateframework/go-tuf/v2/metadata"
	"github.com/theupdateframework/go-tuf/v2/metadata/config"
	"github.com/theupdateframework/go-tuf/v2/metadata/updater"
)

// A stock client updates from a directory that a web server hands out, through every publication.
func TestStockClientReadsDirectory(t *testing.T) {
	metadata.SetLogger(metadata.DiscardLogger{})
	for seed := range uint64(10) {
		p := randomPlan(rand.New(rand.NewPCG(seed, 4)))
		dir, local := t.TempDir(), t.TempDir()
		server := httptest.NewServer(http.FileServer(http.Dir(dir)))
		defer server.Close()
		var first []byte
		for i, r := range repositories(t, p) {
			files, err := r.Directory()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				path := filepath.Join(dir, filepath.FromSlash(f.Name))
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, f.Content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if first == nil {
				first = r.Roots[0]
			}
			c, err := config.New(server.URL, first)
			if err != nil {
				t.Fatal(err)
			}
			c.LocalMetadataDir, c.LocalTargetsDir = filepath.Join(local, "metadata"), filepath.Join(local, "targets")
			c.RemoteTargetsURL = server.URL // the targets lie beside the metadata
			u, err := updater.New(c)
			if err != nil {
				t.Fatal(err)
			}
			u.UnsafeSetRefTime(now)
			if err := u.Refresh(); err != nil {
				t.Fatalf("seed %d, publication %d: %v", seed, i, err)
			}
			info, err := u.GetTargetInfo("dev/bundle.json")
			if err != nil {
				t.Fatalf("seed %d, publication %d: %v", seed, i, err)
			}
			if _, got, err := u.DownloadTarget(info, "", ""); err != nil || string(got) != p.bundles[i]["dev"] {
				t.Errorf("seed %d, publication %d: %q, %v", seed, i, got, err)
			}
		}
	}
}
