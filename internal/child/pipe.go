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

// pipes holds both ends of stdin, stdout and stderr, all of them close-on-exec. They are nil for a
// stream that the Spec sets.
type pipes [3]struct{ ours, theirs *os.File }

func openPipes(spec *Spec) (*pipes, error) {
	var p pipes
	for i, given := range []*os.File{spec.Stdin, spec.Stdout, spec.Stderr} {
		if given != nil {
			continue
		}
		r, w, err := os.Pipe()
		if err != nil {
			p.closeTheirs()
			p.closeOurs()
			return nil, err
		}
		if p[i].ours, p[i].theirs = r, w; i == 0 {
			p[i].ours, p[i].theirs = w, r
		}
	}
	return &p, nil
}

// closeTheirs closes the child's ends, of which the child has copies. Closing a nil file does
// no harm.
func (p *pipes) closeTheirs() {
	for _, stream := range p {
		stream.theirs.Close()
	}
}

func (p *pipes) closeOurs() {
	for _, stream := range p {
		stream.ours.Close()
	}
}

// keepInherited marks the descriptors that this process inherited as close-on-exec. Go opens
// its own so, but does not change inherited ones, and an agent may pass more than it means to.
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
	close func() error // closes the file once
}

// Close closes the child's input and unblocks a pending Write.
func (w *writeEnd) Close() error { return w.close() }

// maxPipe is the most that a pipe can hold without privilege, and so the most that is read from
// one after end was called.
const maxPipe = 1 << 20

// outEnd is the child's stdout or stderr. It reads until the other side is closed or end was
// called, and is closed at the end of the stream. Read is for one goroutine at a time; the
// other methods are safe for concurrent use.
type outEnd struct {
	file    *os.File
	ended   atomic.Bool  // reads no longer block
	drained atomic.Int64 // bytes read since then

	once sync.Once
	err  error // of Close
}

// Read returns io.EOF from the end of the stream on, and then releases the descriptor. After
// end it does not block.
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

// Close closes the stream. A child that writes more gets SIGPIPE.
func (r *outEnd) Close() error {
	r.once.Do(func() { r.err = r.file.Close() })
	return r.err
}

// end makes reads return the rest of the pipe, 1 MiB at most, and then io.EOF. It unblocks a
// pending Read. It fails if the stream is closed.
func (r *outEnd) end() error {
	r.ended.Store(true)
	return r.file.SetReadDeadline(time.Unix(1, 0))
}

// drain reads without blocking. It bypasses the poller, which reports an expired deadline
// before it looks at the pipe.
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
