package sock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// connection returns a connection from a listener, and its other end.
func connection(t *testing.T) (ours *Conn, theirs *net.UnixConn) {
	t.Helper()
	inner, err := Listen(filepath.Join(private(t), "s"))
	if err != nil {
		t.Fatal(err)
	}
	l := Checked(inner)
	defer l.Close()
	c, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { accepted.Close() })
	return accepted.(*Conn), c.(*net.UnixConn)
}

// watchedPipe returns a pipe, and a function that counts the descriptors of this process that
// refer to it.
func watchedPipe(t *testing.T) (r, w *os.File, count func() int) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	link, err := os.Readlink(fmt.Sprint("/proc/self/fd/", r.Fd()))
	if err != nil {
		t.Skip("there is no /proc")
	}
	return r, w, func() (n int) {
		all, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Error(err)
		}
		for _, entry := range all {
			if now, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil && now == link {
				n++
			}
		}
		return n
	}
}

func TestReceive(t *testing.T) {
	for _, test := range []struct {
		name  string
		first string // byte
		fds   int
		want  error
	}{
		{"none, and the preface of HTTP/2", "P", 0, nil},
		{"none, and they were announced", "\x00", 0, ErrDescriptors},
		{"one too few", "\x00", 4, ErrDescriptors},
		{"as many as there should be", "\x00", 5, nil},
		{"one too many", "\x00", 6, ErrDescriptors},
		{"more than there is room for", "\x00", 7, ErrDescriptors},
		{"as many as the system lets through", "\x00", 253, ErrDescriptors},
		{"five, not announced", "P", 5, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, w, count := watchedPipe(t)
			ours, theirs := connection(t)
			fds := make([]int, test.fds)
			for i := range fds {
				fds[i] = int([]*os.File{r, w}[i%2].Fd())
			}
			if _, _, err := theirs.WriteMsgUnix([]byte(test.first+"RI"), unix.UnixRights(fds...), nil); err != nil {
				t.Fatal(err)
			}
			passed, err := ours.Receive(5)
			if !errors.Is(err, test.want) {
				t.Fatalf("%v, want %v", err, test.want)
			}
			if err != nil {
				if n := count(); n != 2 || passed != nil {
					t.Errorf("%d descriptors lead to the pipe, want the two of the test", n)
				}
				return
			}
			rest, got := make([]byte, 3), 0
			if test.first == "\x00" {
				rest = rest[1:]
				got = 5
			}
			if n := count(); n != 2+got {
				t.Errorf("%d descriptors lead to the pipe, want %d", n, 2+got)
			}
			if _, err := io.ReadFull(ours, rest); err != nil || string(rest) != (test.first + "RI")[3-len(rest):] {
				t.Errorf("then came %q, %v", rest, err)
			}
			taken := passed.Take()
			if len(taken) != got || passed.Take() != nil {
				t.Fatalf("%v were taken, want %d, and once", taken, got)
			}
			ours.Close()
			if n := count(); n != 2+got {
				t.Errorf("with the connection closed %d descriptors lead to the pipe, want %d: those were taken", n, 2+got)
			}
			for i, fd := range taken {
				flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
				if err != nil || flags&unix.FD_CLOEXEC == 0 {
					t.Errorf("descriptor %d stays open over an exec: flags %#x, %v", i, flags, err)
				}
				mode, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
				if want := i % 2; mode&unix.O_ACCMODE != want {
					t.Errorf("descriptor %d is another: access %d, want %d", i, mode&unix.O_ACCMODE, want)
				}
			}
			CloseAll(taken)
			if n := count(); n != 2 {
				t.Errorf("in the end %d descriptors lead to the pipe, want 2", n)
			}
		})
	}
}

// Descriptors that nobody took are closed with the connection, even if they arrive after Close.
func TestNobodyTakesDescriptors(t *testing.T) {
	_, w, count := watchedPipe(t)
	for _, early := range []bool{false, true} {
		ours, theirs := connection(t)
		if err := Pass(t.Context(), theirs, int(w.Fd()), int(w.Fd())); err != nil {
			t.Fatal(err)
		}
		if early {
			ours.closed = true // as if Close came while they were read
		}
		if _, err := ours.Receive(2); err != nil {
			t.Fatal(err)
		}
		ours.Close()
		if n := count(); n != 2 {
			t.Errorf("%d descriptors lead to the pipe, want 2", n)
		}
	}
}

// The kernel closes the descriptors of a connection that was never read.
func TestReceiveWaitsUntilTheDeadline(t *testing.T) {
	ours, theirs := connection(t)
	if err := ours.SetDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := ours.Receive(5); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v, want that the time was up", err)
	}
	theirs.Close()
	ours, theirs = connection(t)
	theirs.Close()
	if _, err := ours.Receive(5); err != io.EOF {
		t.Errorf("%v, want io.EOF", err)
	}
}

// Exceeding the limit of descriptors in flight is no error as long as they are received in
// time.
func TestPassTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		tries := 0
		full := func() error {
			tries++
			return &net.OpError{Op: "write", Net: "unix", Err: os.NewSyscallError("sendmsg", unix.ETOOMANYREFS)}
		}
		if err := pass(ctx, func() error {
			if tries == 5 {
				return nil
			}
			return full()
		}); err != nil {
			t.Errorf("%v, though there was room in the end", err)
		}
		if err := pass(ctx, full); !errors.Is(err, unix.ETOOMANYREFS) || ctx.Err() == nil {
			t.Errorf("%v, want ETOOMANYREFS when the time is up", err)
		}
		if err := pass(t.Context(), func() error { return unix.EBADF }); !errors.Is(err, unix.EBADF) {
			t.Errorf("%v, want EBADF", err)
		}
	})
}
