package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/child"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// A shared server belongs to the daemon, and goes with it. The next daemon starts
// another one, of which the agent is to notice nothing but that calls which were
// with the first one are lost. So the shim keeps what the agent has agreed with a
// server, and says it again.

// maxSubscribed is how many subscriptions are made again.
const maxSubscribed = 1024

// handshake is what an agent has agreed with its server. Of a server of our own
// nothing is kept.
type handshake struct {
	wanted bool // set before the first message

	mu         sync.Mutex        // guards what follows
	initialize []byte            // the agent's request; nil while it was not answered
	level      []byte            // the last logging/setLevel that was answered; nil for none
	subscribed map[string][]byte // the resources/subscribe that were answered, by their URI as written
	renewals   int
}

// asked keeps a request that may have to be made again.
func (h *handshake) asked(r *request, line []byte) {
	if !h.wanted || r.side != wire.FromAgent {
		return
	}
	switch r.method {
	case "initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe":
		r.line = bytes.Clone(line)
	}
}

// answered takes note of what the server has agreed to.
func (h *handshake) answered(r *request, e *wire.Envelope) {
	if r.line == nil || r.ours || e.Kind != wire.Result {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch r.method {
	case "initialize":
		h.initialize = r.line
	case "logging/setLevel":
		h.level = r.line
	case "resources/subscribe":
		if h.subscribed == nil {
			h.subscribed = map[string][]byte{}
		}
		if len(h.subscribed) < maxSubscribed {
			h.subscribed[uriOf(r.line)] = r.line
		}
	case "resources/unsubscribe":
		delete(h.subscribed, uriOf(r.line))
	}
}

func uriOf(line []byte) string {
	var e wire.Envelope
	if wire.Read(line, wire.FromAgent, &e) != nil {
		return ""
	}
	return string(e.URI.Of(line))
}

// again returns what is to be said again: the handshake, what passes, and the
// subscriptions, which have to be judged.
func (h *handshake) again() (initialize []byte, level *request, subscriptions []*request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.renewals++
	n := 0
	ours := func(method string, line []byte) *request {
		n++
		return renewedRequest(method, line, fmt.Sprintf(`"tg-shim/%d/%d"`, h.renewals, n))
	}
	if h.level != nil {
		level = ours("logging/setLevel", h.level)
	}
	for _, uri := range slices.Sorted(maps.Keys(h.subscribed)) {
		subscriptions = append(subscriptions, ours("resources/subscribe", h.subscribed[uri]))
	}
	return h.initialize, level, subscriptions
}

// renewedRequest is a request of ours with the id, and otherwise as line is.
func renewedRequest(method string, line []byte, id string) *request {
	var e wire.Envelope
	if wire.Read(line, wire.FromAgent, &e) != nil { // it was read before
		return nil
	}
	again, err := wire.Splice(line, wire.Edit{Span: e.ID, With: []byte(id)})
	if err != nil {
		return nil
	}
	key, err := wire.Key([]byte(id))
	if err != nil {
		return nil
	}
	return &request{key: key, id: []byte(id), method: method, side: wire.FromAgent, line: again, ours: true}
}

// renewed implements obeyer: requests that were with the server that is gone are
// answered, and so are those that a daemon which is gone has let through and that
// were not written; another one knows nothing of that.
func (p *proxy) renewed() (handshake []byte, first [][]byte, after func(context.Context)) {
	initialize, level, subscriptions := p.kept.again()
	spared, unwritten := map[string]bool{}, map[string]bool{}
	keep := func(line []byte) bool { return p.mayWait(line, spared, unwritten) }
	if open := p.ledger.unanswered("initialize"); initialize == nil && open != nil {
		spared[open.key] = true
		first = append(first, open.line)
	}
	p.link.shared.sift(keep)
	p.lanes[wire.FromAgent].sift(keep)
	for _, r := range p.ledger.loseWritten(spared) {
		p.outcome(r, pb.Outcome_OUTCOME_LOST)
		switch {
		case r.ours:
		case unwritten[r.key]:
			p.back(wire.FromAgent).insert(mcp.RefuseUnread(r.id, mcp.CodeGate, "Not executed: ThoughtGate's daemon was started anew before the call had left"))
		default:
			p.back(wire.FromAgent).insert(mcp.RefuseUnread(r.id, mcp.CodeServerExit,
				"The shared MCP server went with ThoughtGate's daemon and did not answer; it is started anew"))
		}
	}
	p.dropAsks()
	if initialize == nil {
		return nil, first, nil
	}
	if level != nil {
		level.written = true
		if p.ledger.add(level) == added {
			first = append(first, level.line)
		}
	}
	return initialize, first, func(ctx context.Context) { p.subscribe(ctx, subscriptions) }
}

// mayWait reports whether a line that waits to be written may be written to another
// server. What it asks is noted.
func (p *proxy) mayWait(line []byte, spared, unwritten map[string]bool) bool {
	var e wire.Envelope
	if wire.Read(line, wire.FromAgent, &e) != nil {
		return false
	}
	switch e.Kind {
	case wire.Notification:
		return mcp.Lookup(wire.FromAgent, &e).Treatment == mcp.Pass
	case wire.Request:
		key := e.Key(line)
		if spared[key] && e.Method == "initialize" {
			return false // it goes first
		}
		r := p.ledger.find(wire.FromAgent, key)
		if r == nil || p.ledger.judgement(r) != nil {
			unwritten[key] = true
			return false
		}
		spared[key] = true
		return true
	}
	return false // the one who asked is gone
}

// sift gives up the places whose line is known and that keep does not want. keep
// must not use the lane.
func (l *lane) sift(keep func(line []byte) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.places {
		if p.ready && p.line != nil && !keep(p.line) {
			l.size -= len(p.line)
			p.line, p.due = nil, nil
		}
	}
	l.changed.Broadcast()
}

// dropAsks takes back what the server that is gone has asked and is being judged.
func (p *proxy) dropAsks() {
	for _, c := range p.link.submitted() {
		if c.side == wire.FromServer && !c.result && c.request != nil && p.link.drop(c) {
			p.onward(c.side).fill(c.place, nil)
		}
	}
}

// subscribe asks anew for what the agent has subscribed to. It is judged as any
// request is; one that is refused is not made.
func (p *proxy) subscribe(ctx context.Context, requests []*request) {
	for _, r := range requests {
		if p.ledger.add(r) == added {
			_ = p.submit(ctx, &call{side: wire.FromAgent, line: r.line, request: r})
		}
	}
}

// reopen opens the way to the shared server on a new stream, or to another one
// where the daemon is another. l.send is held.
func (l *link) reopen(stream *client.Attachment) (after func(context.Context)) {
	w := stream.Welcome()
	switch {
	case !w.GetShared():
		l.shared.end(&pb.Gone{Started: true, Status: child.ExitOurs, Reason: "the configuration does not say shared for it any more"})
		return nil
	case w.GetKept():
		_ = l.transmit(stream, l.shared.open(nil))
	default:
		initialize, first, then := l.obey.renewed()
		after = then
		l.shared.begin(first)
		_ = l.transmit(stream, l.shared.open(initialize))
	}
	for _, up := range l.shared.resume(w.GetWrote()) {
		_ = l.transmit(stream, up) // when it fails the stream has torn again
	}
	return after
}

// hearShared takes what the daemon says of a shared server.
func (l *link) hearShared(down *pb.Down) {
	if l.shared == nil {
		return
	}
	switch m := down.GetMsg().(type) {
	case *pb.Down_Read:
		l.shared.read(m.Read.GetSeq(), m.Read.GetLine())
	case *pb.Down_Wrote:
		l.shared.wrote(m.Wrote.GetSeq())
	case *pb.Down_Gone:
		l.shared.end(m.Gone)
	}
}

// tell sends what is lost with the stream.
func (l *link) tell(up *pb.Up) {
	l.send.Lock()
	defer l.send.Unlock()
	l.mu.Lock()
	stream := l.stream
	l.mu.Unlock()
	if stream != nil {
		_ = l.transmit(stream, up)
	}
}
