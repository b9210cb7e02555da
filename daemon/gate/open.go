package gate

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

const (
	// mostOpen is how many open calls of a session are told apart: past that the
	// oldest becomes one with those before it, which may have named anything.
	mostOpen = 1024
	// mostOpenBytes is how many bytes of open calls are kept for a session: one that
	// has no room may name anything.
	mostOpenBytes = 4 << 20
	mostSpare     = 64 // of openCalls, for all sessions
)

// OpenCalls are the calls that are being judged, or were let through and have no answer
// yet.
type OpenCalls struct {
	mu       sync.Mutex // guards what follows
	ofWhom   map[openKey][]*openCall
	room     []*openCall // of a session without any, for the next one
	finished []*openCall // that nobody has seen, to be used again
}

// openKey names a session, or an attachment without one: those that share a file system
// and an agent.
type openKey struct{ session, attachment string }

func openKeyOf(session, attachment string) openKey {
	if session != "" {
		attachment = ""
	}
	return openKey{session, attachment}
}

type openCall struct {
	attachment string
	seq        uint64
	begun      time.Time
	answered   chan struct{} // closed when it is, was refused, or was taken back a while ago; nil until somebody looks
	call       Call          // without Line: it may name anything
	once       sync.Once
	names      Paths
}

// begins takes note that c may be executed soon, and returns the calls of its session
// that are open: each call waits for earlier ones only.
func (g *Gate) begins(c *Call) []*openCall {
	if g.Open == nil || c.Side != wire.FromAgent || c.Envelope.Kind != wire.Request || c.Server == record.CanaryServer {
		return nil
	}
	switch mcp.SubjectKind(c.Method) {
	case mcp.Tool, mcp.Resource, mcp.Prompt:
	default:
		return nil
	}
	if _, ok := g.Facts.(Pather); !ok {
		return nil
	}
	key := openKeyOf(c.Session, c.Attachment)
	g.Open.mu.Lock()
	defer g.Open.mu.Unlock()
	calls := g.Open.ofWhom[key]
	var before []*openCall
	known, size := false, 0
	for _, o := range calls {
		size += len(o.call.Line)
		if o.attachment == c.Attachment && o.seq == c.Seq {
			known = true
			continue
		}
		if o.answered == nil {
			o.answered = make(chan struct{})
		}
		before = append(before, o)
	}
	if !known {
		g.Open.add(key, calls, c, size)
	}
	return before
}

// add adds c to the calls of key, of which size bytes are kept. The lock is held.
func (s *OpenCalls) add(key openKey, calls []*openCall, c *Call, size int) {
	var o *openCall
	if n := len(s.finished); n > 0 {
		o, s.finished = s.finished[n-1], s.finished[:n-1]
	} else {
		o = new(openCall)
	}
	o.attachment, o.seq, o.begun = c.Attachment, c.Seq, time.Now()
	changed := c.hooks != nil && c.hooks.Changed != nil // what is executed is not this
	if size+len(c.Line) <= mostOpenBytes && !changed {
		o.call = *c
	}
	if len(calls) >= mostOpen {
		calls = slices.Delete(calls, 0, 1)
		calls[0] = &openCall{begun: calls[0].begun, answered: make(chan struct{})}
	}
	if calls == nil {
		calls, s.room = s.room, nil
	}
	if s.ofWhom == nil {
		s.ofWhom = map[openKey][]*openCall{}
	}
	s.ofWhom[key] = append(calls, o)
}

// paths returns what a call names that was seen by begins.
func (o *openCall) paths(pather Pather) *Paths {
	o.once.Do(func() {
		if o.names.Wide = o.call.Line == nil; o.names.Wide {
			return
		}
		ctx, cancel := context.WithTimeoutCause(context.Background(), longestJudging, errTooLong)
		defer cancel()
		o.names = pather.Paths(ctx, &o.call)
		o.names.Wide = o.names.Wide || ctx.Err() != nil
	})
	return &o.names
}

// ended takes note that calls of an attachment are open no more.
func (g *Gate) ended(shim *Shim, which func(*openCall) bool) {
	s := g.Open
	if s == nil {
		return
	}
	key := openKeyOf(shim.Session, shim.Attachment)
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.ofWhom[key]
	left := calls[:0]
	for _, o := range calls {
		switch {
		case o.attachment != shim.Attachment || !which(o):
			left = append(left, o)
		case o.answered != nil:
			close(o.answered)
		case len(s.finished) < mostSpare:
			o.call = Call{}
			s.finished = append(s.finished, o)
		}
	}
	clear(calls[len(left):])
	if len(left) == 0 || len(left) == 1 && left[0].attachment == "" {
		delete(s.ofWhom, key)
		if clear(left); s.room == nil && cap(left) <= mostOpen {
			s.room = left[:0]
		}
		return
	}
	s.ofWhom[key] = left
}

// notOpen takes note that a call is open no more.
func (a *Attachment) notOpen(seq uint64) {
	a.gate.ended(&a.shim, func(o *openCall) bool { return o.seq == seq })
}
