package extension

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/thoughtgate/thoughtgated/daemon/extension/manifest"
	"github.com/thoughtgate/thoughtgated/daemon/extension/protocol"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/supervise"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// hooks says who sees which calls. It is never changed, but replaced.
type hooks struct {
	before, after []hook
	revision      uint64
}

// of returns those who see calls, or with after their results.
func (h *hooks) of(after bool) []hook {
	if after {
		return h.after
	}
	return h.before
}

// hook is one extension's wish to see calls.
type hook struct {
	extension *extension
	which     manifest.Hook
}

// subscribe makes the table of hooks anew. An extension that is not run is in it: it
// takes its word away only when a person removes it.
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
			// Nobody knows any more which calls it was to see: it was all of them.
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

// Revision counts the times that who sees which calls may have become another.
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

// Who names the extensions that want to see a call, or with after its result, in the
// order in which they are asked.
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

// ask shows a call to those that want to see it, one after the other. changing is
// where that stands which they may put something else in the place of.
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
			return denied(h, e, fmt.Sprintf("the extension %q had to see it and did not judge it: %s", e.name, short(err)))
		case answer.Action == protocol.Block && answer.Reason == "":
			return denied(h, e, fmt.Sprintf("the extension %q refused it", e.name))
		case answer.Action == protocol.Block:
			return denied(h, e, fmt.Sprintf("the extension %q refused it: %s", e.name, answer.Reason))
		case answer.Action == protocol.Modify && !bytes.Equal(answer.Changed, *changing):
			*changing, h.Changed = answer.Changed, answer.Changed
			h.By = append(h.By, e.name)
		}
	}
	return h
}

// judge asks one extension what it says of a call. While it is being replaced, the one
// that takes its place is asked, if that wants to see the call; it is returned.
func (r *Registry) judge(ctx context.Context, c *gate.Call, method string, shown *protocol.Shown, one hook) (protocol.Answer, hook, error) {
	waiting, cancel := context.WithTimeout(ctx, protocol.Timeout(method))
	defer cancel()
	for {
		answer, err := one.extension.judge(ctx, method, shown)
		if !errors.Is(err, errGone) {
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
		if next.extension == nil { // nobody wants to see it any more
			return protocol.Answer{Action: protocol.Continue}, one, nil
		}
		one = next
	}
}

func denied(h gate.Hooked, e *extension, reason string) gate.Hooked {
	return gate.Hooked{Move: gate.Deny, By: append(h.By, e.name), Failed: h.Failed, Reason: reason}
}

// judge asks the extension what it says of a call.
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

var errAnswer = errors.New("its answer can't be used")

// short says why an extension did not judge a call, in words for a person and a
// model, and without what the extension itself has said on the way.
func short(err error) string {
	var fault *wire.Fault
	switch {
	case errors.Is(err, errAnswer):
		return protocol.Plain(err.Error(), 200)
	case errors.As(err, &fault):
		return "it answered with the error " + protocol.Plain(fault.Error(), 200)
	case errors.Is(err, context.DeadlineExceeded):
		return "it gave no answer in " + protocol.Timeout(protocol.HookBefore).String()
	case errors.Is(err, errChanged):
		return errChanged.Error() + "; see `tgctl ext`"
	case errors.Is(err, errNobody):
		return "nobody has agreed to it; see `tgctl ext`"
	case errors.Is(err, supervise.ErrFailed):
		return "it has failed; see `tgctl ext`"
	case errors.Is(err, supervise.ErrEnded), errors.Is(err, wire.ErrClosed):
		return "it ended before it answered"
	case errors.Is(err, supervise.ErrStopped), errors.Is(err, errGone):
		return "it is being stopped"
	case errors.Is(err, context.Canceled):
		return "the call was taken back"
	}
	return "it could not be asked; see `tgctl ext`"
}
