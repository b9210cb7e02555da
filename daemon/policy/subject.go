package policy

import (
	"fmt"

	"github.com/cedar-policy/cedar-go"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/uri"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// class describes how the method of a call is judged.
type class uint8

const (
	classPass    class = iota // forwarded unless a rule names the method
	classAct                  // an agent's request to a server
	classAsk                  // a server's request to the agent
	classUnknown              // the method is in no table
)

// subject describes what a call is about, in the terms of rules and policies.
type subject struct {
	class  class
	method string           // as rules and policies name it
	kind   cedar.EntityType // type of the resource
	names  []string         // names of the resource, or its URIs in every spelling; never empty
	server string
	agent  string

	unruled     bool // a server's request that is forwarded unless a rule names it
	cedarByRule bool // Cedar decides only if a rule has the action policy

	array [1]string // backs names in most calls
}

// agentUnknown is the name of an agent of unknown type.
const agentUnknown = "unknown"

// subjectOf returns the subject of c.
func subjectOf(c *gate.Call) (*subject, error) {
	if kind := c.Envelope.Kind; kind == wire.Result || kind == wire.Error {
		return nil, fmt.Errorf("policies judge requests, not the answer to %s", c.Method)
	}
	s := &subject{method: c.Method, kind: typeMethod, server: c.Server, agent: c.Agent}
	s.names = s.array[:]
	if s.agent == "" {
		s.agent = agentUnknown
	}
	if c.Side == wire.FromServer && mcp.IsAsk(c.Method) {
		s.setAsk(c)
		return s, nil
	}
	row := mcp.Lookup(c.Side, &c.Envelope)
	switch {
	case row.Treatment == mcp.Refuse:
		return nil, fmt.Errorf("%s is not sent in this direction", c.Method)
	case row.Unknown:
		s.class = classUnknown
	case row.Answers: // it acts, but on nothing that has a name
		s.class = classAct
	case row.Acting:
		s.class = classAct
		return s, s.setAct(c, row.Subject)
	}
	return s, nil
}

// setAct sets what an agent acts on.
func (s *subject) setAct(c *gate.Call, on mcp.Subject) error {
	s.names[0] = c.Subject
	if on == mcp.Reference {
		s.cedarByRule = true
		on = mcp.ReferenceKind(&c.Envelope, c.Line)
	}
	switch on {
	case mcp.Tool:
		s.kind = typeTool
	case mcp.Prompt:
		s.kind = typePrompt
	case mcp.Resource:
		s.kind = typeResource
	case mcp.Listen:
		_, uris, err := mcp.ListenURIs(&c.Envelope, c.Line)
		if err != nil {
			return fmt.Errorf("read the subscription: %w", err)
		}
		if len(uris) == 0 {
			s.names = []string{""}
			break
		}
		// A subscription reads each of the URIs from now on.
		s.method, s.kind, s.names = "resources/subscribe", typeResource, uris
	case mcp.Task:
		// The server chooses the id of a task, so it must not be matched as the name of a tool.
		s.names = []string{c.Task}
		if c.Task != "" {
			s.kind = typeTool
		}
	default:
		return fmt.Errorf("the subject of %s is unknown", c.Method)
	}
	if s.kind == typeResource {
		s.addSpellings()
	}
	return nil
}

// addSpellings adds the other spellings of each URI, so that no rule can be evaded by a spelling
// that some program normalizes.
func (s *subject) addSpellings() {
	for _, name := range s.names[:len(s.names):len(s.names)] {
		s.names = append(s.names, uri.Spellings(name)[1:]...)
	}
}

// setAsk sets what a server requests of the agent. Forms and roots are forwarded unless a rule
// names them.
func (s *subject) setAsk(c *gate.Call) {
	s.class, s.kind = classAsk, typeAgent
	switch c.Method {
	case "roots/list":
		s.unruled = true
	case "elicitation/create":
		s.unruled = !c.Envelope.Mode.Present()
		if mode, err := wire.Unquote(c.Envelope.Mode, c.Line); err == nil && mode == "form" {
			s.unruled = true
		}
	}
}
