package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// watch checks periodically whether the parts of a daemon respond, and reports success only if all
// do. It checks one part after the other in one goroutine: a part that hangs blocks the watch,
// which then reports nothing, and the listener ends the daemon.
type watch struct {
	parts []part
	every time.Duration // interval between checks, and their timeout
	log   *slog.Logger
}

// part is something that judging needs. look returns when the part has responded; with an error,
// the part did not respond.
type part struct {
	name string
	look func(context.Context) error
}

// run checks until ctx ends, and calls alive after each check in which every part responded in
// time. While a part hangs, run does not return even if ctx has ended.
func (w *watch) run(ctx context.Context, alive func()) {
	for {
		began := time.Now()
		switch err := w.look(ctx); {
		case ctx.Err() != nil:
			return
		case err != nil:
			w.log.Error("the self-check failed", "err", err)
		case time.Since(began) > w.every:
			w.log.Error("the self-check took too long", "took", time.Since(began), "limit", w.every)
		default:
			alive()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(w.every - min(w.every, time.Since(began))):
		}
	}
}

// look checks each part. A part that hangs is logged while it does, since the reason must be in the
// log before the daemon is killed for it.
func (w *watch) look(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, w.every)
	defer cancel()
	for _, p := range w.parts {
		late := time.AfterFunc(w.every, func() { w.log.Error("the self-check hangs", "part", p.name, "for", w.every) })
		err := p.look(limited)
		late.Stop()
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// Watch checks the daemon through its own gate until ctx ends. It calls alive after each successful
// check: a call was judged by the set in force, and the configuration, the questions, the state and
// the audit log responded within every. every is also the interval between checks. A part that
// responds with an error of its own counts as alive: it denies calls and says why, and another
// daemon would do the same. While a part hangs, Watch does not return.
func (d *Daemon) Watch(ctx context.Context, every time.Duration, alive func()) {
	w := &watch{parts: d.parts(), every: every, log: d.log}
	w.run(ctx, alive)
}

// parts returns the parts that a call needs, in the order in which it needs them.
func (d *Daemon) parts() []part {
	return []part{
		{"judging a call", d.judgeSample},
		{"the configuration", func(context.Context) error {
			d.policies.reloading.Lock()
			defer d.policies.reloading.Unlock()
			d.policies.Failure()
			return nil
		}},
		{"the sessions", func(context.Context) error { d.sessions.List(); return nil }},
		{"the questions", func(context.Context) error { d.queue.List(false); return nil }},
		{"the state", func(ctx context.Context) error {
			_, err := d.store.ActiveSet(ctx)
			if errors.Is(err, context.DeadlineExceeded) {
				return err
			}
			return nil
		}},
		{"the record", func(context.Context) error { d.audit.Await(); return nil }},
	}
}

// sampleShim and sampleCall are judged to check that judging works. No agent can have this
// attachment id, since real ids are longer.
var (
	sampleShim = gate.Shim{Attachment: "self-check", Server: "thoughtgate-self-check"}
	sampleCall = []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"self_check","arguments":{}}}`)
)

// judgeSample passes a call through the daemon's gate, except for the stage that asks a person. The
// call is neither recorded nor remembered.
func (d *Daemon) judgeSample(ctx context.Context) error {
	line := append([]byte(nil), sampleCall...) // the gate takes ownership of the line
	c, err := d.judge.Read(sampleShim, gate.Submission{Seq: 1, Side: wire.FromAgent, Line: line})
	if err != nil {
		return err
	}
	defer d.judge.Facts.Forget(sampleShim.Session, sampleShim.Attachment)
	if _, ruling := d.judge.Rehearse(ctx, c); ruling.Move == 0 {
		return errors.New("the gate has no verdict")
	}
	return nil
}
