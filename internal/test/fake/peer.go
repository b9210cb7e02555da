// Package fake holds programs for tests: above all an MCP server whose tools do harmless things
// and log that they did, and an agent that starts the servers of a configuration file and calls
// tools by a script. They are functions; a test that needs a process wraps them in one.
//
// They speak MCP as ordinary programs do, with the decoder of the standard library and without
// further checks, so that what a gate between them forwards is tested realistically.
package fake

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// message is any JSON-RPC message.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *Error          `json:"error,omitempty"`
}

// Error is a JSON-RPC error from the other side.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// errHungUp is the error of pending calls when the other side has closed the connection.
var errHungUp = errors.New("the other side has hung up")

// peer is one end of a connection on which both sides may send requests.
type peer struct {
	// request answers a request. It runs on the reading goroutine and must not block; what
	// takes time it returns as later, which runs in a goroutine.
	request func(ctx context.Context, m *message) (result any, err *Error, later func() (any, *Error))
	// notification handles the other side's notifications.
	notification func(m *message)

	mu      sync.Mutex // guards the fields below, and serializes lines to out
	out     io.Writer
	last    int
	open    map[string]chan *message      // our pending requests
	running map[string]context.CancelFunc // the other side's pending requests
	hungUp  bool
}

func newPeer(out io.Writer) *peer {
	return &peer{out: out, open: map[string]chan *message{}, running: map[string]context.CancelFunc{}, notification: func(*message) {}}
}

const longestLine = 64 << 20

// run reads messages until the end of in. Then it cancels the requests in progress and waits
// for them.
func (p *peer) run(ctx context.Context, in io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	defer p.hangUp()
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), longestLine)
	for lines.Scan() {
		var m message
		if len(lines.Bytes()) == 0 || json.Unmarshal(lines.Bytes(), &m) != nil {
			continue // invalid lines are ignored, as most programs do
		}
		switch {
		case m.Method == "":
			p.settle(&m)
		case m.ID == nil:
			p.notified(&m)
		default:
			p.answer(ctx, &m, &work)
		}
	}
	return lines.Err()
}

// answer answers a request, at once or later.
func (p *peer) answer(ctx context.Context, m *message, work *sync.WaitGroup) {
	ctx, cancel := context.WithCancel(ctx)
	p.mu.Lock()
	p.running[string(m.ID)] = cancel
	p.mu.Unlock()
	finish := func(result any, err *Error) {
		cancelled := ctx.Err() != nil
		p.mu.Lock()
		delete(p.running, string(m.ID))
		p.mu.Unlock()
		cancel()
		if !cancelled {
			_ = p.reply(m.ID, result, err) // the other side may have closed the connection
		}
	}
	result, err, later := p.request(ctx, m)
	if later == nil {
		finish(result, err)
		return
	}
	work.Go(func() { finish(later()) })
}

func (p *peer) reply(id json.RawMessage, result any, err *Error) error {
	if err != nil {
		return p.send(message{ID: id, Error: err})
	}
	raw, failed := json.Marshal(result)
	if failed != nil {
		return failed
	}
	return p.send(message{ID: id, Result: raw})
}

func (p *peer) notified(m *message) {
	if m.Method == "notifications/cancelled" {
		var params struct {
			RequestID json.RawMessage `json:"requestId"`
		}
		_ = json.Unmarshal(m.Params, &params) // without an id it cancels nothing
		p.mu.Lock()
		cancel := p.running[string(params.RequestID)]
		p.mu.Unlock()
		if cancel != nil {
			cancel()
		}
	}
	p.notification(m)
}

// settle passes an answer to the call that waits for it.
func (p *peer) settle(m *message) {
	p.mu.Lock()
	waiting := p.open[string(m.ID)]
	delete(p.open, string(m.ID))
	p.mu.Unlock()
	if waiting != nil {
		waiting <- m
	}
}

func (p *peer) hangUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hungUp = true
	for id, waiting := range p.open {
		delete(p.open, id)
		close(waiting)
	}
}

// call sends a request and waits for its answer. A *Error is from the other side. If ctx ends
// first, call cancels the request.
func (p *peer) call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	answer := make(chan *message, 1)
	p.mu.Lock()
	if p.hungUp {
		p.mu.Unlock()
		return nil, errHungUp
	}
	p.last++
	id := json.RawMessage(fmt.Sprint(p.last))
	p.open[string(id)] = answer
	p.mu.Unlock()
	if err := p.send(message{ID: id, Method: method, Params: raw}); err != nil {
		return nil, fmt.Errorf("%w: %w", errHungUp, err)
	}
	select {
	case m, ok := <-answer:
		if !ok {
			return nil, errHungUp
		}
		if m.Error != nil {
			return nil, m.Error
		}
		return m.Result, nil
	case <-ctx.Done():
		p.mu.Lock()
		delete(p.open, string(id))
		p.mu.Unlock()
		_ = p.notify("notifications/cancelled", map[string]any{"requestId": id, "reason": context.Cause(ctx).Error()})
		return nil, context.Cause(ctx)
	}
}

func (p *peer) notify(method string, params any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	return p.send(message{Method: method, Params: raw})
}

func (p *peer) send(m message) error {
	m.Version = "2.0"
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err = p.out.Write(append(line, '\n'))
	return err
}
