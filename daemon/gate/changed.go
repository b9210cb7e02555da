package gate

import (
	"fmt"
	"slices"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// When a set comes into force, or a person accepts a definition, what an agent may see can
// change. The agent is then notified that a list has changed, as its server would do it: in
// the legacy era if the server declared listChanged, in the modern era on each subscription
// that the server has acknowledged.

// Limits, whatever servers list and agents subscribe to.
const (
	mostShown   = 8192
	mostListens = 64
)

// shown is what an attachment's agent has seen of its server's lists, and how to notify it of
// changes. The attachment's mutex guards it.
type shown struct {
	elements map[element]bool // whether the agent was shown the element
	more     map[string]bool  // by list: elements is incomplete
	set      string           // digest of the set at the last refresh
	tells    map[string]bool  // by notification: the legacy server declared that it sends it
	listens  []*listen
	deliver  func(line []byte)
}

// element is one element of the list that a method returns.
type element struct{ list, name string }

// listen is an open subscriptions/listen.
type listen struct {
	seq   uint64
	id    string // of the request, without quotes
	mark  []byte // raw subscriptionId; nil until the server has acknowledged
	lists map[string]bool
}

// DeliverTo makes deliver the receiver of lines for the agent that answer none of its
// requests; nil for no receiver. It is called without locks that the relay may wait for.
func (a *Attachment) DeliverTo(deliver func(line []byte)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shown.deliver = deliver
}

// shows records which elements of a list the agent is shown. why gives for each element why it
// is not.
func (a *Attachment) shows(c *Call, elements []wire.Element, why []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := &a.shown
	if s.elements == nil {
		s.elements, s.more = map[element]bool{}, map[string]bool{}
	}
	for i, e := range elements {
		if e.Bad || e.Twice {
			continue
		}
		at := element{c.Method, e.ID}
		if _, known := s.elements[at]; !known && len(s.elements) >= mostShown {
			s.more[c.Method] = true
			continue
		}
		s.elements[at] = why[i] == "" || c.Profile == Development
	}
}

// Refresh determines again what the agent may see, and notifies it of the lists that have
// changed. Without a receiver, nothing is compared until the next Refresh.
func (a *Attachment) Refresh() {
	a.submitting.Lock() // so that a list under way is recorded first
	changed, lines, deliver := a.refresh()
	for _, line := range lines { // without a.mu, for which a session that is delivered to may wait
		deliver(line)
	}
	a.submitting.Unlock()
	a.mu.Lock()
	a.silence.again() // the limit may have changed
	a.mu.Unlock()
	for _, notification := range changed {
		if a.mayNote(a.ctx) {
			r := a.about(record.KindMessage)
			r.Direction, r.Method = Direction(wire.FromServer), notification
			r.Reason = "sent by ThoughtGate: what the agent may see has changed"
			a.write(a.ctx, r, nil)
		}
	}
}

// refresh returns the notifications that the agent expects of what has changed, the lines to send
// for them, and their receiver.
func (a *Attachment) refresh() (notifications []string, lines [][]byte, deliver func([]byte)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := &a.shown
	if s.deliver == nil {
		return nil, nil, nil
	}
	c := a.newCall(wire.FromServer)
	policy := a.gate.policy(c)
	c.Profile = c.inForce(policy)
	changed := map[string]bool{}
	for e, was := range s.elements {
		if may := a.gate.shows(policy, c, e); may != was {
			s.elements[e], changed[e.list] = may, true
		}
	}
	for list := range s.more {
		changed[list] = changed[list] || s.set != "" && s.set != policy.Digest()
	}
	s.set = policy.Digest()
	for _, notification := range mcp.ListNotifications() {
		if !slices.ContainsFunc(mcp.ListsOf(notification), func(list string) bool { return changed[list] }) {
			continue
		}
		if expected := s.linesFor(notification); len(expected) > 0 {
			notifications, lines = append(notifications, notification), append(lines, expected...)
		}
	}
	return notifications, lines, s.deliver
}

// shows reports whether an agent may see an element now.
func (g *Gate) shows(policy Policy, c *Call, e element) bool {
	if c.Profile == Development {
		return true
	}
	_, kind := mcp.ListOf(e.list)
	return policy.Visible(c, kind, e.name) && (g.Pins == nil || !g.Pins.Holds(c, e.list, e.name))
}

// linesFor returns notification in each way in which the agent expects it.
func (s *shown) linesFor(notification string) (lines [][]byte) {
	if s.tells[notification] {
		lines = append(lines, fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q}`, notification))
	}
	for _, l := range s.listens {
		if l.mark != nil && l.lists[notification] {
			lines = append(lines, fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q,"params":{"_meta":{%q:%s}}}`, notification, subscriptionID, l.mark))
		}
	}
	return lines
}

const subscriptionID = "io.modelcontextprotocol/subscriptionId"

// listening registers a subscription that the agent requests.
func (a *Attachment) listening(c *Call) {
	if c.Method != "subscriptions/listen" || c.Envelope.Kind != wire.Request {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.shown.listens) < mostListens {
		a.shown.listens = append(a.shown.listens, &listen{seq: c.Seq, id: bare(c.Envelope.ID.Of(c.Line))})
	}
}

// bare returns the text of an id, whether it is a JSON string or a number: servers name a
// subscription by the id of its request in either form.
func bare(raw []byte) string {
	if text, err := wire.Unquote(wire.Span{End: len(raw)}, raw); err == nil {
		return text
	}
	return string(raw)
}

// ended removes the subscriptions for which over returns true.
func (s *shown) ended(over func(*listen) bool) { s.listens = slices.DeleteFunc(s.listens, over) }

// learn updates how the agent can be notified of list changes, from a message that passes.
func (a *Attachment) learn(method string, e *wire.Envelope, line []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := &a.shown
	switch {
	case method == "initialize" && e.Kind == wire.Result:
		s.tells = map[string]bool{}
		for _, notification := range mcp.ListNotifications() {
			tells := memberAt(line, e.Result, "capabilities", mcp.ListCapability(notification), "listChanged")
			s.tells[notification] = string(tells.Of(line)) == "true"
		}
	case method == "initialize" && e.Kind == wire.Request:
		a.unable = !memberAt(line, e.Params, "capabilities", "sampling").Present()
	case method == "notifications/subscriptions/acknowledged" && e.Meta.Present():
		mark, err := wire.Member(line, e.Meta, subscriptionID)
		if err != nil || !mark.Present() {
			return
		}
		for _, l := range s.listens {
			if l.id != bare(mark.Of(line)) {
				continue
			}
			l.mark, l.lists = append([]byte(nil), mark.Of(line)...), map[string]bool{}
			for _, notification := range mcp.ListNotifications() {
				tells := memberAt(line, e.Notifications, mcp.ListCapability(notification)+"ListChanged")
				l.lists[notification] = string(tells.Of(line)) == "true"
			}
		}
	case method == "notifications/cancelled" && e.RequestID.Present():
		id := bare(e.RequestID.Of(line))
		s.ended(func(l *listen) bool { return l.id == id })
	}
}

// memberAt returns the member at the end of path, or the zero Span.
func memberAt(line []byte, at wire.Span, path ...string) wire.Span {
	for _, name := range path {
		next, err := wire.Member(line, at, name)
		if err != nil || !next.Present() {
			return wire.Span{}
		}
		at = next
	}
	return at
}
