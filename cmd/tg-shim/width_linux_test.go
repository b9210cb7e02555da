package main

import (
	"bytes"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// holds is how much a pipe holds, in bytes.
func holds(t *testing.T, f *os.File) int {
	t.Helper()
	raw, err := f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	if cerr := raw.Control(func(fd uintptr) { size, err = unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0) }); cerr != nil || err != nil {
		t.Fatal(cerr, err)
	}
	return size
}

// A pipe is as it was when a long line has gone through it, on either side.
func TestPipesAreNarrowAgain(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	usual := holds(t, w)
	width := widthOf(w)
	width.set(true)
	wide := holds(t, w) // the system may not grant more
	if wide < usual || width.usual > 0 != (wide > usual) {
		t.Fatalf("holds %d, held %d; noted %d", wide, usual, width.usual)
	}
	if wide > usual {
		if _, err := w.Write(make([]byte, usual+1)); err != nil {
			t.Fatal(err)
		}
		if width.set(false); holds(t, w) != wide {
			t.Error("what was in the pipe is lost")
		}
		if _, err := io.ReadFull(r, make([]byte, usual+1)); err != nil {
			t.Fatal(err)
		}
	}
	if width.set(false); holds(t, w) != usual || width.usual != 0 {
		t.Errorf("holds %d, want %d", holds(t, w), usual)
	}
}

// What is no pipe is left alone.
func TestWidthOfOther(t *testing.T) {
	for _, other := range []any{new(bytes.Buffer), mustOpen(t, os.DevNull)} {
		width := widthOf(other)
		width.set(true)
		if width.set(false); width.usual != 0 {
			t.Errorf("%T was made wider", other)
		}
	}
}

func mustOpen(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}
