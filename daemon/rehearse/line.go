package rehearse

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Line is one thing to judge, or with a Result one that the gate saw pass.
type Line struct {
	Server  string
	Method  string // empty: tools/call
	Subject string // name of the tool or prompt, or URI of the resource
	// Arguments of the call: a raw JSON object, nil for none.
	Arguments []byte
	// Params in place of Subject and Arguments: a raw JSON object.
	Params []byte
	// Result of the call, a raw JSON object: it has been answered.
	Result []byte
	// Definition of the tool as the server gave it, a raw JSON object. It is
	// listed before the call, unless it was just so.
	Definition []byte

	Agent   string
	Session string // those of one session share what its servers have said
	Project string // folder
	Command []string
	Assume  []string // facts that are taken to be true of the call, beside those that are
}

// complete fills in what may be left out, and says what is wrong.
func (l *Line) complete() error {
	if l.Server == "" {
		return errors.New("it names no server")
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
		// What comes twice or is no valid text is for the gate's own reader to refuse.
		value := jsontext.Value(append([]byte(nil), *raw.json...))
		err := value.Compact(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
		if err != nil || value.Kind() != '{' {
			return fmt.Errorf("its %s are not a JSON object", raw.name)
		}
		*raw.json = value
	}
	switch {
	case l.Params != nil && (l.Arguments != nil || l.Subject != ""):
		return errors.New("it has params, and a subject or arguments beside them")
	case l.Params == nil && l.Subject == "" && l.Result == nil && l.names():
		return fmt.Errorf("it doesn't say what %s is about", l.Method)
	}
	return nil
}

// names reports whether such a call is about something with a name.
func (l *Line) names() bool {
	switch mcp.Lookup(l.side(), &wire.Envelope{Kind: wire.Request, Method: l.Method}).Subject {
	case mcp.Tool, mcp.Prompt, mcp.Resource:
		return true
	}
	return false
}

// side is who asks.
func (l *Line) side() wire.Side {
	if mcp.IsAsk(l.Method) || strings.HasPrefix(l.Method, "notifications/") {
		return wire.FromServer
	}
	return wire.FromAgent
}

// isCall reports whether the line says what was called, and not only how it was
// answered.
func (l *Line) isCall() bool {
	return l.Result == nil || l.Subject != "" || l.Arguments != nil || l.Params != nil
}

// request is the message in which the call is made.
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

// params are those of the call, nil for none.
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

// answer is the message that answers the call of this id.
func (l *Line) answer(id uint64) []byte { return answer(id, l.Result) }

func answer(id uint64, result []byte) []byte {
	return append(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":%s`, id, result), '}')
}
