package relay

import (
	"fmt"
	"os"
	"syscall"

	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// Process is a process that is watched and signalled through a handle of just that
// process: its number may be given to another one when it has ended.
type Process struct {
	PID   int
	Start uint64 // when it was started, in the system's own unit

	handle *os.File // nil where the system has none
}

// OpenProcess returns the process pid, which must be a child of parent. start is when
// it was started, where that is known; 0 stands for any time.
func OpenProcess(pid, parent int, start uint64) (*Process, error) {
	handle, err := openHandle(pid) // before it is looked at: what is seen is of this one, or of none
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", pid, err)
	}
	p := &Process{PID: pid, handle: handle}
	is, err := sock.ProcessOf(int32(pid))
	switch {
	case err != nil:
	case p.ended():
		err = os.ErrProcessDone
	case parent > 0 && int(is.PPID) != parent:
		err = fmt.Errorf("it is a child of %d, not of %d", is.PPID, parent)
	case start > 0 && is.Start != start:
		err = fmt.Errorf("it was started at %d, not at %d", is.Start, start)
	}
	if err != nil {
		p.close()
		return nil, fmt.Errorf("open process %d: %w", pid, err)
	}
	p.Start = is.Start
	return p, nil
}

// File is the handle, nil where there is none. It is the process's.
func (p *Process) File() *os.File { return p.handle }

// fd is the number of its handle, -1 for none.
func (p *Process) fd() int32 {
	if p == nil || p.handle == nil {
		return -1
	}
	return int32(p.handle.Fd())
}

func (p *Process) close() {
	if p != nil && p.handle != nil {
		p.handle.Close()
	}
}

// signal sends a signal. One that has ended takes none.
func (p *Process) signal(sig syscall.Signal) {
	if p != nil && p.handle != nil {
		_ = signalHandle(p.handle, sig)
	}
}
