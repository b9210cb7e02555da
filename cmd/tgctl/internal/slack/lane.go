package slack

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	api "github.com/slack-go/slack"
	"golang.org/x/sync/errgroup"

	"github.com/thoughtgate/thoughtgated/internal/display"
)

const (
	// burst is how many questions may wait for one channel before they are posted as a thread
	// below one message.
	burst = 5

	// sendTimeout is the timeout for sending a message. Stopping the program does not interrupt
	// it, since then it would be unknown whether the message was posted.
	sendTimeout = 20 * time.Second

	// updateTries is how often an update is tried that Slack refuses.
	updateTries = 3

	retryFirst = time.Second
	retryLast  = time.Minute
)

// lane sends the messages of one channel, one after the other.
type lane struct {
	a       *app
	channel string        // as the configuration names it
	wake    chan struct{} // holds a token when there may be something to send

	thread string // head of the current burst; used by run only
}

// lane returns the lane of a channel. a.mu must be held.
func (a *app) lane(channel string) *lane {
	l := a.lanes[channel]
	if l == nil {
		l = &lane{a: a, channel: channel, wake: make(chan struct{}, 1)}
		a.lanes[channel] = l
		a.newLanes = append(a.newLanes, l)
		select {
		case a.lanesCame <- struct{}{}:
		default: // deliver has not taken the previous ones yet
		}
	}
	return l
}

func (l *lane) wakeUp() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// deliver runs every lane until ctx ends or Slack refuses a token.
func (a *app) deliver(ctx context.Context) error {
	lanes, ctx := errgroup.WithContext(ctx)
	for {
		select {
		case <-a.lanesCame:
			a.mu.Lock()
			for _, l := range a.newLanes {
				lanes.Go(func() error { return l.run(ctx) })
			}
			a.newLanes = nil
			a.mu.Unlock()
		case <-ctx.Done():
			return lanes.Wait()
		}
	}
}

// run sends messages until ctx ends. It returns an error only if Slack refuses the token.
func (l *lane) run(ctx context.Context) error {
	retry := retryFirst
	for ctx.Err() == nil {
		c, p := l.next()
		if p == nil {
			select {
			case <-l.wake:
			case <-ctx.Done():
			}
			continue
		}
		err := l.send(ctx, c, p)
		pause := l.a.o.Every
		if wait, ok := limited(err); ok {
			pause = max(wait, pause)
			l.a.o.Say("Slack limits the rate; the next message is sent in %s", display.Span(wait))
		} else if err != nil {
			err = explainError(err, "send to "+l.channel)
			if lasting(err) {
				return err
			}
			pause, retry = retry, min(2*retry, retryLast)
			l.a.o.Say("%s (retrying)", errorWithHint(err))
		} else {
			retry = retryFirst
		}
		if sleep(ctx, pause) != nil {
			break
		}
	}
	return nil
}

// next returns the next card to send and its message. The message is nil if there is none; the
// card is nil if the message is the head of a burst. Updates are sent before new questions.
func (l *lane) next() (*card, *post) {
	a := l.a
	a.mu.Lock()
	defer a.mu.Unlock()
	var waiting []*card
	for key, c := range a.cards {
		if c.Asked != l.channel || !c.dirty {
			continue
		}
		switch {
		case c.TS == "" && c.open():
			waiting = append(waiting, c)
		case c.TS == "":
			if c.q != nil || c.gone { // it ended before it was posted
				delete(a.cards, key)
			}
		default:
			p := c.post(a.o.Sheet(c.q))
			if p.digest() != c.Shown && c.tries < updateTries {
				return c, p
			}
			l.markUpToDate(c)
		}
	}
	if len(waiting) == 0 {
		l.thread = ""
		return nil, nil
	}
	if l.thread == "" && len(waiting) > burst {
		return nil, head(len(waiting), waiting[0].flow)
	}
	c := slices.MinFunc(waiting, func(x, y *card) int {
		return cmp.Or(x.q.GetCreated().AsTime().Compare(y.q.GetCreated().AsTime()), cmp.Compare(len(x.ID), len(y.ID)), cmp.Compare(x.ID, y.ID))
	})
	c.Thread = l.thread
	return c, c.post(a.o.Sheet(c.q))
}

// markUpToDate marks c as up to date on Slack, and forgets it if it is settled. a.mu must be held.
func (l *lane) markUpToDate(c *card) {
	c.dirty = false
	if !c.settled(time.Now()) {
		return
	}
	maps.DeleteFunc(l.a.cards, func(_ string, other *card) bool { return other == c })
	if err := l.a.memory.keep(l.a.messages()); err != nil {
		l.a.o.Say("%s", errorWithHint(err)) // a message remembered too long is forgotten at the next start
	}
}

// send posts the message of c, or updates it.
func (l *lane) send(ctx context.Context, c *card, p *post) error {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), sendTimeout)
	defer done()
	switch {
	case c == nil:
		_, ts, err := l.a.slack.PostMessageContext(ctx, l.channel, p.options()...)
		if err == nil {
			l.thread = ts
		}
		return err
	case c.TS == "":
		return l.post(ctx, c, p)
	}
	_, _, _, err := l.a.slack.UpdateMessageContext(ctx, c.Channel, c.TS, p.options()...)
	switch code := codeOf(err); {
	case code == "message_not_found" || code == "cant_update_message" || code == "edit_window_closed" || code == "thread_not_found":
		// Somebody deleted it, or it can no longer be changed. An open question is posted
		// again.
		return l.recordCard(func() { c.TS, c.Channel, c.Shown, c.Thread = "", "", "", "" })
	case err != nil:
		if _, wait := limited(err); code != "" && !wait {
			c.tries++ // tries of one message; those behind it wait
		}
		return l.handleRefusal(c, err)
	}
	return l.recordCard(func() { c.Shown, c.tries = p.digest(), 0 })
}

// post posts the message of c. It first records the attempt: if no reply arrives, the next
// message says that it may be a duplicate.
func (l *lane) post(ctx context.Context, c *card, p *post) error {
	a := l.a
	was := c.unsure
	if err := l.recordCard(func() { c.unsure = true }); err != nil {
		return err
	}
	options := p.options()
	if c.Thread != "" {
		options = append(options, api.MsgOptionTS(c.Thread))
	}
	channel, ts, err := a.slack.PostMessageContext(ctx, l.channel, options...)
	if err != nil {
		if _, wait := limited(err); wait || codeOf(err) != "" { // Slack has replied
			a.mu.Lock()
			c.unsure = was
			a.mu.Unlock()
		}
		if codeOf(err) == "thread_not_found" {
			l.thread = ""
		}
		return l.handleRefusal(c, err)
	}
	err = l.recordCard(func() {
		c.Channel, c.TS, c.Shown, c.unsure = channel, ts, p.digest(), was
	})
	a.o.Say("%s: posted to %s", display.Name(c.ID), display.Name(l.channel))
	return err
}

// handleRefusal handles an error that Slack returned for a message. If the content caused it, the
// message is sent again without the values.
func (l *lane) handleRefusal(c *card, err error) error {
	switch codeOf(err) {
	case "invalid_blocks", "invalid_blocks_format", "msg_too_long", "msg_blocks_too_long", "too_many_blocks":
		l.a.mu.Lock()
		defer l.a.mu.Unlock()
		if c.plain {
			c.dirty = false // Slack would refuse it again; it is answered in a terminal
			return errors.Join(errors.New("Slack does not accept the message of "+c.ID+"; answer in a terminal: tgctl approvals show "+c.ID), err)
		}
		c.plain = true
	}
	return err
}

// recordCard applies change under a.mu and writes the messages to the memory file.
func (l *lane) recordCard(change func()) error {
	l.a.mu.Lock()
	defer l.a.mu.Unlock()
	change()
	close(l.a.recorded)
	l.a.recorded = make(chan struct{})
	return l.a.memory.keep(l.a.messages())
}
