package undo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// swapping exchanges a folder of the root and a link to a folder outside, again and again, until
// the test ends.
func (w *world) swapping(folder string) (outside string, stop func()) {
	w.t.Helper()
	outside = filepath.Join(w.dir, "outside")
	link, real := filepath.Join(w.root, "link"), filepath.Join(w.root, folder)
	if err := errors.Join(os.Mkdir(outside, 0o755), os.WriteFile(outside+"/secret", []byte("secret"), 0o644),
		os.WriteFile(outside+"/file-0", []byte("secret"), 0o644), os.Symlink(outside, link)); err != nil {
		w.t.Fatal(err)
	}
	quit, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-quit:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, real, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE)
			}
		}
	}()
	return outside, func() {
		close(quit)
		<-stopped
	}
}

// TestRaceSnapshot makes snapshots while a folder is exchanged: nothing outside is copied.
func TestRaceSnapshot(t *testing.T) {
	w := newWorld(t, Limits{Count: 1000})
	for n := range 10 {
		w.write(fmt.Sprintf("d/e/file-%d", n), "inside")
	}
	_, stop := w.swapping("d/e")
	defer stop()
	made := 0
	for range 60 {
		info, err := w.store.Snapshot(context.Background(), "", w.root, "d", "d/e/file-0")
		if err != nil {
			continue // a folder that disappears while it is read
		}
		made++
		data, err := os.ReadFile(filepath.Join(w.dir, "store", info.ID, dataName))
		if err != nil || strings.Contains(string(data), "secret") {
			t.Fatalf("a file outside was copied (%v)", err)
		}
		if err := w.store.Remove(info.ID); err != nil {
			t.Error(err)
		}
	}
	if made == 0 {
		t.Error("no snapshot was made")
	}
}

// TestRaceRestore restores while a folder is exchanged: nothing outside is written.
func TestRaceRestore(t *testing.T) {
	w := newWorld(t, Limits{})
	for n := range 10 {
		w.write(fmt.Sprintf("d/e/file-%d", n), "inside")
	}
	info := w.snapshot("d")
	outside, stop := w.swapping("d/e")
	for range 40 {
		for n := range 10 {
			for _, folder := range []string{"d/e", "link"} {
				_ = os.Remove(fmt.Sprintf("%s/%s/file-%d", w.root, folder, n)) // outside as well
			}
		}
		_ = os.WriteFile(outside+"/file-0", []byte("secret"), 0o644)
		before := tree(t, outside)
		delete(before, ".")
		_, _ = w.store.Restore(context.Background(), info.ID, "")
		after := tree(t, outside)
		delete(after, ".")
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("outside -before +after:\n%s", diff)
			break
		}
	}
	stop()
	w.restore(info.ID)
	if text, err := os.ReadFile(w.root + "/d/e/file-0"); string(text) != "inside" {
		t.Errorf("got %q, %v", text, err)
	}
}

// TestRaceWithWriter restores while another process makes files at the same names: none of
// them is lost.
func TestRaceWithWriter(t *testing.T) {
	w := newWorld(t, Limits{})
	w.write("file", "old")
	info := w.snapshot("file")
	quit, stopped := make(chan struct{}), make(chan struct{})
	var wrote int
	go func() {
		defer close(stopped)
		for {
			select {
			case <-quit:
				return
			default:
			}
			f, err := os.OpenFile(w.root+"/file", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
			if err == nil {
				fmt.Fprint(f, "new ", wrote)
				f.Close()
				wrote++
			}
		}
	}()
	kept := 0
	for range 50 {
		_ = os.Remove(w.root + "/old")
		_ = os.Rename(w.root+"/file", w.root+"/old") // what the writer makes next is kept
		if text, err := os.ReadFile(w.root + "/old"); err == nil && string(text) != "old" {
			kept++
		}
		result, err := w.store.Restore(context.Background(), info.ID, "")
		if err != nil {
			t.Fatal(err)
		}
		kept += len(result.Kept)
	}
	close(quit)
	<-stopped
	if text, err := os.ReadFile(w.root + "/file"); err == nil && strings.HasPrefix(string(text), "new") {
		kept++
	}
	if kept != wrote {
		t.Errorf("%d files were written, %d are kept", wrote, kept)
	}
}
