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
	// ackAfter is when an envelope is acknowledged at the latest. After 3 s without an
	// acknowledgement, Slack shows an error and sends the envelope again.
	ackAfter = 2 * time.Second

	// maxEnvelopeBytes is the maximum size of an envelope in bytes. A press carries the blocks of
	// its message or modal.
	maxEnvelopeBytes = 1 << 20

	// pressesMost is how many presses are handled at the same time.
	pressesMost = 32

	// backoffMost is the longest backoff of the Socket Mode client before it is replaced.
	backoffMost = 30 * time.Second
)

// listen keeps a Socket Mode connection until ctx ends. It returns an error if Slack does not
// accept the token.
func (a *app) listen(ctx context.Context) error {
	p := &presses{a: a, slots: make(chan struct{}, pressesMost)}
	defer p.work.Wait()
	for ctx.Err() == nil {
		if err := p.connection(ctx); err != nil {
			return explainError(err, "open Socket Mode with the app-level token from "+a.from.appFrom)
		}
	}
	return nil
}

// presses handles what arrives over Socket Mode.
type presses struct {
	a     *app
	slots chan struct{} // holds an element for each press being handled
	work  sync.WaitGroup

	connected bool // whether the connection is established
}

// connection runs a Socket Mode client, which reconnects, until ctx ends or the client's
// backoff grows too long. It returns an error only if Slack does not accept the token.
func (p *presses) connection(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	client := socketmode.New(p.a.slack,
		socketmode.OptionDialer(&websocket.Dialer{Proxy: proxyFor, HandshakeTimeout: requestTimeout, WriteBufferSize: 32 << 10}),
		socketmode.OptionReadLimit(maxEnvelopeBytes))
	ended := make(chan error, 1)
	p.work.Go(func() { ended <- client.RunContext(ctx) })
	for {
		select {
		case e := <-client.Events:
			if err := p.event(ctx, client, &e); err != nil {
				stop()
				<-ended
				if errors.Is(err, errReconnect) {
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

var errReconnect = errors.New("reconnect")

// event handles one event of a connection.
func (p *presses) event(ctx context.Context, client *socketmode.Client, e *socketmode.Event) error {
	switch data := e.Data.(type) {
	case *socketmode.ConnectedEvent:
		p.connected = true
		p.a.o.Say("connected to Slack")
	case *api.ConnectingEvent:
		if p.connected && data.Attempt == 1 {
			p.connected = false
			p.a.o.Say("Slack ended the connection; reconnecting")
		}
	case *api.ConnectionErrorEvent:
		if lasting(data.ErrorObj) || codeOf(data.ErrorObj) == "missing_scope" {
			return data.ErrorObj
		}
		_, wait := limited(data.ErrorObj)
		p.a.o.Say("%s (retrying in %s)", errorWithHint(explainError(data.ErrorObj, "connect to Slack")), display.Span(data.Backoff))
		if !wait && data.Backoff > backoffMost {
			return errReconnect
		}
	case *socketmode.ErrorBadMessage:
		var envelope socketmode.Request
		if json.Unmarshal(data.Message, &envelope) == nil && envelope.EnvelopeID != "" {
			p.a.o.Say("ignored an invalid message from Slack")
			p.acknowledge(ctx, client, envelope.EnvelopeID)
		}
	case *socketmode.ErrorWriteFailed:
		p.a.o.Say("acknowledge to Slack: %s; Slack sends the event again", display.Text(data.Cause.Error()))
	case api.InteractionCallback:
		p.press(ctx, client, e.Request.EnvelopeID, &data)
	default:
		if e.Request != nil && e.Request.EnvelopeID != "" { // of a type that this program does not use
			p.acknowledge(ctx, client, e.Request.EnvelopeID)
		}
	}
	return nil
}

// acknowledge tells Slack that an envelope arrived.
func (p *presses) acknowledge(ctx context.Context, client *socketmode.Client, id string) {
	if err := client.AckCtx(ctx, id, nil); err != nil && ctx.Err() == nil {
		p.a.o.Say("acknowledge to Slack: %s", display.Text(err.Error()))
	}
}

// press handles one press and then acknowledges it, so that Slack sends it again if this
// process exits before. After ackAfter it is acknowledged even if it is still being handled. A
// repeated press is only acknowledged.
func (p *presses) press(ctx context.Context, client *socketmode.Client, envelope string, pressed *api.InteractionCallback) {
	if !p.a.first(envelope) {
		p.acknowledge(ctx, client, envelope)
		return
	}
	select {
	case p.slots <- struct{}{}:
	default:
		p.a.o.Say("too many presses at once: ignored one by %s", display.Name(pressed.User.ID))
		p.acknowledge(ctx, client, envelope)
		return
	}
	done := make(chan struct{})
	p.work.Go(func() {
		defer func() { close(done); <-p.slots }()
		// Stopping the program must not interrupt a press.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTimeout)
		defer cancel()
		p.a.handlePress(ctx, pressed)
	})
	p.work.Go(func() {
		select {
		case <-done:
		case <-time.After(ackAfter):
		}
		p.acknowledge(ctx, client, envelope)
	})
}

// envelopesMost is how many envelope ids are remembered to detect repeated ones.
const envelopesMost = 4096

// first reports whether an envelope arrives for the first time.
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
