package protocol

import (
	"fmt"
	"slices"

	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Action is what an extension decides about what it was shown.
type Action string

const (
	Continue Action = "continue"
	Modify   Action = "modify"
	Block    Action = "block"
)

// Answer is the answer of an extension to a hook.
type Answer struct {
	Action  Action
	Changed []byte // Modify: a raw JSON object without line breaks
	Reason  string // Block: one line; may be empty
}

// mostReason is the maximum length of a reason that is passed on, in bytes.
const mostReason = 1000

// ReadAnswer parses the answer to a hook. changed names the member that holds the rewritten
// arguments or result. To have only one possible reading, an answer with a member that is
// unknown or does not fit the action is an error, unless that member is null or an empty
// string.
func ReadAnswer(raw []byte, changed string) (Answer, error) {
	o := rawjson.Read(raw)
	a := Answer{Action: Action(o.Text("action"))}
	may := []string{"action"}
	switch a.Action {
	case Continue:
	case Modify:
		may = append(may, changed)
		if a.Changed = OneLine(o.Get(changed)); !isObject(a.Changed) {
			o.Fail("the action is modify, but %s is not a JSON object", changed)
		}
	case Block:
		may = append(may, "reason")
		a.Reason = Plain(o.OptionalText("reason"), mostReason)
	default:
		o.Fail("unknown action %q", Plain(string(a.Action), 40))
	}
	for _, m := range o.Members {
		if empty := m.Value.Kind() == 'n' || string(m.Value) == `""`; !empty && !slices.Contains(may, m.Name) {
			o.Fail("%q does not belong to the action %s", Plain(m.Name, 40), a.Action)
		}
	}
	if err := o.Err(); err != nil {
		return Answer{}, err
	}
	return a, nil
}

// Shown is a call as a hook sees it. Raw JSON in it is passed on unchanged.
type Shown struct {
	ID, Session, Agent, Server, Method string
	Tool                               string // or the name of a prompt, or a URI
	Arguments                          []byte // a raw JSON object; nil for none
	Project, Profile                   string
	Facts                              []string
	Result                             []byte // raw JSON of the result; nil before there is one
}

// Params returns the params of the hook.
func (s *Shown) Params() []byte {
	dst := []byte(`{"call":{`)
	for i, m := range []struct{ name, value string }{
		{"id", s.ID}, {"session", s.Session}, {"agent", s.Agent}, {"server", s.Server}, {"method", s.Method},
		{"tool", s.Tool}, {"project", s.Project}, {"profile", s.Profile},
	} {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = wire.AppendQuote(append(wire.AppendQuote(dst, m.name), ':'), m.value)
	}
	dst = appendTexts(append(dst, `,"facts":`...), s.Facts)
	dst = append(dst, `,"arguments":`...)
	if s.Arguments == nil {
		dst = append(dst, `{}`...)
	}
	dst = append(append(dst, s.Arguments...), '}')
	if s.Result != nil {
		dst = append(append(dst, `,"result":`...), s.Result...)
	}
	return append(dst, '}')
}

// CheckResult returns the result of a tool in one line, or an error if it is invalid.
func CheckResult(raw []byte) ([]byte, error) {
	o := rawjson.Read(raw)
	if o.True("isError"); o.Get("content").Kind() != '[' {
		o.Fail("the content array is missing")
	}
	if err := o.Err(); err != nil {
		return nil, fmt.Errorf("the result of the tool: %w", err)
	}
	return OneLine(raw), nil
}

// StreamOf returns the request id in a provider.stream.event; empty if there is none.
func StreamOf(params []byte) (string, error) {
	o := rawjson.Read(params)
	return o.OptionalText("request_id"), o.Err()
}

// WithRequest adds a request_id to params, an object that is not empty.
func WithRequest(params []byte, request string) []byte {
	dst := append(wire.AppendQuote([]byte(`{"request_id":`), request), ',')
	return append(dst, params[1:]...)
}
