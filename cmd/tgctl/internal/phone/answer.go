package phone

import (
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/client/inbox"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

const (
	// maxAnswerBytes is the maximum length of an answer, in bytes.
	maxAnswerBytes = 128

	// maxUsed is how many used codes are remembered, to tell a repeated answer from one that is too late.
	maxUsed = 1024

	// steady is how long a stream has to last for the next failure to be the first one again.
	steady = time.Minute
)

// idForm is what the id of a question looks like.
var idForm = regexp.MustCompile(`^A-[0-9]{1,18}$`)

// eventForm is what the id of a message of ntfy looks like.
var eventForm = regexp.MustCompile(`^[A-Za-z0-9]{1,64}$`)

// listen reads answers until ctx ends, also those that were published while it was not connected. It returns an
// error only if the server does not allow that.
func (p *phone) listen(ctx context.Context) error {
	retry, said := p.o.pace.retryFirst, ""
	for ctx.Err() == nil {
		began := time.Now()
		err := p.server.stream(ctx, p.s.Answers, p.memory.since(), func(e *event) error { return p.received(ctx, e) })
		if ctx.Err() != nil {
			return nil
		}
		if lasting(err) {
			return notAllowed("read answers", err)
		}
		if time.Since(began) > steady {
			retry, said = p.o.pace.retryFirst, ""
		}
		pause := retry
		if after, wanted := limited(err); wanted {
			pause = max(after, pause)
		}
		if said != err.Error() {
			said = err.Error()
			p.o.Log.Warn("not connected to the ntfy server, so no answer comes from the phone; it is tried again", "err", err, "next_try_in", pause.String())
		}
		retry = min(2*retry, p.o.pace.retryLast)
		sleep(ctx, pause)
	}
	return nil
}

// received handles a message to the topic for answers. The position in the stream is remembered only afterwards, so
// that an answer that was not handled comes again.
func (p *phone) received(ctx context.Context, e *event) error {
	if !eventForm.MatchString(e.ID) {
		return errors.New("it has sent a message without an id of ntfy")
	}
	refused := p.answer(ctx, e.Message)
	reported := refused != nil && p.refuse(ctx, refused)
	if err := p.memory.handled(e.ID, refused == nil || reported); err != nil {
		p.o.Log.Warn("an answer that was handled may come again", "err", err)
	}
	return nil
}

// refusedAnswer is an answer that does not count.
type refusedAnswer struct {
	id  string // of the question; empty if it is about none that was sent
	why string
}

// answer handles an answer, and returns it if it does not count for a reason that the daemon has to record.
func (p *phone) answer(ctx context.Context, text string) *refusedAnswer {
	words := strings.Fields(text)
	if len(text) > maxAnswerBytes || len(words) != 3 || !idForm.MatchString(words[1]) || !slices.Contains([]string{pressApprove, pressDeny, pressShow}, words[0]) {
		return &refusedAnswer{"", "what came to the topic for answers was not from a button"}
	}
	verb, id, code := words[0], words[1], words[2]
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.find(id)
	switch {
	case c == nil:
		return &refusedAnswer{"", "an answer was about a question that is not on the phone"}
	case !hmac.Equal([]byte(code), []byte(p.s.code(verb, id, c.Subject))):
		return &refusedAnswer{id, "an answer to " + verb + " it had no valid code: it was forged, or is for another question or another set-up"}
	case verb == pressShow:
		if c.open() && !c.detail {
			c.detail, c.pressed = true, true
			p.wakeUp()
		}
		return nil
	case slices.Contains(p.used, code):
		return &refusedAnswer{id, "an answer to " + verb + " it came again"}
	}
	return p.decide(ctx, c, verb, code)
}

// decide answers a question. p.mu must be held; it is released while the daemon is asked.
func (p *phone) decide(ctx context.Context, c *card, verb, code string) *refusedAnswer {
	answer := pb.Answer_ANSWER_DENY
	if verb == pressApprove {
		answer = pb.Answer_ANSWER_APPROVE
	}
	p.mu.Unlock()
	// An answer on its way is waited for, even if this process is told to stop.
	done, err := inbox.Decide(context.WithoutCancel(ctx), p.o.Daemon, &pb.Decision{Id: c.ID, Subject: c.Subject, Answer: answer, Surface: surface})
	p.mu.Lock()
	defer p.wakeUp()
	if err == nil || errors.Is(err, client.ErrDecided) {
		p.used = append(p.used, code)
		p.used = p.used[max(0, len(p.used)-maxUsed):]
	}
	if q := done.GetApproval(); q != nil {
		c.q = q
	}
	switch {
	case err == nil:
		p.o.Log.Info("answered", "question", c.ID, "answer", verb)
		return nil
	case errors.Is(err, client.ErrDecided):
		c.late, c.pressed = display.Safe(verb), true
		return &refusedAnswer{c.ID, "an answer to " + verb + " it came too late"}
	}
	c.problem, c.pressed = approval.FailureLine(c.ID, err), true // it can be pressed again
	if errors.Is(err, client.ErrForbidden) {
		return &refusedAnswer{c.ID, "an answer to " + verb + " it was not allowed: " + err.Error()}
	}
	p.o.Log.Warn("an answer was not accepted", "question", c.ID, "answer", verb, "err", err)
	return nil
}

// maxReportBytes limits the length of a report, in bytes. The daemon takes no more.
const maxReportBytes = 512

// refuse logs an answer that does not count, has the daemon record it, and reports whether it did. Anybody who knows
// the topic can publish any number of them, so one report counts those since the last.
func (p *phone) refuse(ctx context.Context, r *refusedAnswer) bool {
	now := p.o.Now()
	if now.Before(p.reportAt) {
		p.unreported++
		return false
	}
	why := r.why
	if p.unreported > 0 {
		why += fmt.Sprintf("; %d more were refused before", p.unreported)
	}
	p.reportAt, p.unreported = now.Add(p.o.pace.reports), 0
	p.o.Log.Warn("refused an answer", "question", r.id, "why", why)
	ctx, cancel := context.WithTimeout(ctx, inbox.Timeout)
	defer cancel()
	report := &pb.ReportRequest{Id: r.id, Surface: surface, Reason: strings.ToValidUTF8(why[:min(len(why), maxReportBytes)], "")}
	if err := p.o.Daemon.Report(ctx, report); err != nil && ctx.Err() == nil {
		p.o.Log.Warn("a refused answer was not recorded", "err", err)
	}
	return true
}
