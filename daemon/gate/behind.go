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

// A call can create a link that another call, sent at the same time, goes through. If both are
// judged before the first is executed, the second names a path that does not exist yet. So a
// call waits until the open calls of its session that were judged before it are answered, if
// one of the following holds: it names a path of which a part is missing, and they name
// something in the same tree; it may replace a missing path that they name with a link; or the
// tool name of one of the two says that it links, moves or removes something that the other
// one names.

// Paths are what a call names in the file system, and what it may do there.
type Paths struct {
	Named   []string // as written, and resolved
	Missing []string // those of which a part is missing
	Places  int      // number of texts that are paths as a whole: a link takes two
	Wide    bool     // it may name more, as a command does
	Reads   bool     // the tool's name says that it only reads
	Links   bool     // the tool's name says that it links, moves, removes or unpacks
}

// Pather is a Facts that knows what a call names in the file system.
type Pather interface {
	// Paths must be bounded in time and memory, like Of.
	Paths(ctx context.Context, c *Call) Paths
}

// waitsFor returns those of the open calls after which c must be judged. sure are those that
// must be answered before c is forwarded: one of the two calls may well put a link where the
// other's path leads.
func (g *Gate) waitsFor(ctx context.Context, c *Call, open []*openCall) (all, sure []*openCall) {
	pather, ok := g.Facts.(Pather)
	if !ok || !slices.ContainsFunc(open, func(o *openCall) bool { p := o.paths(pather); return p.Wide || len(p.Named) > 0 }) {
		return nil, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, judgeTimeout, errTooLong)
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

// after reports whether a call that names p must be judged after the open call o is answered,
// and whether it must not be forwarded before that.
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
		moved, _ := sameTree(p.Named, o, project) // because many tools name the project without changing the folder
		wait, must = wait || near, must || moved
	}
	return wait || p.Wide && !p.Reads && len(o.Missing) > 0, must
}

// sameTree reports whether a path of q is one of paths, or above or below one. The folder
// around and its parents do not count. certain reports whether the match is about the path
// itself, and not about an existing folder above it.
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

// below reports whether the clean path p is below folder.
func below(p, folder string) bool {
	return folder == "/" && p != "/" || len(p) > len(folder) && p[:len(folder)] == folder && p[len(folder)] == '/'
}

// awaitAnswers waits until all are answered. It waits for those in sure for at most
// judgeTimeout, and for the others until they have been open for that long: a call that runs
// for hours, such as a server that a command started, would hold up everything else. An error
// means that c must not be forwarded, because one of sure was not answered.
func awaitAnswers(ctx context.Context, all, sure []*openCall) error {
	now := time.Now()
	for _, o := range all {
		until := o.begun
		if slices.Contains(sure, o) {
			until = now
		}
		limit := time.NewTimer(time.Until(until.Add(judgeTimeout)))
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
			return fmt.Errorf("the call %s, which may create a link on the path of this call, was not answered within %v; repeat this call once that one is answered", correlation(o.attachment, o.seq), judgeTimeout)
		}
	}
	return nil
}

// behindReason is the reason of the verdict that holds a call until earlier ones are answered.
const behindReason = "earlier calls are not answered yet"

// mustWait registers c as open and returns the calls that must be answered before it is
// judged. It returns none in the development profile, which changes nothing.
func (a *Attachment) mustWait(c *Call) (all, sure []*openCall) {
	open := a.gate.registerOpenCall(c)
	if len(open) == 0 || c.inForce(a.gate.policy(c)) == Development {
		return nil, nil
	}
	return a.gate.waitsFor(a.ctx, c, open)
}

// judgeBehind holds c, with a verdict that says so, and judges it when the others are
// answered.
func (a *Attachment) judgeBehind(c *Call, all, sure []*openCall, known *record.Record) {
	room := func() bool { return len(a.held) < maxHooked }
	wait := func(ctx context.Context) { a.judgeAfter(ctx, c, all, sure, known) }
	if !a.holdCall(c, Verdict{Seq: c.Seq, Move: Ask, Reason: behindReason}, room, wait) {
		a.settle(c, a.tooLate(c, errors.New("too many calls wait for answers to earlier calls; repeat it later")))
	}
}

// judgeAfter waits for the answers to others, then calls judgeHeld.
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

// tooLate denies a call that could not wait any longer.
func (a *Attachment) tooLate(c *Call, why error) Verdict {
	policy, ruling := a.gate.policy(c), accident(why)
	c.Profile = c.inForce(policy)
	return a.gate.deny(a.ctx, c, c.record(policy, nil, ruling), ruling)
}

// approvedBehind makes an approved call wait for open calls, as a new call would. An error
// says why it must not be forwarded.
func (g *Gate) approvedBehind(ctx context.Context, a *asked, answer Answer) error {
	c := a.call
	c.Waited = true
	if answer.Edit != nil {
		if edited, err := c.withArguments(answer.Edit, "a person"); err == nil {
			c = edited
		}
	}
	all, sure := g.waitsFor(ctx, c, g.registerOpenCall(c))
	return awaitAnswers(ctx, all, sure)
}

const (
	// mostOpen is how many open calls of a session are kept apart. Past that, the two oldest
	// are merged into one that may have named anything.
	mostOpen = 1024
	// maxOpenBytes is how many bytes of open calls are kept for a session. A call that does
	// not fit may name anything.
	maxOpenBytes = 4 << 20
	mostSpare    = 64 // openCalls, for all sessions
)

// OpenCalls holds the calls that are being judged, or were forwarded and are not answered yet.
type OpenCalls struct {
	mu       sync.Mutex // guards the fields below
	ofWhom   map[openKey][]*openCall
	room     []*openCall // capacity of a session without open calls, for the next one
	finished []*openCall // calls that nobody refers to, for reuse
}

// openKey identifies a session, or an attachment without one. Calls with the same key share a
// file system and an agent.
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
	answered   chan struct{} // closed when it is answered, denied, or was cancelled a while ago; nil until a call refers to it
	call       Call          // without Line: it may name anything
	once       sync.Once
	names      Paths
}

// registerOpenCall registers c as a call that may be executed soon, and returns the open calls of its
// session. A call waits only for earlier ones.
func (g *Gate) registerOpenCall(c *Call) []*openCall {
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

// add adds c to the calls of key, of which size bytes are kept. s.mu must be held.
func (s *OpenCalls) add(key openKey, calls []*openCall, c *Call, size int) {
	var o *openCall
	if n := len(s.finished); n > 0 {
		o, s.finished = s.finished[n-1], s.finished[:n-1]
	} else {
		o = new(openCall)
	}
	o.attachment, o.seq, o.begun = c.Attachment, c.Seq, time.Now()
	changed := c.hooks != nil && c.hooks.Changed != nil // c is not what will be executed
	if size+len(c.Line) <= maxOpenBytes && !changed {
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

// paths returns what the call o names.
func (o *openCall) paths(pather Pather) *Paths {
	o.once.Do(func() {
		if o.names.Wide = o.call.Line == nil; o.names.Wide {
			return
		}
		ctx, cancel := context.WithTimeoutCause(context.Background(), judgeTimeout, errTooLong)
		defer cancel()
		o.names = pather.Paths(ctx, &o.call)
		o.names.Wide = o.names.Wide || ctx.Err() != nil
	})
	return &o.names
}

// removeOpenCalls removes the open calls of an attachment for which which returns true.
func (g *Gate) removeOpenCalls(shim *Shim, which func(*openCall) bool) {
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

// notOpen removes a call from the open ones.
func (a *Attachment) notOpen(seq uint64) {
	a.gate.removeOpenCalls(&a.shim, func(o *openCall) bool { return o.seq == seq })
}
