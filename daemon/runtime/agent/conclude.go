package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/supervise"
	"github.com/thoughtgate/thoughtgated/internal/child"
	"github.com/thoughtgate/thoughtgated/internal/rpc"
)

// daemonEnds is the reason of a run that ended because the daemon did.
const daemonEnds = "the daemon ended and stopped its runs"

// conclude returns how the run ended: its answer, or why there is none.
func (o *run) conclude(answer Result, err, end error, started bool) Result {
	cause := context.Cause(o.ctx)
	var exited *supervise.ExitError
	errors.As(end, &exited)
	switch {
	case err == nil && exited != nil && exited.State.ExitStatus() != 0 && answer.Exit == ExitOK:
		answer.Exit, answer.Reason = exited.State.ExitStatus(), fmt.Sprintf("it ended after its answer: %s", exited)
		return answer
	case err == nil:
		return answer
	case errors.Is(cause, errTimeout):
		return Result{Exit: ExitTimeout, Reason: fmt.Sprintf("no answer within %s", o.timeout)}
	case errors.Is(cause, gate.ErrNotRunning):
		return Result{Exit: ExitInternal, Reason: daemonEnds}
	case errors.Is(cause, errClosed):
		return Result{Exit: ExitInternal, Reason: cause.Error()}
	case cause != nil: // cancelled by its caller
		return Result{Exit: ExitCancelled, Reason: errCancelled.Error()}
	case exited != nil:
		return Result{Exit: max(ExitFailed, exited.State.ExitStatus()), Reason: fmt.Sprintf("it ended without an answer: %s", exited)}
	case !started && end != nil:
		return Result{Exit: child.StartExit(end), Reason: end.Error()}
	case errors.Is(err, errInternal):
		return Result{Exit: ExitInternal, Reason: err.Error()}
	case errors.Is(err, rpc.ErrClosed) && end != nil:
		return Result{Exit: ExitFailed, Reason: fmt.Sprintf("no answer: %v", end)}
	}
	return Result{Exit: ExitFailed, Reason: err.Error()}
}
