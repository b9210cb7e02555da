package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// A call can make a link, and another one that was sent together with it can go
// through that link: when both are judged before the first is executed, the second
// names nothing that is there. So a call waits for those of its session that are open
// and judged before it, and is judged once they are answered, where it names a path of
// which a part is missing and they name something in the same tree; where it may put a
// link in the place of what they name and is missing; and where one of both says, by its
// tool's name, that it links, moves or removes what the other one names.

// Paths are what a call names in the file system, and what it may do there.
type Paths struct {
	Named   []string // as they are written, and where they lead
	Missing []string // those of which a part is missing
	Places  int      // how many texts are paths as a whole: a link takes two
	Wide    bool     // it may name more, as a command does
	Reads   bool     // the tool's name says that it only reads
	Links   bool     // the tool's name says that it links, moves or removes, or unpacks
}

// Pather is a Facts that knows what a call names in the file system.
type Pather interface {
	// Paths must be bounded in time and memory, like Of.
	Paths(ctx context.Context, c *Call) Paths
}

// waitsFor are those of the open calls after which c has to be judged. sure are those
// without whose answer it must not go on: of the two, one may well put a link where the
// other's path leads.
func (g *Gate) waitsFor(ctx context.Context, c *Call, open []*openCall) (all, sure []*openCall) {
	pather, ok := g.Facts.(Pather)
	if !ok || !slices.ContainsFunc(open, func(o *openCall) bool { p := o.paths(pather); return p.Wide || len(p.Named) > 0 }) {
		return nil, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, longestJudging, errTooLong)
	defer cancel()
	mine := pather.Paths(ctx, c)
	for _, o := range open {
		wait, must := mine.after(o.paths(pather), c.Project)
		if wait {
			all = append(all, o)
		}
		if must {
			sure = append(sure, o)
		}
	}
	c.Waited = c.Waited || len(all) > 0
	return all, sure
}

// after reports whether a call that names p has to be judged after the open call o is
// answered, and whether it must not go on without.
func (p *Paths) after(o *Paths, project string) (wait, must bool) {
	if !o.Reads {
		same, certain := sameTree(p.Missing, o, "")
		wait = same || o.Wide && len(p.Missing) > 0
		must = same && o.Links || certain && o.Places > 1
	}
	if p.Links || p.Places > 1 && !p.Reads {
		same, _ := sameTree(o.Missing, p, "")
		wait, must = wait || same, must || same
	}
	if o.Links || p.Links && !o.Reads {
		near, _ := sameTree(p.Named, o, "")
		moved, _ := sameTree(p.Named, o, project) // as many tools name the project that do nothing to the folder
		wait, must = wait || near, must || moved
	}
	return wait || p.Wide && !p.Reads && len(o.Missing) > 0, must
}

// sameTree reports whether a path of q is one of paths, or above or below it, but for
// the folder around and what is above that; and whether that is certain to be about it,
// and not about a folder that is there.
func sameTree(paths []string, q *Paths, around string) (same, certain bool) {
	for _, one := range paths {
		for _, other := range q.Named {
			switch {
			case one == other || below(other, one):
				return true, true
			case around != "" && (other == around || below(around, other)):
			case below(one, other):
				same = true
				certain = certain || slices.Contains(q.Missing, other)
			}
		}
	}
	return same, certain
}

// below reports whether the clean path p lies below folder.
func below(p, folder string) bool {
	return folder == "/" && p != "/" || len(p) > len(folder) && p[:len(folder)] == folder && p[len(folder)] == '/'
}

// awaitAnswers waits for calls to be answered: for those of sure for longestJudging at
// most, and for others until they have been open for that long, since what runs for
// hours, as a server that a command has started, would hold up all else. The error says
// that c must not go on: one of sure was not answered.
func awaitAnswers(ctx context.Context, all, sure []*openCall) error {
	now := time.Now()
	for _, o := range all {
		until := o.begun
		if slices.Contains(sure, o) {
			until = now
		}
		limit := time.NewTimer(time.Until(until.Add(longestJudging)))
		select {
		case <-o.answered:
		case <-ctx.Done(): // there is no verdict
		case <-limit.C:
		}
		limit.Stop()
	}
	if ctx.Err() != nil {
		return nil
	}
	for _, o := range sure {
		select {
		case <-o.answered:
		default:
			return fmt.Errorf("the call %s, which may put a link where this one's path leads, was not answered within %v; repeat it once that is answered", correlation(o.attachment, o.seq), longestJudging)
		}
	}
	return nil
}

// behindReason is the reason of the verdict by which a call waits for those before it.
const behindReason = "calls before it are not answered yet"

// mustWait takes note of c, and returns what it has to wait for before it is judged;
// nothing in the development profile, which changes nothing.
func (a *Attachment) mustWait(c *Call) (all, sure []*openCall) {
	open := a.gate.begins(c)
	if len(open) == 0 || c.inForce(a.gate.policy(c)) == Development {
		return nil, nil
	}
	return a.gate.waitsFor(a.ctx, c, open)
}

// judgeBehind has c judged once others have been answered. A verdict says that it is
// held.
func (a *Attachment) judgeBehind(c *Call, all, sure []*openCall, known *record.Record) {
	room := func() bool { return len(a.held) < mostHooked }
	wait := func(ctx context.Context) { a.judgeAfter(ctx, c, all, sure, known) }
	if !a.hold(c, Verdict{Seq: c.Seq, Move: Ask, Reason: behindReason}, room, wait) {
		a.settle(c, a.tooLate(c, errors.New("too many calls wait for others that are not answered; repeat it later")))
	}
}

// judgeAfter is judgeHeld once others have been answered.
func (a *Attachment) judgeAfter(ctx context.Context, c *Call, all, sure []*openCall, known *record.Record) Verdict {
	late := awaitAnswers(ctx, all, sure)
	switch {
	case ctx.Err() != nil:
		a.unheld(ctx, c)
		return Verdict{}
	case late != nil:
		v := a.tooLate(c, late)
		a.settle(c, v)
		return v
	}
	return a.judgeHeld(ctx, c, known)
}

// tooLate refuses a call that could not wait any longer.
func (a *Attachment) tooLate(c *Call, why error) Verdict {
	policy, ruling := a.gate.policy(c), accident(why)
	c.Profile = c.inForce(policy)
	return a.gate.deny(a.ctx, c, c.record(policy, nil, ruling), ruling)
}

// approvedBehind has a call that a person approved wait as it would have had to when
// it came. The error says why it must not go on.
func (g *Gate) approvedBehind(ctx context.Context, a *asked, answer Answer) error {
	c := a.call
	c.Waited = true
	if answer.Edit != nil {
		if edited, err := c.with(answer.Edit, "a person"); err == nil {
			c = edited
		}
	}
	all, sure := g.waitsFor(ctx, c, g.begins(c))
	return awaitAnswers(ctx, all, sure)
}

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
	left := slices.DeleteFunc(s.ofWhom[key], func(o *openCall) bool {
		switch {
		case o.attachment != shim.Attachment || !which(o):
			return false
		case o.answered != nil:
			close(o.answered)
		case len(s.finished) < mostSpare:
			o.call = Call{}
			s.finished = append(s.finished, o)
		}
		return true
	})
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
