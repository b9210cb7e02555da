package nowait

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// end is one end of what carries bytes.
type end interface {
	io.ReadWriteCloser
	syscall.Conn
}

// carriers are what a server may write to.
var carriers = map[string]func(t *testing.T) (r, w end){
	"pipe": func(t *testing.T) (r, w end) {
		a, b, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		return a, b
	},
	"pipe that waits": func(t *testing.T) (r, w end) {
		var fds [2]int
		if err := syscall.Pipe(fds[:]); err != nil {
			t.Fatal(err)
		}
		return os.NewFile(uintptr(fds[0]), "read"), os.NewFile(uintptr(fds[1]), "write")
	},
	"socket": func(t *testing.T) (r, w end) {
		l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		a, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		b, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return a.(*net.UnixConn), b.(*net.UnixConn)
	},
}

func each(t *testing.T, test func(t *testing.T, r, w end)) {
	for name, made := range carriers {
		t.Run(name, func(t *testing.T) {
			r, w := made(t)
			t.Cleanup(func() {
				r.Close()
				w.Close()
			})
			test(t, r, w)
		})
	}
}

// What is written comes out, all of it and in its order, though the reader is slower
// than the writer and neither knows when the other has room.
func TestAllComesThrough(t *testing.T) {
	each(t, func(t *testing.T, r, w end) {
		want := make([]byte, 3<<20)
		for i := range want {
			want[i] = byte(i * 7 / 5)
		}
		wrote := make(chan error, 1)
		go func() {
			defer w.Close()
			for rest := want; len(rest) > 0; {
				n := min(len(rest), 1+len(rest)%200_000)
				if m, err := w.Write(rest[:n]); err != nil || m != n {
					wrote <- errors.Join(err, io.ErrShortWrite)
					return
				}
				rest = rest[n:]
			}
			wrote <- nil
		}()
		got, err := io.ReadAll(NewReader(r))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes came, %v; want %d as they were written", len(got), err, len(want))
		}
		if err := <-wrote; err != nil {
			t.Error(err)
		}
	})
}

// Errors are those of what is read: its end, and that it was closed.
func TestEnds(t *testing.T) {
	each(t, func(t *testing.T, r, w end) {
		reader := NewReader(r)
		if n, err := reader.Read(nil); n != 0 || err != nil {
			t.Errorf("nothing was asked for: %d, %v", n, err)
		}
		if _, err := w.Write([]byte("last")); err != nil {
			t.Fatal(err)
		}
		w.Close()
		if got, err := io.ReadAll(reader); string(got) != "last" || err != nil {
			t.Errorf("read %q, %v", got, err)
		}
		r.Close()
		if _, err := reader.Read(make([]byte, 1)); !errors.Is(err, os.ErrClosed) && !errors.Is(err, net.ErrClosed) {
			t.Errorf("after it was closed a read says %v", err)
		}
	})
}

// Who waits can be woken up, as by whoever ends the server.
func TestDeadline(t *testing.T) {
	r, w := carriers["pipe"](t)
	defer r.Close()
	defer w.Close()
	woken := make(chan error, 1)
	go func() {
		_, err := NewReader(r).Read(make([]byte, 1))
		woken <- err
	}()
	if err := r.(*os.File).SetReadDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := <-woken; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// A file is none of these: it is read as ever.
func TestFile(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("abc"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(NewReader(f)); string(got) != "abc" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
}
