package policy

import (
	"fmt"

	"github.com/cedar-policy/cedar-go"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/uri"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// class is how the method of a call is judged.
type class uint8

const (
	passes  class = iota // nothing to judge, unless a rule names the method
	acts                 // an agent acts on a server
	asks                 // a server asks something of the agent
	unknown              // no table has the method
)

// subject is what a call is about, in the terms of rules and policies.
type subject struct {
	class  class
	method string           // as rules and policies name it
	on     cedar.EntityType // what it is done to
	names  []string         // what it is done to, by name or URI; a URI in each of its spellings. Never empty
	server string
	agent  string
	free   bool // an ask that is forwarded where no rule names it
	light  bool // Cedar is asked only where a rule says so

	one [1]string // the names of most
}

// agentUnknown stands for an agent whose type is not known.
const agentUnknown = "unknown"

// subjectOf reads from c what rules match.
func subjectOf(c *gate.Call) (*subject, error) {
	if kind := c.Envelope.Kind; kind == wire.Result || kind == wire.Error {
		return nil, fmt.Errorf("policies judge what is asked, not the answer to %s", c.Method)
	}
	s := &subject{method: c.Method, on: typeMethod, server: c.Server, agent: c.Agent}
	s.names = s.one[:]
	if s.agent == "" {
		s.agent = agentUnknown
	}
	if c.Side == wire.FromServer && mcp.IsAsk(c.Method) {
		s.ask(c)
		return s, nil
	}
	row := mcp.Lookup(c.Side, &c.Envelope)
	switch {
	case row.Treatment == mcp.Refuse:
		return nil, fmt.Errorf("%s doesn't go this way", c.Method)
	case row.Unknown:
		s.class = unknown
	case row.Answers: // to the policy it acts, on nothing that has a name
		s.class = acts
	case row.Acting:
		s.class = acts
		return s, s.act(c, row.Subject)
	}
	return s, nil
}

// act fills in what an agent acts on.
func (s *subject) act(c *gate.Call, on mcp.Subject) error {
	s.names[0] = c.Subject
	if on == mcp.Reference {
		s.light = true
		on = mcp.ReferenceKind(&c.Envelope, c.Line)
	}
	switch on {
	case mcp.Tool:
		s.on = typeTool
	case mcp.Prompt:
		s.on = typePrompt
	case mcp.Resource:
		s.on = typeResource
	case mcp.Listen:
		_, uris, err := mcp.ListenURIs(&c.Envelope, c.Line)
		if err != nil {
			return fmt.Errorf("read what is subscribed to: %w", err)
		}
		if len(uris) == 0 {
			s.names = []string{""}
			break
		}
		// A standing read of each of them.
		s.method, s.on, s.names = "resources/subscribe", typeResource, uris
	case mcp.Task:
		// The id of a task is the server's own invention: it must not look like
		// the name of a tool that some rule lets through.
		s.names = []string{c.Task}
		if c.Task != "" {
			s.on = typeTool
		}
	default:
		return fmt.Errorf("it can't be told what %s acts on", c.Method)
	}
	if s.on == typeResource {
		s.spell()
	}
	return nil
}

// spell adds the other spellings of each URI, so that no rule can be walked round
// with what some reader of URIs tidies up.
func (s *subject) spell() {
	for _, name := range s.names[:len(s.names):len(s.names)] {
		s.names = append(s.names, uri.Spellings(name)[1:]...)
	}
}

// ask fills in what a server asks of the agent. Forms and roots go through
// where no rule names them.
func (s *subject) ask(c *gate.Call) {
	s.class, s.on = asks, typeAgent
	switch c.Method {
	case "roots/list":
		s.free = true
	case "elicitation/create":
		s.free = !c.Envelope.Mode.Present()
		if mode, err := wire.Unquote(c.Envelope.Mode, c.Line); err == nil && mode == "form" {
			s.free = true
		}
	}
}
