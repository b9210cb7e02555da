package serve

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// pipe is both ends of one.
type pipe struct{ r, w *os.File }

// pipes are those that the shim makes: the server's input and output, and one whose
// write end only the daemon has once we have handed it over.
type pipes struct{ input, output, drained pipe }

func (p *pipes) open() error {
	for _, made := range []*pipe{&p.input, &p.output, &p.drained} {
		var err error
		if made.r, made.w, err = os.Pipe(); err != nil {
			p.close()
			return fmt.Errorf("make the server's pipes: %w", err)
		}
	}
	return nil
}

// descriptors are what the daemon gets, in its order.
func (p *pipes) descriptors() []int {
	fds := []int{unix.Stdin, unix.Stdout}
	for _, f := range []*os.File{p.input.w, p.output.r, p.drained.w} {
		fds = append(fds, int(f.Fd())) // which makes it wait when it is read or written
	}
	return fds
}

// closeDaemons closes the ends that only the daemon is to have. Files may be closed
// more than once.
func (p *pipes) closeDaemons() {
	p.input.w.Close()
	p.output.r.Close()
	p.drained.w.Close()
}

// closeServers closes those of the server, which has its own copies by now.
func (p *pipes) closeServers() {
	p.input.r.Close()
	p.output.w.Close()
}

func (p *pipes) close() {
	p.closeDaemons()
	p.closeServers()
	p.drained.r.Close()
}

// handOver closes the agent's standard input and output, which the daemon holds now:
// while we have them as well, neither side learns of the end of the other. Their
// numbers lead to nothing then, and are not given to anything else.
func handOver() error {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", os.DevNull, err)
	}
	defer unix.Close(null)
	for fd, f := range []*os.File{os.Stdin, os.Stdout} {
		// The poller lets go of what it watches only when the file is closed.
		err := f.Close()
		if null != fd {
			err = errors.Join(err, dup(null, fd))
		}
		if err != nil {
			return fmt.Errorf("let go of the agent's %s: %w", f.Name(), err)
		}
	}
	return nil
}
