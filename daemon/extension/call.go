package extension

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"

	"github.com/thoughtgate/thoughtgated/daemon/extension/manifest"
	"github.com/thoughtgate/thoughtgated/daemon/extension/protocol"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Tool is a tool that an extension offers.
type Tool struct {
	Extension string
	protocol.Tool
}

// Provider is something that answers for models, which an extension offers.
type Provider struct {
	Extension string
	protocol.Provider
}

// Tools returns what extensions offer now, by the names of the extensions and else in
// their order. An extension that is being started again still offers what it did.
func (r *Registry) Tools() []Tool {
	var all []Tool
	for _, e := range r.sorted() {
		for _, t := range e.offers().Tools {
			all = append(all, Tool{e.name, t})
		}
	}
	return all
}

// Providers is Tools for providers.
func (r *Registry) Providers() []Provider {
	var all []Provider
	for _, e := range r.sorted() {
		for _, p := range e.offers().Providers {
			all = append(all, Provider{e.name, p})
		}
	}
	return all
}

// CallTool calls a tool of an extension with the raw JSON object input and returns
// the raw result in one line: what MCP calls the result of tools/call. Nothing is
// judged here. Errors are gate.ErrNotFound for a tool that is not offered, those of
// supervise, a *wire.Fault that the extension answered with, and what is wrong with
// its answer.
func (r *Registry) CallTool(ctx context.Context, extension, tool string, input []byte) ([]byte, error) {
	e, err := r.find(extension)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(e.offers().Tools, func(t protocol.Tool) bool { return t.Name == tool }) {
		return nil, fmt.Errorf("tool %q of extension %q: %w", tool, extension, gate.ErrNotFound)
	}
	raw, err := e.call(ctx, protocol.ToolCall, protocol.ToolParams(tool, input))
	if err != nil {
		return nil, err
	}
	if raw, err = protocol.CheckResult(raw); err != nil {
		return nil, fmt.Errorf("tool %q of extension %q: %w", tool, extension, err)
	}
	return raw, nil
}

// Complete asks a provider for an answer. Errors are those of CallTool.
func (r *Registry) Complete(ctx context.Context, extension string, c *protocol.Completion) (*protocol.Completed, error) {
	e, err := r.provider(extension, c)
	if err != nil {
		return nil, err
	}
	raw, err := e.call(ctx, protocol.ProviderComplete, c.Params(""))
	if err != nil {
		return nil, err
	}
	return e.completed(protocol.ProviderComplete, raw)
}

func (e *extension) completed(method string, raw []byte) (*protocol.Completed, error) {
	c, err := protocol.ReadCompleted(raw, method == protocol.ProviderStream)
	if err != nil {
		return nil, fmt.Errorf("%s of extension %q: its answer can't be used: %w", method, e.name, err)
	}
	return c, nil
}

// provider finds the extension with the model that c names.
func (r *Registry) provider(extension string, c *protocol.Completion) (*extension, error) {
	e, err := r.find(extension)
	if err != nil {
		return nil, err
	}
	for _, p := range e.offers().Providers {
		if p.ID == c.Provider && slices.ContainsFunc(p.Models, func(m protocol.Model) bool { return m.ID == c.Model }) {
			return e, nil
		}
	}
	return nil, fmt.Errorf("model %q of provider %q of extension %q: %w", c.Model, c.Provider, extension, gate.ErrNotFound)
}

// mostEvents is how many pieces of output are held for one who is slow to take them.
const mostEvents = 4096

// Stream asks a provider for an answer that comes in pieces, each of which sink is
// given in order by the goroutine that called. What is malformed is passed over. An
// extension streams one answer at a time. Errors are those of CallTool.
func (r *Registry) Stream(ctx context.Context, extension string, c *protocol.Completion, sink func(protocol.StreamEvent)) (*protocol.Completed, error) {
	e, err := r.provider(extension, c)
	if err != nil {
		return nil, err
	}
	select {
	case e.streaming <- struct{}{}:
		defer func() { <-e.streaming }()
	case <-ctx.Done():
		return nil, fmt.Errorf("stream from extension %q: %w", extension, context.Cause(ctx))
	}
	request := ""
	if e.manifest.Wire == manifest.JSON {
		request = rand.Text()
	}
	var raw []byte
	err = e.do(ctx, protocol.ProviderStream, func(ctx context.Context, t *talk) (err error) {
		named := t.unsure.Load() // what has no name may belong to one that was given up
		raw, _, err = t.during(ctx, protocol.ProviderStream, c.Params(request), []string{protocol.StreamEvents}, func(m *wire.Message) {
			event, of, err := protocol.ReadStreamEvent(m.Body)
			switch {
			case err != nil:
				e.strays.Add(1)
			case of == request && (of != "" || !named), of == "" && !named:
				sink(event)
			}
		})
		if err != nil {
			t.unsure.Store(true)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return e.completed(protocol.ProviderStream, raw)
}

// during asks for something and hands over each notification that comes before the
// answer, in order. dropped is how many there was no room for.
func (t *talk) during(ctx context.Context, method string, params []byte, events []string, each func(*wire.Message)) (raw []byte, dropped uint64, err error) {
	sub := t.Subscribe(mostEvents, events...)
	defer sub.Close()
	reading, enough := context.WithCancel(ctx)
	defer enough()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		defer enough()
		raw, err = t.Call(ctx, method, params)
	}()
	for {
		// What came before the answer is there when the answer is, and is taken
		// first.
		m, over := sub.Next(reading)
		if over != nil {
			break
		}
		each(&m)
	}
	<-answered
	return raw, sub.Dropped(), err
}

// Invoke runs a command of an extension. sink is given its output and the progress of
// its tasks, in order, by the goroutine that called. exit is 0 when the command says
// that all went well. Errors are gate.ErrNotFound, gate.ErrForbidden without the
// permission, and else those of CallTool.
func (r *Registry) Invoke(ctx context.Context, extension, command string, args []string, sink func(protocol.Event)) (exit int, err error) {
	e, err := r.find(extension)
	if err == nil {
		err = e.may(manifest.Commands)
	}
	if err == nil && command == "" {
		err = fmt.Errorf("%w: a command without a name", gate.ErrInvalid)
	}
	if err != nil {
		return 0, err
	}
	request := rand.Text()
	var raw []byte
	err = e.do(ctx, protocol.CommandInvoke, func(ctx context.Context, t *talk) error {
		var dropped uint64
		raw, dropped, err = t.during(ctx, protocol.CommandInvoke, protocol.CommandParams(command, args, request), protocol.CommandEvents(), func(m *wire.Message) {
			event, ok, err := protocol.ReadEvent(m.Method, m.Body, request)
			switch {
			case err != nil:
				e.strays.Add(1)
			case ok:
				sink(event)
			}
		})
		if dropped > 0 {
			sink(protocol.Event{Kind: protocol.System, Content: fmt.Sprintf("%d pieces of the output came faster than they were taken, and are missing", dropped)})
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	if exit, err = protocol.ReadExit(raw); err != nil {
		return 0, fmt.Errorf("command %q of extension %q: %w", command, extension, err)
	}
	return exit, nil
}

// Subscribe returns a subscription to what the program of an extension tells from now
// on, with these methods or with any when none is given, until it ends. It holds most
// of that (256 when 0); what comes when it is full is dropped and counted, and nobody
// else is disturbed. It must be closed.
func (r *Registry) Subscribe(ctx context.Context, extension string, most int, methods ...string) (*wire.Subscription, error) {
	e, err := r.find(extension)
	if err != nil {
		return nil, err
	}
	var sub *wire.Subscription
	err = e.do(ctx, "subscribe", func(_ context.Context, t *talk) error {
		sub = t.Subscribe(most, methods...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return sub, nil
}
