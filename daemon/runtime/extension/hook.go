package extension

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/manifest"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/protocol"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/supervise"
	"github.com/thoughtgate/thoughtgated/internal/rpc"
)

// hooks is the table of which extensions see which calls. It is immutable; a change replaces
// it.
type hooks struct {
	before, after []hook
	revision      uint64
}

// of returns the hooks for calls, or those for results if after is set.
func (h *hooks) of(after bool) []hook {
	if after {
		return h.after
	}
	return h.before
}

// hook is one extension's subscription to calls or results.
type hook struct {
	extension *extension
	which     manifest.Hook
}

// subscribe rebuilds the table of hooks. The table includes extensions that are not run: only a
// person who removes an extension removes its hooks.
func (r *Registry) subscribe() {
	r.mu.Lock()
	defer r.mu.Unlock()
	table := &hooks{}
	var all []*extension
	for _, e := range r.all {
		switch {
		case e.manifest != nil:
			all = append(all, e)
		case e.kept != nil:
			// The manifest is invalid, so nobody knows which calls the extension was to see.
			// Assume the default: every tools/call.
			h := manifest.Hook{}
			h.Defaults()
			table.before = append(table.before, hook{e, h})
		}
	}
	slices.SortFunc(all, func(a, b *extension) int {
		return cmp.Or(cmp.Compare(a.manifest.Order, b.manifest.Order), cmp.Compare(a.name, b.name))
	})
	for _, e := range all {
		if h := e.manifest.Hooks.Before; h.Wanted {
			table.before = append(table.before, hook{e, h})
		}
		if h := e.manifest.Hooks.After; h.Wanted {
			table.after = append(table.after, hook{e, h})
		}
	}
	table.revision = r.hooks.Load().revision + 1
	r.hooks.Store(table)
}

// Revision counts the rebuilds of the hook table.
func (r *Registry) Revision() uint64 { return r.hooks.Load().revision }

// Wants implements gate.Hooks.
func (r *Registry) Wants(c *gate.Call, after bool) bool {
	list := r.hooks.Load().of(after)
	for i := range list {
		if list[i].which.Matches(c.Server, c.Method, c.Subject) {
			return true
		}
	}
	return false
}

// Who returns the names of the extensions that see a call, or its result if after is set, in
// the order in which they are called.
func (r *Registry) Who(c *gate.Call, after bool) []string {
	var names []string
	for _, h := range r.hooks.Load().of(after) {
		if h.which.Matches(c.Server, c.Method, c.Subject) {
			names = append(names, h.extension.name)
		}
	}
	return names
}

// Before implements gate.Hooks.
func (r *Registry) Before(ctx context.Context, c *gate.Call) gate.Hooked {
	shown := shownOf(c)
	return r.ask(ctx, c, protocol.HookBefore, shown, &shown.Arguments)
}

// After implements gate.Hooks.
func (r *Registry) After(ctx context.Context, c *gate.Call, result []byte) gate.Hooked {
	shown := shownOf(c)
	shown.Result = result
	return r.ask(ctx, c, protocol.HookAfter, shown, &shown.Result)
}

func shownOf(c *gate.Call) *protocol.Shown {
	s := &protocol.Shown{
		ID: c.ID, Session: c.Session, Agent: c.Agent, Server: c.Server, Method: c.Method, Tool: c.Subject,
		Arguments: c.Arguments(), Project: c.Project, Profile: string(c.Profile),
	}
	for _, f := range c.Known {
		s.Facts = append(s.Facts, f.Name)
	}
	return s
}

// ask shows a call to the extensions that subscribed to it, one after the other. changing
// points to the field of shown that they may rewrite.
func (r *Registry) ask(ctx context.Context, c *gate.Call, method string, shown *protocol.Shown, changing *[]byte) gate.Hooked {
	h := gate.Hooked{Move: gate.Forward}
	for _, one := range r.hooks.Load().of(method == protocol.HookAfter) {
		if !one.which.Matches(c.Server, c.Method, c.Subject) {
			continue
		}
		answer, one, err := r.judge(ctx, c, method, shown, one)
		e := one.extension
		switch {
		case err != nil && one.which.OnError == manifest.Continue:
			h.Failed = append(h.Failed, fmt.Sprintf("%s: %s", e.name, short(err)))
		case err != nil:
			return denied(h, e, fmt.Sprintf("the extension %q must judge it and did not: %s", e.name, short(err)))
		case answer.Action == protocol.Block && answer.Reason == "":
			return denied(h, e, fmt.Sprintf("the extension %q denied it", e.name))
		case answer.Action == protocol.Block:
			return denied(h, e, fmt.Sprintf("the extension %q denied it: %s", e.name, answer.Reason))
		case answer.Action == protocol.Modify && !bytes.Equal(answer.Changed, *changing):
			*changing, h.Changed = answer.Changed, answer.Changed
			h.By = append(h.By, e.name)
		}
	}
	return h
}

// judge asks one extension about a call. While that extension is being replaced, judge waits
// for the replacement and asks it instead, if it subscribes to the call. The hook that was
// asked is returned.
func (r *Registry) judge(ctx context.Context, c *gate.Call, method string, shown *protocol.Shown, one hook) (protocol.Answer, hook, error) {
	waiting, cancel := context.WithTimeout(ctx, r.o.Timeout(method))
	defer cancel()
	for {
		answer, err := one.extension.judge(ctx, method, shown)
		if !errors.Is(err, errBeingReplaced) {
			return answer, one, err
		}
		select {
		case <-one.extension.replaced:
		case <-waiting.Done():
			return answer, one, err
		}
		next := hook{}
		for _, other := range r.hooks.Load().of(method == protocol.HookAfter) {
			if other.extension.name == one.extension.name && other.which.Matches(c.Server, c.Method, c.Subject) {
				next = other
			}
		}
		if next.extension == nil { // no version of it subscribes any more
			return protocol.Answer{Action: protocol.Continue}, one, nil
		}
		one = next
	}
}

func denied(h gate.Hooked, e *extension, reason string) gate.Hooked {
	return gate.Hooked{Move: gate.Deny, By: append(h.By, e.name), Failed: h.Failed, Reason: reason}
}

// judge asks the extension about a call.
func (e *extension) judge(ctx context.Context, method string, shown *protocol.Shown) (protocol.Answer, error) {
	raw, err := e.call(ctx, method, shown.Params())
	if err != nil {
		return protocol.Answer{}, err
	}
	changes := "arguments"
	if method == protocol.HookAfter {
		changes = "result"
	}
	answer, err := protocol.ReadAnswer(raw, changes)
	if err != nil {
		return protocol.Answer{}, fmt.Errorf("%w: %w", errAnswer, err)
	}
	return answer, nil
}

var errAnswer = errors.New("its answer is invalid")

// short says why an extension did not judge a call. The text is for a person and a model and
// contains nothing that the extension has written on the way, except the message of an error
// that it returned.
func short(err error) string {
	var fault *rpc.Fault
	switch {
	case errors.Is(err, errAnswer):
		return protocol.Plain(err.Error(), 200)
	case errors.As(err, &fault):
		return "it answered with the error " + protocol.Plain(fault.Error(), 200)
	case errors.Is(err, context.DeadlineExceeded):
		return "it did not answer within " + protocol.Timeout(protocol.HookBefore).String()
	case errors.Is(err, errChanged):
		return errChanged.Error() + "; see `tgctl ext`"
	case errors.Is(err, errNotAccepted):
		return "it is not accepted; see `tgctl ext`"
	case errors.Is(err, supervise.ErrFailed):
		return "it has failed; see `tgctl ext`"
	case errors.Is(err, supervise.ErrEnded), errors.Is(err, rpc.ErrClosed):
		return "it ended before it answered"
	case errors.Is(err, supervise.ErrStopped), errors.Is(err, errBeingReplaced):
		return "it is being stopped"
	case errors.Is(err, context.Canceled):
		return "the call was cancelled"
	}
	return "it could not be called; see `tgctl ext`"
}
