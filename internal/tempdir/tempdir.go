// Package tempdir makes folders for tests that need one with a short path, as for a
// socket, or elsewhere than t.TempDir makes it.
//
// A test that is killed leaves its folders behind, and at times there is a build of
// all programs in one. So each holds a mark that is locked for as long as the process
// lives that made it, and whoever makes the next folder beside it first removes those
// whose lock is free. Nothing without a mark of ours is ever touched.
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

// swept holds the folders in which this process has looked for what others left.
var swept sync.Map

// New is [Make] for a test, at whose end the folder is removed.
func New(tb testing.TB, parent, pattern string) string {
	tb.Helper()
	dir, remove, err := Make(parent, pattern)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(remove)
	return dir
}

// Make is os.MkdirTemp with a mark in the folder. remove removes both.
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
		// Whoever finds the text finds the lock.
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

// sweep removes the marked folders in parent whose makers are gone. What can't be
// looked at or removed stays.
func sweep(parent string) {
	entries, _ := os.ReadDir(parent)
	for _, entry := range entries {
		if entry.IsDir() { // and no link
			removeLeft(filepath.Join(parent, entry.Name()))
		}
	}
}

func removeLeft(dir string) {
	// Without O_NONBLOCK a pipe of that name would hold us.
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
