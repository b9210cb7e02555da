// Package stop kills the process that it is built into, right after a store into the
// memory of a session, or after a system call that moves what is between two stores.
// Only the programs that the tests of internal/test/kills build have it in them: see
// stops_test.go there.
package stop

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Variable names the file that says where to stop: "SITE N" for the Nth time from then
// on that the site is passed. It is removed when it was read.
const Variable = "THOUGHTGATE_TEST_STOP"

// look is the pause between two looks for the file.
const look = time.Millisecond

var site, left atomic.Int64

func init() {
	path := os.Getenv(Variable)
	// A keeper is the same program, and must not take what is meant for its daemon.
	if path == "" || slices.Contains(os.Args, "--keep") || arm(path) {
		return
	}
	go func() { // ends when it is told, or with the process
		for !arm(path) {
			time.Sleep(look)
		}
	}()
}

// arm takes in where to stop, if the file is there.
func arm(path string) bool {
	text, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	var at, n int64
	if _, err := fmt.Sscan(string(text), &at, &n); err != nil {
		panic(err)
	}
	_ = os.Remove(path) // who has written it may want it no more
	left.Store(n)
	site.Store(at)
	return true
}

// after is called when a site was passed.
func after(at int) {
	if int64(at) == site.Load() && left.Add(-1) == 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // nothing more is to happen
	}
}

// Store stores a word.
func Store(at int, to *uint64, word uint64) {
	atomic.StoreUint64(to, word)
	after(at)
}

// Read reads.
func Read(at int, fd int, p []byte) (int, error) {
	n, err := unix.Read(fd, p)
	after(at)
	return n, err
}

// Write writes.
func Write(at int, fd int, p []byte) (int, error) {
	n, err := unix.Write(fd, p)
	after(at)
	return n, err
}

// Writev writes all of parts.
func Writev(at int, fd int, parts [][]byte) (int, error) {
	n, err := unix.Writev(fd, parts)
	after(at)
	return n, err
}

// Splice moves bytes from a pipe.
func Splice(at int, from int, fromAt *int64, to int, toAt *int64, n int, flags int) (int64, error) {
	moved, err := unix.Splice(from, fromAt, to, toAt, n, flags)
	after(at)
	return moved, err
}

// Append writes to a file.
func Append(at int, f *os.File, p []byte) (int, error) {
	n, err := f.Write(p)
	after(at)
	return n, err
}

// Sendmsg sends a message, to who keeps descriptors.
func Sendmsg(at int, fd int, p, rights []byte, to unix.Sockaddr, flags int) error {
	err := unix.Sendmsg(fd, p, rights, to, flags)
	after(at)
	return err
}

// Held calls change, which stores or removes what the next daemon must know of a session.
func Held[T any](at int, change func(context.Context, T) error, ctx context.Context, to T) error {
	err := change(ctx, to)
	after(at)
	return err
}
