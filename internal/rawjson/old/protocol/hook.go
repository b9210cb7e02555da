package protocol

import (
	"errors"
	"fmt"
	"slices"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Action is what an extension wants done with what it was shown.
type Action string

const (
	Continue Action = "continue"
	Modify   Action = "modify"
	Block    Action = "block"
)

// Answer is what an extension says to a hook.
type Answer struct {
	Action  Action
	Changed []byte // Modify: a raw JSON object without line breaks
	Reason  string // Block: one line; may be empty
}

// mostReason is how much of an extension's reason is passed on, in bytes.
const mostReason = 1000

// ReadAnswer reads the answer to a hook; changed names the member that stands for
// what is put in the place of what was shown. There is one reading or none: a
// member that is not known or does not fit the action is an error, unless it is
// null or an empty text.
func ReadAnswer(raw []byte, changed string) (Answer, error) {
	o, err := readObject(raw)
	if err != nil {
		return Answer{}, err
	}
	word, ok := o.text("action")
	if !ok {
		return Answer{}, errors.New("there is no action in it")
	}
	a := Answer{Action: Action(word)}
	may := []string{"action"}
	switch a.Action {
	case Continue:
	case Modify:
		may = append(may, changed)
		a.Changed = o.raw(changed)
		if !isObject(a.Changed) {
			return Answer{}, fmt.Errorf("the action is modify, and %s is not a JSON object", changed)
		}
	case Block:
		may = append(may, "reason")
		reason, err := o.optional("reason")
		if err != nil {
			return Answer{}, err
		}
		a.Reason = Plain(reason, mostReason)
	default:
		return Answer{}, fmt.Errorf("there is no action %q", Plain(word, 40))
	}
	for _, m := range o {
		if empty := m.value.Kind() == 'n' || string(m.value) == `""`; !empty && !slices.Contains(may, m.name) {
			return Answer{}, fmt.Errorf("%q does not belong to the action %s", Plain(m.name, 40), a.Action)
		}
	}
	return a, nil
}

// Shown is a call as a hook sees it. Raw JSON in it is passed on as it is.
type Shown struct {
	ID, Session, Agent, Server, Method string
	Tool                               string // or the name of a prompt, or a URI
	Arguments                          []byte // a raw JSON object; nil for none
	Project, Profile                   string
	Facts                              []string
	Result                             []byte // raw JSON of the result; nil before there is one
}

// Params returns what the hook is asked with.
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
	dst = append(dst, `,"facts":[`...)
	for i, fact := range s.Facts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = wire.AppendQuote(dst, fact)
	}
	dst = append(dst, `],"arguments":`...)
	if s.Arguments == nil {
		dst = append(dst, `{}`...)
	}
	dst = append(append(dst, s.Arguments...), '}')
	if s.Result != nil {
		dst = append(append(dst, `,"result":`...), s.Result...)
	}
	return append(dst, '}')
}
