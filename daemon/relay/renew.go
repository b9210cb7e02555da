package relay

import (
	"fmt"
	"maps"
	"slices"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// maxSubscribed is how many subscriptions are repeated.
const maxSubscribed = 1024

// agreements are an agent's requests that changed the state of an in-memory server. They are
// repeated to the next server.
type agreements struct {
	initialize []byte            // nil if not answered yet
	level      []byte            // the last logging/setLevel; nil for none
	subscribed map[string][]byte // resources/subscribe requests, by their URI as written
}

// binds reports whether a request with the method must be repeated to the next server.
func binds(method string) bool {
	switch method {
	case "initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe":
		return true
	}
	return false
}

// agreed: an in-memory server has executed a request that binds it.
type agreed struct {
	method string
	line   []byte
}

func (e *agreed) code(c *codec) { c.text(&e.method); c.bytes(&e.line) }

func (e *agreed) apply(s *state) error {
	a := &s.agreed
	switch e.method {
	case "initialize":
		a.initialize = e.line
	case "logging/setLevel":
		a.level = e.line
	case "resources/subscribe":
		if a.subscribed == nil {
			a.subscribed = map[string][]byte{}
		}
		if len(a.subscribed) < maxSubscribed {
			a.subscribed[uriOf(e.line)] = e.line
		}
	case "resources/unsubscribe":
		delete(a.subscribed, uriOf(e.line))
	default:
		return corruptError("%q sets no state of the server", e.method)
	}
	return nil
}

func uriOf(line []byte) string {
	var e wire.Envelope
	if wire.Read(line, fromAgent, &e) != nil {
		return ""
	}
	return string(e.URI.Of(line))
}

// events returns events that lead to a.
func (a *agreements) events() []event {
	var all []event
	if a.initialize != nil {
		all = append(all, &agreed{"initialize", a.initialize})
	}
	if a.level != nil {
		all = append(all, &agreed{"logging/setLevel", a.level})
	}
	for _, uri := range slices.Sorted(maps.Keys(a.subscribed)) {
		all = append(all, &agreed{"resources/subscribe", a.subscribed[uri]})
	}
	return all
}

// cleared: the pending output of a side was dropped.
type cleared struct{ to wire.Side }

func (e *cleared) code(c *codec) { c.side(&e.to) }

func (e *cleared) apply(s *state) error {
	q := &s.out[e.to]
	q.items, q.start, q.replies = nil, q.end, 0
	return nil
}

// renew prepares a session whose in-memory server ended with a previous daemon for another
// server. Requests that the first server had received are answered with an error; those that
// were not sent yet go to the next one.
func (m *InMemory) renew(s *Session) {
	q := &s.state.out[fromServer]
	spared := map[string]bool{}
	events := []event{&cleared{fromServer}}
	m.first = s.state.agreed.initialize
	if m.first == nil {
		for key, r := range s.state.open[fromAgent] {
			if r.method == "initialize" && r.sentLine != nil {
				spared[key] = true
				events = append(events, &queued{to: fromServer, line: terminated(r.sentLine)})
			}
		}
	} else {
		events = append(events, s.againEvents()...)
	}
	at := q.start
	for _, i := range q.items {
		whole := at >= m.cursor.Intent() // otherwise it is in doubt
		if at += i.n; whole && s.mayGoOn(i.line, spared) {
			events = append(events, &queued{to: fromServer, line: i.line, seq: i.seq})
		}
	}
	for key, r := range s.state.open[fromAgent] {
		if r.sent == 0 || spared[key] {
			continue
		}
		events = append(events, r.lost(&Refusal{mcp.CodeServerExit,
			"The MCP server ended with ThoughtGate's daemon and did not answer; the request may have been executed. The server is started again"})...)
	}
	for key := range s.state.open[fromServer] {
		events = append(events, &closed{which{fromServer, key}})
	}
	for seq, w := range s.state.waiting {
		if w.side == fromServer && !w.result { // the server that sent it has ended
			events = append(events, &decided{seq})
			m.abandoned = append(m.abandoned, seq)
		}
	}
	m.cursor.SetIntent(q.end) // if the daemon ends here, unsent lines count as lost
	m.cursor.SetStaged(q.end)
	m.cursor.SetDelivered(q.end)
	s.commit(events...)
}

// mayGoOn reports whether a line for one server may go to another one.
func (s *Session) mayGoOn(line []byte, spared map[string]bool) bool {
	var e wire.Envelope
	line = line[:len(line)-1]
	if wire.Read(line, fromAgent, &e) != nil {
		return false
	}
	switch e.Kind {
	case wire.Notification:
		return true
	case wire.Request:
		key := e.Key(line)
		if s.state.open[fromAgent][key] == nil || spared[key] {
			return false
		}
		spared[key] = true
		return true
	}
	return false // the server that sent the request has ended
}

// againEvents returns the events that repeat the agent's agreements to a server: the log
// level, and the subscriptions, which are judged again.
func (s *Session) againEvents() []event {
	var events []event
	a, n := &s.state.agreed, 0
	again := func(method string, line []byte) *request {
		n++
		return ourRequest(method, line, fmt.Sprintf(`"thoughtgate/%d/%d"`, s.state.seqs[fromAgent], n))
	}
	if r := again("logging/setLevel", a.level); r != nil && a.level != nil && s.state.open[fromAgent][r.key] == nil {
		r.sent = now()
		events = append(events, &opened{*r}, &queued{to: fromServer, line: terminated(r.sentLine)})
	}
	seq := s.state.nextSeq(fromAgent)
	for _, uri := range slices.Sorted(maps.Keys(a.subscribed)) {
		r := again("resources/subscribe", a.subscribed[uri])
		if r == nil || s.state.open[fromAgent][r.key] != nil {
			continue
		}
		r.number, r.seq = seq, seq
		events = append(events, &numbered{seq}, &opened{*r}, &held{waiting{seq: seq, side: fromAgent, line: r.sentLine, key: r.key, id: r.id}})
		seq += 2
	}
	return events
}

// ourRequest returns a request of the session's own that equals line except for the id.
func ourRequest(method string, line []byte, id string) *request {
	var e wire.Envelope
	if wire.Read(line, fromAgent, &e) != nil { // it was read before
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
	return &request{side: fromAgent, key: key, id: []byte(id), method: method, sentLine: again, ours: true}
}
