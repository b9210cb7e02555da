// Package tempdir creates temporary folders for tests that need a short path, for example for a
// socket, or another parent than that of t.TempDir.
//
// A killed test leaves its folders behind, which may contain a build of all programs. So each
// folder has a mark file that is locked while the process that created it lives, and the next
// process that creates a folder with the same parent removes those whose lock is free. It never
// touches a folder without such a mark.
package tempdir

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	markName = ".thoughtgate-test"
	markText = "A test of ThoughtGate made this folder. Once nobody holds a lock on this file, the next test removes it.\n"
)

// swept holds the parents that this process has swept.
var swept sync.Map

// New is [Make] for a test. It removes the folder when the test ends.
func New(tb testing.TB, parent, pattern string) string {
	tb.Helper()
	dir, remove, err := Make(parent, pattern)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(remove)
	return dir
}

// Make is os.MkdirTemp with a mark file in the folder. remove removes both.
func Make(parent, pattern string) (dir string, remove func(), err error) {
	if parent == "" {
		parent = os.TempDir()
	}
	if _, done := swept.LoadOrStore(parent, true); !done {
		sweep(parent)
	}
	if dir, err = os.MkdirTemp(parent, pattern); err != nil {
		return "", nil, err
	}
	mark, err := os.OpenFile(filepath.Join(dir, markName), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err == nil {
		// Take the lock first, so that a mark with text is always locked.
		if err = unix.Flock(int(mark.Fd()), unix.LOCK_EX); err == nil {
			_, err = mark.WriteString(markText)
		}
	}
	if err != nil {
		mark.Close()
		os.RemoveAll(dir)
		return "", nil, err
	}
	return dir, func() {
		os.RemoveAll(dir)
		mark.Close()
	}, nil
}

// sweep removes the marked folders in parent whose creators have ended. It skips what it can't
// examine or remove.
func sweep(parent string) {
	entries, _ := os.ReadDir(parent)
	for _, entry := range entries {
		if entry.IsDir() { // false for a link
			removeLeft(filepath.Join(parent, entry.Name()))
		}
	}
}

func removeLeft(dir string) {
	// Without O_NONBLOCK, opening a pipe would block.
	mark, err := os.OpenFile(filepath.Join(dir, markName), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer mark.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(mark.Fd()), &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size != int64(len(markText)) || int(st.Uid) != os.Geteuid() {
		return
	}
	text := make([]byte, len(markText))
	if _, err := mark.ReadAt(text, 0); err != nil || string(text) != markText {
		return
	}
	if unix.Flock(int(mark.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
		os.RemoveAll(dir)
	}
}
