package extension

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/extension/manifest"
	"github.com/thoughtgate/thoughtgated/daemon/extension/protocol"
	"github.com/thoughtgate/thoughtgated/daemon/extension/provider"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/supervise"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// do asks the extension, which it waits for if it is being started. What was asked is
// not asked again: nobody knows what a program did before it ended.
func (e *extension) do(ctx context.Context, method string, ask func(ctx context.Context, t *talk) error) error {
	if e.wrong != nil {
		return fmt.Errorf("extension %q: %w: %w", e.name, gate.ErrNotRunning, e.wrong)
	}
	if !e.enter() {
		return fmt.Errorf("extension %q: %w: %w", e.name, gate.ErrNotRunning, errGone)
	}
	defer e.leave()
	ctx, asked := context.WithCancelCause(ctx)
	defer asked(nil)
	return e.process.Do(ctx, method, protocol.Timeout(method), func(ctx context.Context, t *talk) error {
		if err := t.Err(); err != nil { // it was not asked yet, and the next life may be
			return err
		}
		err := ask(ctx, t)
		switch {
		case errors.Is(err, wire.ErrClosed):
			asked(fmt.Errorf("%w: %w", supervise.ErrEnded, err))
		case err != nil:
			asked(err)
		}
		return err
	})
}

// enter counts something that is asked of the extension, unless it is leaving.
func (e *extension) enter() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.leaving {
		e.busy++
	}
	return !e.leaving
}

func (e *extension) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.busy--; e.leaving && e.busy == 0 {
		close(e.idle)
	}
}

// dismiss lets nothing more be asked of the extension, and waits a while for what is.
func (e *extension) dismiss() {
	e.mu.Lock()
	e.leaving = true
	if e.busy == 0 {
		close(e.idle)
	}
	e.mu.Unlock()
	patience := time.NewTimer(protocol.Timeout(protocol.HookBefore))
	defer patience.Stop()
	select {
	case <-e.idle:
	case <-patience.C:
	}
}

// call asks the extension for one answer.
func (e *extension) call(ctx context.Context, method string, params []byte) (raw []byte, err error) {
	err = e.do(ctx, method, func(ctx context.Context, t *talk) (err error) {
		raw, err = t.Call(ctx, method, params)
		return err
	})
	return raw, err
}

// Models returns the ids of the models of a provider, in the order in which the
// extension names them; gate.ErrNotFound where there is no such provider.
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

// provider finds the extension with the model that is asked.
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

// mostEvents is how many pieces of output are held for one who is slow to take them.
const mostEvents = 4096

// Stream asks a provider for an answer that comes in pieces, each of which sink is
// given in order by the goroutine that called. What is malformed is passed over. An
// extension streams one answer at a time. Errors are those of CallTool.
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
	err = e.do(ctx, protocol.ProviderStream, func(ctx context.Context, t *talk) (err error) {
		// What names no request may belong to one that was given up.
		unsure := t.unsure.Load()
		raw, _, err = t.during(ctx, protocol.ProviderStream, params, []string{protocol.StreamEvents}, func(m *wire.Message) {
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
