package extension

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/manifest"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/protocol"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/provider"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/supervise"
	"github.com/thoughtgate/thoughtgated/internal/rpc"
)

// do calls ask with the connection to the extension and waits for the extension if it is
// starting. A request that was sent is not retried: nobody knows what the program did before it
// ended.
func (e *extension) do(ctx context.Context, method string, ask func(ctx context.Context, t *connection) error) error {
	if e.wrong != nil {
		return fmt.Errorf("extension %q: %w: %w", e.name, gate.ErrNotRunning, e.wrong)
	}
	if !e.beginRequest() {
		return fmt.Errorf("extension %q: %w: %w", e.name, gate.ErrNotRunning, errBeingReplaced)
	}
	defer e.endRequest()
	ctx, asked := context.WithCancelCause(ctx)
	defer asked(nil)
	return e.process.Do(ctx, method, e.registry.o.Timeout(method), func(ctx context.Context, t *connection) error {
		if err := t.Err(); err != nil { // nothing was sent yet, so the next process may be asked
			return err
		}
		err := ask(ctx, t)
		switch {
		case errors.Is(err, rpc.ErrClosed):
			asked(fmt.Errorf("%w: %w", supervise.ErrEnded, err))
		case err != nil:
			asked(err)
		}
		return err
	})
}

// beginRequest counts a request to the extension. It reports false if the extension is leaving.
func (e *extension) beginRequest() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.leaving {
		e.busy++
	}
	return !e.leaving
}

func (e *extension) endRequest() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.busy--; e.leaving && e.busy == 0 {
		close(e.idle)
	}
}

// drainRequests lets no further requests begin and waits, for a limited time, for those under way.
func (e *extension) drainRequests() {
	e.mu.Lock()
	e.leaving = true
	if e.busy == 0 {
		close(e.idle)
	}
	e.mu.Unlock()
	supervise.Await(e.idle, e.registry.o.Timeout(protocol.HookBefore))
}

// call sends one request to the extension and returns its result.
func (e *extension) call(ctx context.Context, method string, params []byte) (raw []byte, err error) {
	err = e.do(ctx, method, func(ctx context.Context, t *connection) (err error) {
		raw, err = t.Call(ctx, method, params)
		return err
	})
	return raw, err
}

// Models returns the ids of a provider's models, in the order in which the extension lists
// them. The error is gate.ErrNotFound if there is no such provider.
func (r *Registry) Models(extension, id string) ([]string, error) {
	e, err := r.find(extension)
	if err != nil {
		return nil, err
	}
	for _, p := range e.offers().Providers {
		if p.ID == id {
			var ids []string
			for _, m := range p.Models {
				ids = append(ids, m.ID)
			}
			return ids, nil
		}
	}
	return nil, fmt.Errorf("provider %q of extension %q: %w", id, extension, gate.ErrNotFound)
}

// CallTool calls a tool of an extension with input, a raw JSON object, and returns the raw
// result in one line, as the result of MCP's tools/call. It does not judge the call. Errors are
// gate.ErrNotFound for a tool that is not offered, those of supervise, a *rpc.Fault that the
// extension returned, and one that says why its result is invalid.
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

// Complete asks a provider for a completion. Errors are those of CallTool.
func (r *Registry) Complete(ctx context.Context, extension string, p provider.Params) (provider.Result, error) {
	e, err := r.provider(extension, &p)
	if err != nil {
		return provider.Result{}, err
	}
	raw, err := e.call(ctx, protocol.ProviderComplete, p.Append(nil))
	if err != nil {
		return provider.Result{}, err
	}
	result, err := provider.ReadResult(raw)
	if err != nil {
		return provider.Result{}, fmt.Errorf("%s of extension %q: %w", protocol.ProviderComplete, e.name, err)
	}
	return result, nil
}

// provider returns the extension that offers the requested model.
func (r *Registry) provider(extension string, asked *provider.Params) (*extension, error) {
	models, err := r.Models(extension, asked.Provider)
	if err == nil && !slices.Contains(models, asked.ModelID) {
		err = fmt.Errorf("model %q of provider %q of extension %q: %w", asked.ModelID, asked.Provider, extension, gate.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	return r.find(extension)
}

// mostEvents is the maximum number of notifications buffered for a slow consumer.
const mostEvents = 4096

// Stream asks a provider for a completion in pieces. It calls sink with each piece, in order,
// from the calling goroutine. Malformed pieces are skipped. An extension streams one completion
// at a time. Errors are those of CallTool.
func (r *Registry) Stream(ctx context.Context, extension string, p provider.Params, sink func(provider.Event)) (provider.Result, error) {
	e, err := r.provider(extension, &p)
	if err != nil {
		return provider.Result{}, err
	}
	select {
	case e.streaming <- struct{}{}:
		defer func() { <-e.streaming }()
	case <-ctx.Done():
		return provider.Result{}, fmt.Errorf("stream from extension %q: %w", extension, context.Cause(ctx))
	}
	request := rand.Text()
	params := protocol.WithRequest(p.Append(nil), request)
	var raw []byte
	err = e.do(ctx, protocol.ProviderStream, func(ctx context.Context, t *connection) (err error) {
		// A piece without a request id may belong to a stream that was given up.
		unsure := t.unsure.Load()
		raw, _, err = t.during(ctx, protocol.ProviderStream, params, []string{protocol.StreamEvents}, func(m *rpc.Message) {
			of, err := protocol.StreamOf(m.Body)
			if err == nil && (of == "" && unsure || of != "" && of != request) {
				return
			}
			event, err := provider.ReadEvent(m.Body)
			if err != nil {
				e.strays.Add(1)
				return
			}
			sink(event)
		})
		if err != nil {
			t.unsure.Store(true)
		}
		return err
	})
	if err != nil {
		return provider.Result{}, err
	}
	result, err := provider.ReadStreamed(raw)
	if err != nil {
		return provider.Result{}, fmt.Errorf("%s of extension %q: %w", protocol.ProviderStream, e.name, err)
	}
	return result, nil
}

// during sends a request and calls each with every notification that arrives before the result,
// in order. dropped is the number of notifications that the buffer could not hold.
func (t *connection) during(ctx context.Context, method string, params []byte, events []string, each func(*rpc.Message)) (raw []byte, dropped uint64, err error) {
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
		// When the result is there, so are the notifications before it: Next returns those
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

// Invoke runs a command of an extension. It calls sink with the command's output and the
// progress of its tasks, in order, from the calling goroutine. exit is 0 when the command
// reports success. Errors are gate.ErrNotFound, gate.ErrForbidden without the permission,
// gate.ErrInvalid without a name, and those of CallTool.
func (r *Registry) Invoke(ctx context.Context, extension, command string, args []string, sink func(protocol.Event)) (exit int, err error) {
	e, err := r.find(extension)
	if err == nil {
		err = e.checkPermission(manifest.Commands)
	}
	if err == nil && command == "" {
		err = fmt.Errorf("%w: the command has no name", gate.ErrInvalid)
	}
	if err != nil {
		return 0, err
	}
	request := rand.Text()
	var raw []byte
	err = e.do(ctx, protocol.CommandInvoke, func(ctx context.Context, t *connection) error {
		var dropped uint64
		raw, dropped, err = t.during(ctx, protocol.CommandInvoke, protocol.CommandParams(command, args, request), protocol.CommandEvents(), func(m *rpc.Message) {
			event, ok, err := protocol.ReadEvent(m.Method, m.Body, request)
			switch {
			case err != nil:
				e.strays.Add(1)
			case ok:
				sink(event)
			}
		})
		if dropped > 0 {
			sink(protocol.Event{Kind: protocol.System, Content: fmt.Sprintf("%d pieces of output are missing: they came faster than they were read", dropped)})
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
