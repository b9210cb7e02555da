package rehearse

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Line is one call to judge. With a Result, it is an answer that passes the gate.
type Line struct {
	Server  string
	Method  string // default: tools/call
	Subject string // name of the tool or prompt, or URI of the resource
	// Arguments of the call: a raw JSON object or nil.
	Arguments []byte
	// Params replace Subject and Arguments: a raw JSON object.
	Params []byte
	// Result of the call, a raw JSON object: the call was answered.
	Result []byte
	// Definition of the tool as the server sent it, a raw JSON object. It is listed before the
	// call, unless it is the one listed last.
	Definition []byte

	Agent   string
	Session string // the lines of one session share what its servers have said
	Project string // folder
	Command []string
	Assume  []string // facts that are assumed of the call, besides those found
}

// complete sets defaults and checks the line.
func (l *Line) complete() error {
	if l.Server == "" {
		return errors.New("the server is missing")
	}
	if l.Method == "" {
		l.Method = "tools/call"
	}
	for _, raw := range []struct {
		name string
		json *[]byte
	}{{"arguments", &l.Arguments}, {"params", &l.Params}, {"result", &l.Result}, {"definition", &l.Definition}} {
		if *raw.json == nil {
			continue
		}
		// Duplicate names and invalid UTF-8 are left for the gate's reader to refuse.
		value := jsontext.Value(append([]byte(nil), *raw.json...))
		err := value.Compact(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
		if err != nil || value.Kind() != '{' {
			return fmt.Errorf("its %s must be a JSON object", raw.name)
		}
		*raw.json = value
	}
	switch {
	case l.Params != nil && (l.Arguments != nil || l.Subject != ""):
		return errors.New("it has params and also a subject or arguments")
	case l.Params == nil && l.Subject == "" && l.Result == nil && l.names():
		return fmt.Errorf("the subject of %s is missing", l.Method)
	}
	return nil
}

// names reports whether such a call is about something with a name.
func (l *Line) names() bool {
	on := mcp.Lookup(l.side(), &wire.Envelope{Kind: wire.Request, Method: l.Method}).Subject
	return on == mcp.Tool || on == mcp.Prompt || on == mcp.Resource
}

// side returns the side that sends the call.
func (l *Line) side() wire.Side {
	if mcp.IsAsk(l.Method) || strings.HasPrefix(l.Method, "notifications/") {
		return wire.FromServer
	}
	return wire.FromAgent
}

// isCall reports whether the line has a call, and not only a result.
func (l *Line) isCall() bool {
	return l.Result == nil || l.Subject != "" || l.Arguments != nil || l.Params != nil
}

// request returns the message of the call.
func (l *Line) request(id uint64) []byte {
	b := []byte(`{"jsonrpc":"2.0"`)
	if !strings.HasPrefix(l.Method, "notifications/") {
		b = fmt.Appendf(b, `,"id":%d`, id)
	}
	b = append(append(b, `,"method":`...), wire.AppendQuote(nil, l.Method)...)
	if params := l.params(); params != nil {
		b = append(append(b, `,"params":`...), params...)
	}
	return append(b, '}')
}

// params returns the params of the call, or nil.
func (l *Line) params() []byte {
	if l.Params != nil {
		return l.Params
	}
	name := "name"
	switch {
	case mcp.SubjectKind(l.Method) == mcp.Resource:
		name = "uri"
	case l.Subject == "" && l.Arguments == nil:
		return nil
	}
	b := append([]byte(`{"`+name+`":`), wire.AppendQuote(nil, l.Subject)...)
	if l.Arguments != nil {
		b = append(append(b, `,"arguments":`...), l.Arguments...)
	}
	return append(b, '}')
}

// answer returns the message that answers the call with this id.
func answer(id uint64, result []byte) []byte {
	return append(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":%s`, id, result), '}')
}
