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

// watch looks again and again whether the parts of a daemon still answer, and
// says so only when all of them have. It does so in one goroutine and one part
// after the other: a part that hangs holds up the watch, which then says nothing
// more, and whoever listens ends the daemon.
type watch struct {
	parts []part
	every time.Duration // from one look to the next, and how long one may take
	log   *slog.Logger
}

// part is something without which nothing can be judged. The look returns when
// the part has answered; an error is no answer.
type part struct {
	name string
	look func(context.Context) error
}

// run looks until ctx ends, and calls alive after each look at which every part
// has answered in time. It returns later than ctx ends while a part hangs.
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

// look asks each part. Why nothing is said of the daemon being alive has to
// stand in the log before the daemon is killed for it, so one that hangs is
// named while it does.
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

// Watch checks the daemon through its own gate until ctx ends, and calls alive
// after each check that was passed: a call was judged by the set in force, and
// the configuration, the questions, the state and the record answered within
// every, which is also the pause between two checks. A part that answers with
// an error of its own is alive: it refuses calls and says why, and nothing is
// gained by another daemon that does the same. While a part hangs, Watch
// does not return.
func (d *Daemon) Watch(ctx context.Context, every time.Duration, alive func()) {
	w := &watch{parts: d.parts(), every: every, log: d.log}
	w.run(ctx, alive)
}

// parts are what a call needs on its way, in that order.
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
			_, err := d.store.Standing(ctx)
			if errors.Is(err, context.DeadlineExceeded) {
				return err
			}
			return nil
		}},
		{"the record", func(context.Context) error { d.audit.Await(); return nil }},
	}
}

// sampleShim and sampleCall are what is judged to see whether judging works. No
// agent can have them: ids of attachments are longer.
var (
	sampleShim = gate.Shim{Attachment: "self-check", Server: "thoughtgate-self-check"}
	sampleCall = []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"self_check","arguments":{}}}`)
)

// judgeSample takes a call through the gate that judges all others, as far as
// the gate that asks a person. It is not recorded, and nobody remembers it.
func (d *Daemon) judgeSample(ctx context.Context) error {
	line := append([]byte(nil), sampleCall...) // the gate owns what it is given
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
