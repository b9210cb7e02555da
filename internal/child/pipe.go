package child

import (
	"errors"
	"io"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// pipes are both ends of the three streams, all of them close-on-exec; nil of a
// stream that is given.
type pipes struct {
	stdinRead, stdinWrite   *os.File
	stdoutRead, stdoutWrite *os.File
	stderrRead, stderrWrite *os.File
}

func openPipes(spec *Spec) (*pipes, error) {
	var p pipes
	for _, end := range []struct {
		given *os.File
		r, w  **os.File
	}{
		{spec.Stdin, &p.stdinRead, &p.stdinWrite},
		{spec.Stdout, &p.stdoutRead, &p.stdoutWrite},
		{spec.Stderr, &p.stderrRead, &p.stderrWrite},
	} {
		if end.given != nil {
			continue
		}
		r, w, err := os.Pipe()
		if err != nil {
			p.closeTheirs()
			p.closeOurs()
			return nil, err
		}
		*end.r, *end.w = r, w
	}
	return &p, nil
}

// closeTheirs closes the ends that belong to the child, whose copies are its
// own by now; a nil file is closed without harm.
func (p *pipes) closeTheirs() {
	p.stdinRead.Close()
	p.stdoutWrite.Close()
	p.stderrWrite.Close()
}

func (p *pipes) closeOurs() {
	p.stdinWrite.Close()
	p.stdoutRead.Close()
	p.stderrRead.Close()
}

// keepInherited keeps to ourselves the descriptors that were open when this
// process began. Go opens its own close-on-exec, but leaves alone what it was
// handed, and an agent may hand on more than it means to.
var keepInherited = sync.OnceFunc(func() {
	open, err := os.ReadDir("/dev/fd")
	if err != nil {
		return
	}
	for _, entry := range open {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
})

// writeEnd is the child's stdin. Both the owner and Stop close it.
type writeEnd struct {
	*os.File
	once sync.Once
	err  error
}

// Close ends the child's input. A Write that waits for room is woken up.
func (w *writeEnd) Close() error {
	w.once.Do(func() { w.err = w.File.Close() })
	return w.err
}

// maxPipe is the most that a pipe can hold without privilege, and so the most
// that is read from one after its end was asked for.
const maxPipe = 1 << 20

// outEnd is the child's stdout or stderr: it reads what is written until the other side is
// closed or nothing more is to be waited for, and is closed at its end. Read is for one
// goroutine at a time, the others for any.
type outEnd struct {
	file    *os.File
	ended   atomic.Bool  // nothing more is waited for
	drained atomic.Int64 // bytes read since

	once sync.Once
	err  error // of closing
}

// Read returns io.EOF at the end of the stream and ever after, and releases the
// descriptor then. After end it never waits.
func (r *outEnd) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, err := r.file.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) && r.ended.Load() {
		n, err = r.drain(b)
	}
	if err == io.EOF {
		r.ended.Store(true)
		r.Close()
	} else if errors.Is(err, os.ErrClosed) && r.ended.Load() {
		err = io.EOF
	}
	return n, err
}

// Close gives the stream up. A child that goes on writing gets SIGPIPE.
func (r *outEnd) Close() error {
	r.once.Do(func() { r.err = r.file.Close() })
	return r.err
}

// end makes reads return what is there to be read, 1 MiB of it at most, and then
// io.EOF. A Read that waits is woken up. It fails when the stream is closed.
func (r *outEnd) end() error {
	r.ended.Store(true)
	return r.file.SetReadDeadline(time.Unix(1, 0))
}

// drain reads without waiting. It goes around the poller, which returns an
// expired deadline before it looks at the pipe.
func (r *outEnd) drain(b []byte) (n int, err error) {
	if r.drained.Load() >= maxPipe {
		return 0, io.EOF
	}
	raw, err := r.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	var readErr error
	err = raw.Control(func(fd uintptr) {
		for {
			n, readErr = syscall.Read(int(fd), b)
			if readErr != syscall.EINTR {
				return
			}
		}
	})
	switch {
	case err != nil:
		return 0, err
	case readErr == syscall.EAGAIN, readErr == nil && n == 0:
		return 0, io.EOF
	case readErr != nil:
		return 0, os.NewSyscallError("read", readErr)
	}
	r.drained.Add(int64(n))
	return n, nil
}
