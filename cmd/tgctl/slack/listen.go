package slack

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	api "github.com/slack-go/slack"
	"github.com/slack-go/slack/socketmode"

	"github.com/thoughtgate/thoughtgated/internal/display"
)

const (
	// ackAfter is when an envelope is acknowledged at the latest. Slack shows an
	// error after 3 s and sends it once more.
	ackAfter = 2 * time.Second

	// envelopeMost is how large one may be. A modal's or message's own blocks come
	// along with a press.
	envelopeMost = 1 << 20

	// pressesMost is how many presses are worked at together.
	pressesMost = 32

	// backoffMost is how long a connection is waited for that could not be made.
	backoffMost = 30 * time.Second
)

// listen keeps a Socket Mode connection until ctx ends. It returns an error when
// Slack does not accept the token.
func (a *app) listen(ctx context.Context) error {
	p := &presses{a: a, room: make(chan struct{}, pressesMost)}
	defer p.work.Wait()
	for ctx.Err() == nil {
		if err := p.connection(ctx); err != nil {
			return explained(err, "open Socket Mode with the app-level token from "+a.from.appFrom)
		}
	}
	return nil
}

// presses works at what comes over Socket Mode.
type presses struct {
	a    *app
	room chan struct{} // a place for each press that is worked at
	work sync.WaitGroup

	connected bool // now
}

// connection makes connections, one after the other, until ctx ends or none could be
// made for so long that it begins anew. An error is of the token.
func (p *presses) connection(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	client := socketmode.New(p.a.slack,
		socketmode.OptionDialer(&websocket.Dialer{Proxy: through, HandshakeTimeout: requestMost, WriteBufferSize: 32 << 10}),
		socketmode.OptionReadLimit(envelopeMost))
	ended := make(chan error, 1)
	p.work.Go(func() { ended <- client.RunContext(ctx) })
	for {
		select {
		case e := <-client.Events:
			if err := p.event(ctx, client, &e); err != nil {
				stop()
				<-ended
				if errors.Is(err, errAnew) {
					return nil
				}
				return err
			}
		case err := <-ended:
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}

var errAnew = errors.New("begin anew")

// event takes up one event of a connection.
func (p *presses) event(ctx context.Context, client *socketmode.Client, e *socketmode.Event) error {
	switch data := e.Data.(type) {
	case *socketmode.ConnectedEvent:
		p.connected = true
		p.a.o.Say("connected to Slack")
	case *api.ConnectingEvent:
		if p.connected && data.Attempt == 1 {
			p.connected = false
			p.a.o.Say("Slack ended the connection; another one is made")
		}
	case *api.ConnectionErrorEvent:
		if lasting(data.ErrorObj) || codeOf(data.ErrorObj) == "missing_scope" {
			return data.ErrorObj
		}
		_, wait := limited(data.ErrorObj)
		p.a.o.Say("%s (it is tried again in %s)", hinted(explained(data.ErrorObj, "connect to Slack")), display.Span(data.Backoff))
		if !wait && data.Backoff > backoffMost {
			return errAnew
		}
	case *socketmode.ErrorBadMessage:
		var envelope socketmode.Request
		if json.Unmarshal(data.Message, &envelope) == nil && envelope.EnvelopeID != "" {
			p.a.o.Say("Slack sent something that can't be read; it is passed over")
			p.acknowledge(ctx, client, envelope.EnvelopeID)
		}
	case *socketmode.ErrorWriteFailed:
		p.a.o.Say("acknowledge to Slack: %s; it sends that again", display.Text(data.Cause.Error()))
	case api.InteractionCallback:
		p.press(ctx, client, e.Request.EnvelopeID, &data)
	default:
		if e.Request != nil && e.Request.EnvelopeID != "" { // nothing that we asked to be sent
			p.acknowledge(ctx, client, e.Request.EnvelopeID)
		}
	}
	return nil
}

// acknowledge tells Slack that an envelope has come.
func (p *presses) acknowledge(ctx context.Context, client *socketmode.Client, id string) {
	if err := client.AckCtx(ctx, id, nil); err != nil && ctx.Err() == nil {
		p.a.o.Say("acknowledge to Slack: %s", display.Text(err.Error()))
	}
}

// press works at one press and acknowledges it when that is done, so that Slack
// sends it again should we be gone before; but not later than it wants. One that
// comes again is acknowledged and no more.
func (p *presses) press(ctx context.Context, client *socketmode.Client, envelope string, pressed *api.InteractionCallback) {
	if !p.a.first(envelope) {
		p.acknowledge(ctx, client, envelope)
		return
	}
	select {
	case p.room <- struct{}{}:
	default:
		p.a.o.Say("too many presses at once: one of %s is not worked at", display.Name(pressed.User.ID))
		p.acknowledge(ctx, client, envelope)
		return
	}
	done := make(chan struct{})
	p.work.Go(func() {
		defer func() { close(done); <-p.room }()
		// A stop does not cut short what somebody has pressed.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendMost)
		defer cancel()
		p.a.pressed(ctx, pressed)
	})
	p.work.Go(func() {
		select {
		case <-done:
		case <-time.After(ackAfter):
		}
		p.acknowledge(ctx, client, envelope)
	})
}

// envelopesMost is how many envelopes are remembered, to know one that comes again.
const envelopesMost = 4096

// first reports whether an envelope comes for the first time.
func (a *app) first(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if slices.Contains(a.seen, id) {
		return false
	}
	a.seen = append(a.seen, id)
	a.seen = a.seen[max(0, len(a.seen)-envelopesMost):]
	return true
}
