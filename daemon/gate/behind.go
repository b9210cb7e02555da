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

// Pather is a Facts that knows what a call names in the file system. Its methods must be
// bounded in time and memory, like Of.
type Pather interface {
	Paths(ctx context.Context, c *Call) Paths
	// FactsAndPaths returns the results of Of and Paths, and takes little longer than Of.
	FactsAndPaths(ctx context.Context, c *Call) ([]Fact, Paths)
}

// waitsFor returns those of the open calls after which c, which names mine, must be judged.
// sure are those that must be answered before c is forwarded: one of the two calls may well put
// a link where the other's path leads.
func (g *Gate) waitsFor(c *Call, mine *Paths, open []*openCall) (all, sure []*openCall) {
	for _, o := range open {
		wait, must := mine.after(g.pathsOf(o), c.Project)
		if wait {
			all = append(all, o)
		}
		if must {
			sure = append(sure, o)
		}
	}
	if len(all) > 0 {
		c.Waited = true
		g.Open.await(all)
	}
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
	g := a.gate
	if !g.canBeOpen(c) {
		return nil, nil
	}
	if c.inForce(g.policy(c)) == Development {
		g.registerOpenCall(c, nil)
		return nil, nil
	}
	if all, sure = g.openBehind(a.ctx, c, c.hooks == nil); len(all) > 0 {
		c.early = nil // they may change while it waits
	}
	return all, sure
}

// openBehind registers c, which can be open, and returns the open calls after which it must be
// judged. For withFacts see findPaths.
//
// What c names is determined before c is registered, so that later calls find it there. Of two
// calls of different attachments, at least one sees the other.
func (g *Gate) openBehind(ctx context.Context, c *Call, withFacts bool) (all, sure []*openCall) {
	var mine *Paths
	if g.Open.any(c) {
		mine = g.findPaths(ctx, c, withFacts)
	}
	open := g.registerOpenCall(c, mine)
	if len(open) == 0 {
		return nil, nil
	}
	if mine == nil { // they came just now
		mine = g.findPaths(ctx, c, withFacts)
	}
	return g.waitsFor(c, mine, open)
}

// findPaths returns what c names. If withFacts is set, it finds the facts of c in the same pass,
// and keeps them for the judgement that follows at once.
func (g *Gate) findPaths(ctx context.Context, c *Call, withFacts bool) *Paths {
	ctx, timeout := g.timeouts.context(ctx)
	defer timeout.end()
	var p Paths
	if withFacts {
		var facts []Fact
		if facts, p = g.Facts.(Pather).FactsAndPaths(ctx, c); ctx.Err() == nil {
			c.early = &facts
		}
	} else {
		p = g.Facts.(Pather).Paths(ctx, c)
	}
	p.Wide = p.Wide || ctx.Err() != nil
	return &p
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
	if !g.canBeOpen(c) {
		return nil
	}
	all, sure := g.openBehind(ctx, c, false)
	return awaitAnswers(ctx, all, sure)
}

const (
	// mostOpen is how many open calls of a session are kept apart. Past that, the two oldest
	// are merged into one that may have named anything.
	mostOpen = 1024
	// maxOpenBytes is how many bytes of open calls are kept for a session. A call that does
	// not fit may name anything.
	maxOpenBytes = 4 << 20
	mostSpare    = 16 // ended calls that are kept for reuse, for all sessions
)

// OpenCalls holds the calls that are being judged, or were forwarded and are not answered yet.
type OpenCalls struct {
	mu sync.Mutex // guards the fields below, and some of each openCall
	// ofWhom holds the calls of a session, oldest first. A slice that was handed out is never
	// changed: calls are only appended to it, or it is replaced.
	ofWhom map[openKey][]*openCall
	spare  []*openCall // ended ones that were never handed out, for reuse
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

// openCall is an open call. What it names is determined when it is registered if other calls
// are open then, otherwise when the next call comes.
type openCall struct {
	attachment string
	seq        uint64
	begun      time.Time

	once  sync.Once
	call  *Call // a copy from which names are determined; nil if they are known
	names Paths
	size  int // bytes that it keeps

	// OpenCalls.mu guards these.
	seen     bool          // it was handed out
	ended    bool          // it is answered, denied, or was cancelled a while ago
	answered chan struct{} // closed when it has ended; nil until a call waits for it
}

// canBeOpen reports whether c may be executed soon and may name something in the file system.
func (g *Gate) canBeOpen(c *Call) bool {
	if g.Open == nil || c.Side != wire.FromAgent || c.Envelope.Kind != wire.Request || c.Server == record.CanaryServer {
		return false
	}
	switch mcp.SubjectKind(c.Method) {
	case mcp.Tool, mcp.Resource, mcp.Prompt:
	default:
		return false
	}
	_, ok := g.Facts.(Pather)
	return ok
}

// any reports whether calls of c's session are open.
func (s *OpenCalls) any(c *Call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ofWhom[openKeyOf(c.Session, c.Attachment)]) > 0
}

// registerOpenCall registers c, which names mine, as a call that may be executed soon, and
// returns the open calls of its session. A call waits only for earlier ones. mine may be nil if
// no other call was open just now.
func (g *Gate) registerOpenCall(c *Call, mine *Paths) []*openCall {
	key := openKeyOf(c.Session, c.Attachment)
	g.Open.mu.Lock()
	defer g.Open.mu.Unlock()
	before := g.Open.ofWhom[key]
	before = before[:len(before):len(before)]
	isSelf := func(o *openCall) bool { return o.attachment == c.Attachment && o.seq == c.Seq }
	if i := slices.IndexFunc(before, isSelf); i >= 0 {
		before = slices.Concat(before[:i], before[i+1:])
	} else {
		g.Open.add(key, c, mine)
	}
	for _, o := range before {
		o.seen = true
	}
	return before
}

// add adds c to the calls of key. s.mu must be held.
func (s *OpenCalls) add(key openKey, c *Call, mine *Paths) {
	calls := s.ofWhom[key]
	size := len(c.Line)
	for _, other := range calls {
		size += other.size
	}
	changed := c.hooks != nil && c.hooks.Changed != nil // c is not what will be executed
	var o *openCall
	switch {
	case changed || size > maxOpenBytes:
		o = &openCall{names: Paths{Wide: true}}
	case mine != nil:
		o = &openCall{names: *mine, size: len(c.Line)}
	default:
		o = s.withCopy(c)
	}
	o.attachment, o.seq, o.begun = c.Attachment, c.Seq, time.Now()
	if len(calls) >= mostOpen {
		oldest := &openCall{begun: calls[1].begun, names: Paths{Wide: true}}
		calls = slices.Concat([]*openCall{oldest}, calls[2:])
	}
	if s.ofWhom == nil {
		s.ofWhom = map[openKey][]*openCall{}
	}
	s.ofWhom[key] = append(calls, o)
}

// withCopy returns an openCall that holds a copy of c. s.mu must be held.
func (s *OpenCalls) withCopy(c *Call) *openCall {
	var o *openCall
	if n := len(s.spare) - 1; n >= 0 {
		o, s.spare = s.spare[n], s.spare[:n]
	} else {
		o = &openCall{call: new(Call)}
	}
	*o.call, o.size = *c, len(c.Line)
	return o
}

// await prepares a wait for the ends of calls.
func (s *OpenCalls) await(calls []*openCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range calls {
		if o.answered != nil {
			continue
		}
		o.answered = make(chan struct{})
		if o.ended {
			close(o.answered)
		}
	}
}

// pathsOf returns what the call o names.
func (g *Gate) pathsOf(o *openCall) *Paths {
	o.once.Do(func() {
		if o.call != nil {
			o.names = *g.findPaths(context.Background(), o.call, false)
		}
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
	calls := s.ofWhom[key]
	for i := 0; i < len(calls); {
		o := calls[i]
		switch {
		case o.attachment != shim.Attachment || !which(o):
			i++
			continue
		case i == 0:
			calls = calls[1:]
		default:
			calls = slices.Concat(calls[:i], calls[i+1:])
		}
		s.end(o)
	}
	if len(calls) == 0 || len(calls) == 1 && calls[0].attachment == "" {
		delete(s.ofWhom, key)
		return
	}
	s.ofWhom[key] = calls
}

// end notes that o has ended. s.mu must be held.
func (s *OpenCalls) end(o *openCall) {
	o.ended = true
	if o.answered != nil {
		close(o.answered)
	}
	if !o.seen && o.call != nil && len(s.spare) < mostSpare { // otherwise another call may still read it
		call := o.call
		*call = Call{}
		*o = openCall{call: call}
		s.spare = append(s.spare, o)
	}
}

// notOpen removes a call from the open ones.
func (a *Attachment) notOpen(seq uint64) {
	a.gate.removeOpenCalls(&a.shim, func(o *openCall) bool { return o.seq == seq })
}
