package handover

import (
	"context"
	"fmt"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/session"
)

// pollInterval is the pause between two looks at a process, of which macOS has no handle.
const pollInterval = time.Second

type process struct{ session.Process }

func openProcess(p session.Process) (*process, error) {
	if !session.Alive(p) {
		return nil, fmt.Errorf("process %d has ended: %w", p.PID, gate.ErrNotRunning)
	}
	return &process{p}, nil
}

// awaitEnd returns true when the process has ended, and false when ctx has.
func (p *process) awaitEnd(ctx context.Context) bool {
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for session.Alive(p.Process) {
		select {
		case <-poll.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

func (p *process) close() {}
