package handover

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/relay/pipe"
	"github.com/thoughtgate/thoughtgated/daemon/session"
)

// process is a process that is waited for through a handle of just that process: its
// number may be given to another one when it has ended.
type process struct{ handle *os.File }

func openProcess(p session.Process) (*process, error) {
	fd, err := unix.PidfdOpen(int(p.PID), 0)
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", p.PID, os.NewSyscallError("pidfd_open", err))
	}
	// The runtime waits for what doesn't block, without a thread.
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("open process %d: %w", p.PID, err)
	}
	handle := os.NewFile(uintptr(fd), "pidfd")
	if !session.Alive(p) { // what was opened may be another one
		handle.Close()
		return nil, fmt.Errorf("process %d has ended: %w", p.PID, gate.ErrNotRunning)
	}
	return &process{handle}, nil
}

// awaitEnd returns true when the process has ended, and false when ctx has.
func (p *process) awaitEnd(ctx context.Context) bool {
	defer context.AfterFunc(ctx, func() { _ = p.handle.SetReadDeadline(time.Unix(1, 0)) })()
	raw, err := p.handle.SyscallConn()
	if err != nil {
		return false
	}
	return raw.Read(func(fd uintptr) bool { return pipe.Ready(int(fd)) }) == nil
}

func (p *process) close() { _ = p.handle.Close() } // nothing was written
