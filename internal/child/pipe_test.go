package child

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"
	"time"
)

func TestLastLinesBeforeDeath(t *testing.T) {
	noneLeft(t)
	// As much as the pipes hold, so that the child ends before the test reads.
	c := start(t, script(t, "head -c 65536 /dev/zero | tr '\\0' x; head -c 30000 /dev/zero | tr '\\0' y >&2; kill -9 $$"))
	<-c.Done()
	if got := c.Stop(t.Context(), OurGrace); got.Signal != syscall.SIGKILL {
		t.Errorf("state %v, want killed by SIGKILL", got)
	}
	out, err := io.ReadAll(c.Stdout())
	if err != nil || !bytes.Equal(out, bytes.Repeat([]byte("x"), 65536)) {
		t.Errorf("stdout: %d bytes, %v; want 65536", len(out), err)
	}
	errs, err := io.ReadAll(c.Stderr())
	if err != nil || !bytes.Equal(errs, bytes.Repeat([]byte("y"), 30000)) {
		t.Errorf("stderr: %d bytes, %v; want 30000", len(errs), err)
	}
	if n, err := c.Stdout().Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("read after the end: %d, %v; want io.EOF", n, err)
	}
}

func TestReadEndAfterStop(t *testing.T) {
	// A process that Stop could not end holds the other side.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	end := &outEnd{file: r}
	waiting := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(end, make([]byte, 6))
		waiting <- err
	}()
	io.WriteString(w, "before")
	if err := <-waiting; err != nil {
		t.Fatal(err)
	}
	io.WriteString(w, "last words")
	go func() {
		b, err := io.ReadAll(end)
		if string(b) != "last words" {
			err = fmt.Errorf("read %q, %v", b, err)
		}
		waiting <- err
	}()
	end.end()
	select {
	case err := <-waiting:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the reader hangs")
	}
}

func TestReadEndIsBoundedAfterStop(t *testing.T) {
	// The remaining process never stops writing, but reading ends.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for b := make([]byte, 64<<10); ; {
			if _, err := w.Write(b); err != nil {
				return
			}
		}
	}()
	end := &outEnd{file: r}
	end.end()
	n, err := io.Copy(io.Discard, end)
	if err != nil || n > maxPipe+64<<10 {
		t.Errorf("read %d bytes, %v; want at most %d", n, err, maxPipe)
	}
	end.Close()
	<-done
	w.Close()
}

func TestWriteToTheDead(t *testing.T) {
	noneLeft(t)
	c := start(t, script(t, "exit 0"))
	<-c.Done()
	if _, err := io.WriteString(c.Stdin(), "hello?"); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("write: %v, want EPIPE", err)
	}
	c.Stop(t.Context(), OurGrace)
	if _, err := io.WriteString(c.Stdin(), "hello?"); !errors.Is(err, os.ErrClosed) {
		t.Errorf("write after Stop: %v, want os.ErrClosed", err)
	}
	if err := c.Stdin().Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}

func TestStopWakesAWriter(t *testing.T) {
	noneLeft(t)
	c := start(t, script(t, "sleep 1000"))
	wrote := make(chan error, 1)
	go func() {
		_, err := c.Stdin().Write(make([]byte, 1<<20)) // nobody reads it
		wrote <- err
	}()
	c.Stop(t.Context(), Grace{Term: time.Second})
	if err := <-wrote; err == nil {
		t.Error("a write of 1 MiB to a program that does not read has succeeded")
	}
}
