package worktree

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSwappedFolder exchanges a folder for a link to one outside while the tree is looked at.
func TestSwappedFolder(t *testing.T) {
	r := newRepo(t)
	for n := range 20 {
		r.write(fmt.Sprintf("a/d/%d", n), "1")
	}
	outside := filepath.Join(filepath.Dir(r.dir), "outside")
	if err := errors.Join(os.Mkdir(outside, 0o755), os.WriteFile(outside+"/secret", nil, 0o644), os.Symlink(outside, r.dir+"/a/link")); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, r.dir+"/a/d", unix.AT_FDCWD, r.dir+"/a/link", unix.RENAME_EXCHANGE)
			}
		}
	}()
	tree := find(t, r.dir, Limits{Names: 100})
	for range 300 {
		report := losses(t, tree, "a")
		for _, name := range report.Kinds[Untracked].Names {
			if strings.Contains(name, "secret") {
				t.Errorf("%s is outside of the tree", name)
			}
		}
	}
	close(stop)
	<-stopped
}
