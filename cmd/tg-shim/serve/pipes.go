package serve

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// pipe holds both ends of a pipe.
type pipe struct{ r, w *os.File }

// pipes are the pipes that tg-shim creates: the server's input and output, and one whose write
// end only the daemon holds after the handover.
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

// descriptors returns the descriptors for the daemon, in the order of the protocol.
func (p *pipes) descriptors() []int {
	fds := []int{unix.Stdin, unix.Stdout}
	for _, f := range []*os.File{p.input.w, p.output.r, p.drained.w} {
		fds = append(fds, int(f.Fd())) // Fd makes it blocking
	}
	return fds
}

// closeDaemons closes the ends that only the daemon should hold. Files may be closed more than
// once.
func (p *pipes) closeDaemons() {
	p.input.w.Close()
	p.output.r.Close()
	p.drained.w.Close()
}

// closeServers closes the server's ends, of which the server has copies.
func (p *pipes) closeServers() {
	p.input.r.Close()
	p.output.w.Close()
}

func (p *pipes) close() {
	p.closeDaemons()
	p.closeServers()
	p.drained.r.Close()
}

// handOver closes the agent's standard input and output, which the daemon holds now: as long as
// this process holds them too, neither side learns of the other's end. It points their numbers
// to the null device, so that nothing else gets them.
func handOver() error {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", os.DevNull, err)
	}
	defer unix.Close(null)
	for fd, f := range []*os.File{os.Stdin, os.Stdout} {
		// The poller releases what it watches only when the file is closed.
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
