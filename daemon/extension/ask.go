package extension

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/extension/protocol"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/supervise"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// do asks the extension, which it waits for if it is being started. What was asked is
// not asked again: nobody knows what a program did before it ended.
func (e *extension) do(ctx context.Context, method string, ask func(ctx context.Context, t *talk) error) error {
	if e.wrong != nil {
		return fmt.Errorf("extension %q: %w: %w", e.name, gate.ErrNotRunning, e.wrong)
	}
	if !e.enter() {
		return fmt.Errorf("extension %q: %w: %w", e.name, gate.ErrNotRunning, errGone)
	}
	defer e.leave()
	ctx, asked := context.WithCancelCause(ctx)
	defer asked(nil)
	return e.process.Do(ctx, method, protocol.Timeout(method), func(ctx context.Context, t *talk) error {
		if err := t.Err(); err != nil { // it was not asked yet, and the next life may be
			return err
		}
		err := ask(ctx, t)
		switch {
		case errors.Is(err, wire.ErrClosed):
			asked(fmt.Errorf("%w: %w", supervise.ErrEnded, err))
		case err != nil:
			asked(err)
		}
		return err
	})
}

// enter counts something that is asked of the extension, unless it is leaving.
func (e *extension) enter() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.leaving {
		e.busy++
	}
	return !e.leaving
}

func (e *extension) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.busy--; e.leaving && e.busy == 0 {
		close(e.idle)
	}
}

// dismiss lets nothing more be asked of the extension, and waits a while for what is.
func (e *extension) dismiss() {
	e.mu.Lock()
	e.leaving = true
	if e.busy == 0 {
		close(e.idle)
	}
	e.mu.Unlock()
	patience := time.NewTimer(protocol.Timeout(protocol.HookBefore))
	defer patience.Stop()
	select {
	case <-e.idle:
	case <-patience.C:
	}
}

// call asks the extension for one answer.
func (e *extension) call(ctx context.Context, method string, params []byte) (raw []byte, err error) {
	err = e.do(ctx, method, func(ctx context.Context, t *talk) (err error) {
		raw, err = t.Call(ctx, method, params)
		return err
	})
	return raw, err
}
