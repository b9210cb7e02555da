package phone

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/client/inbox"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// job is one message to send.
type job struct {
	m      *message
	c      *card  // nil for the summary
	digest string // of m without its priority
	ended  bool   // m says that the question has ended
	reply  bool   // m is what follows a press of a button
}

// deliver sends messages, one after the other, until ctx ends. It returns an error only if the server does not
// allow that.
func (p *phone) deliver(ctx context.Context) error {
	retry := p.o.pace.retryFirst
	for ctx.Err() == nil {
		j, wait, err := p.next(ctx)
		switch {
		case err == nil && j == nil:
			p.idle(ctx, wait)
			continue
		case err == nil:
			err = p.send(ctx, j)
		}
		pause := p.o.pace.between
		switch after, wanted := limited(err); {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			retry = p.o.pace.retryFirst
		case lasting(err):
			return notAllowed("publish questions", err)
		case aboutContent(err):
			p.lighten(j)
		case wanted:
			pause = max(after, pause)
		default:
			pause, retry = max(retry, pause), min(2*retry, p.o.pace.retryLast)
		}
		p.logProblem(err, pause)
		sleep(ctx, pause)
	}
	return nil
}

// notAllowed explains that the server does not allow what this program does.
func notAllowed(what string, err error) error {
	return &ui.HintError{
		Err:  fmt.Errorf("%s: the ntfy server: %w", what, err),
		Hint: "Look at its access control, or set it up again with another token: tgctl notify --via ntfy --setup",
	}
}

// logProblem logs why nothing is sent, once until something else is the matter.
func (p *phone) logProblem(err error, pause time.Duration) {
	said := ""
	if err != nil {
		said = err.Error()
	}
	switch {
	case said == p.lastProblem:
	case err != nil:
		p.o.Log.Warn("a message was not sent; questions wait, also in terminals", "err", err, "next_try_in", pause.String())
	default:
		p.o.Log.Info("messages are sent again")
	}
	p.lastProblem = said
}

// idle waits until there may be something to send, or for d, if that is not 0.
func (p *phone) idle(ctx context.Context, d time.Duration) {
	var due <-chan time.Time
	if d > 0 {
		due = time.After(d)
	}
	select {
	case <-p.wake:
	case <-due:
	case <-ctx.Done():
	}
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// next returns what to send next, nil if there is nothing. wait is when that may change by itself; 0 for
// never. Changes of what is shown come before new questions.
func (p *phone) next(ctx context.Context) (j *job, wait time.Duration, err error) {
	flows, err := inbox.Workflows(ctx, p.o.Daemon)
	if err != nil {
		return nil, 0, fmt.Errorf("read the workflows from the daemon: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var waiting []*card
	alone := 0
	for _, c := range p.cards {
		w := flows[c.q.GetWorkflow()]
		switch {
		case c.q == nil || c.refused || w.GetAsks() == "slack": // those are not shown here
		case !c.posted:
			waiting = append(waiting, c)
		default:
			if c.open() {
				alone++
			}
			if j := p.jobOf(c, w); j.digest != c.Shown || c.pressed {
				return j, 0, nil
			}
		}
	}
	return p.nextNew(waiting, alone, flows)
}

// nextNew is next for the questions that wait and were not sent. p.mu must be held.
func (p *phone) nextNew(waiting []*card, alone int, flows map[string]*pb.PolicyWorkflow) (*job, time.Duration, error) {
	now := p.o.Now()
	p.recent = slices.DeleteFunc(p.recent, func(t time.Time) bool { return now.Sub(t) >= recentIn })
	if len(waiting) > 0 {
		if young := p.o.pace.gathering - now.Sub(waiting[0].came); young > 0 {
			return nil, young, nil
		}
		if alone < maxAlone && len(p.recent) < maxRecent {
			return p.jobOf(waiting[0], flows[waiting[0].q.GetWorkflow()]), 0, nil
		}
	}
	m := p.summaryOf(len(waiting))
	switch early := p.o.pace.summaries - now.Sub(p.summaryAt); {
	case len(waiting) == 0 && p.summary == "":
		return nil, 0, nil
	case m.Title == p.summary && len(p.recent) >= maxRecent:
		return nil, recentIn - now.Sub(p.recent[0]), nil
	case m.Title == p.summary:
		return nil, 0, nil
	case early > 0:
		return nil, early, nil
	}
	return &job{m: m}, 0, nil
}

// jobOf returns the message about c, with its priority.
func (p *phone) jobOf(c *card, w *pb.PolicyWorkflow) *job {
	m := p.messageOf(c, w)
	text, _ := json.Marshal(m) // it has strings only
	sum := sha256.Sum256(text)
	switch {
	case c.pressed:
		m.Priority = priorityNormal
	case !c.open():
		m.Priority = priorityMin
	case c.Shown != "":
		m.Priority = priorityLow
	case slices.ContainsFunc(c.q.GetFacts(), approval.IsGrave):
		m.Priority = priorityHigh
	}
	return &job{m, c, hex.EncodeToString(sum[:codeBytes]), !c.open(), c.pressed}
}

// send sends a message.
func (p *phone) send(ctx context.Context, j *job) error {
	if j.c == nil {
		_, err := p.server.publish(ctx, j.m)
		if err == nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.summary, p.summaryAt = j.m.Title, p.o.Now()
			if j.m.Priority == priorityMin {
				p.summary = ""
			}
		}
		return err
	}
	// The question may be on the phone from now on, whatever becomes of the request. The next run, too, has to
	// show its end and to understand answers to it.
	if err := p.remember(func() {
		if !j.c.posted {
			p.recent = append(p.recent, p.o.Now())
		}
		j.c.posted = true
	}); err != nil {
		return err
	}
	if _, err := p.server.publish(ctx, j.m); err != nil {
		return err
	}
	p.o.Log.Info("sent", "question", j.c.ID, "ended", j.ended)
	return p.remember(func() { j.c.Shown, j.c.pressed, j.c.done = j.digest, j.c.pressed && !j.reply, j.ended })
}

// remember changes a card, and remembers which questions may be on the phone.
func (p *phone) remember(change func()) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	var all []sent
	for _, c := range p.cards {
		if c.posted && !c.done {
			all = append(all, c.sent)
		}
	}
	return p.memory.keep(all)
}

// lighten has a message that the server does not accept sent without its values, or else not at all.
func (p *phone) lighten(j *job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case j.c == nil:
		p.summary, p.summaryAt = j.m.Title, p.o.Now()
	case !j.c.plain && p.s.Values:
		j.c.plain = true
	default:
		j.c.refused = true
		p.o.Log.Warn("the server accepts no message about a question; answer it in a terminal", "question", j.c.ID, "command", "tgctl approvals show "+j.c.ID)
	}
}
