package rehearse

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Recorded is a call on record.
type Recorded struct {
	record.Record
	Values  []byte   // what is kept of them, nil for nothing
	Params  bool     // they are all of the params, and not the arguments alone
	Whole   bool     // that is all of them, or there were none
	Command []string // of the server; nil when that is not known
}

// errNoCall is a record of something that is no call: an answer that was judged.
var errNoCall = errors.New("no call")

// line makes the call again. An error other than errNoCall says why it can't be.
func (r *Recorded) line() (Line, error) {
	asks := mcp.IsAsk(r.Method)
	if (r.Direction == gate.Direction(wire.FromServer)) != asks {
		return Line{}, errNoCall
	}
	l := Line{Server: r.Server, Method: r.Method, Agent: r.Agent, Session: r.Session, Command: r.Command}
	row := mcp.Lookup(l.side(), &wire.Envelope{Kind: wire.Request, Method: r.Method, Modern: r.Method == "subscriptions/listen"})
	switch row.Subject {
	case mcp.Tool, mcp.Prompt:
		if r.Params && r.Values != nil {
			l.Params = r.Values
			return l, nil
		}
		l.Subject = r.Tool
		if !isParams(r.Values, r.Tool) {
			l.Arguments = r.Values
		}
		return l, nil
	case mcp.Resource:
		l.Subject = r.Tool
		return l, nil
	}
	l.Params = r.Values
	if absent := r.Values == nil && !r.Whole; absent && (row.Subject != mcp.None || r.Method == "elicitation/create") {
		return l, fmt.Errorf("what %s was about is not on record", r.Method)
	}
	return l, nil
}

// isParams reports whether values are the params of a call without arguments,
// which are kept in their place.
func isParams(values []byte, name string) bool {
	named := false
	other := false
	members, _ := rawjson.Members(values) // without any it is not named
	for _, m := range members {
		switch m.Name {
		case "name":
			text, err := rawjson.Text(m.Value)
			named = err == nil && text == name
		case "_meta", "task", "requestState", "inputResponses":
		default:
			other = true
		}
	}
	return named && !other
}

// call makes the message that was judged, as of then.
func (r *Recorded) call(g *gate.Gate, l *Line) (*gate.Call, error) {
	if err := l.complete(); err != nil {
		return nil, err
	}
	request := l.request(r.Call + 1)
	if r.MessageID == "" && l.side() == wire.FromAgent { // a notification that no table knows
		request = bytes.Replace(request, fmt.Appendf(nil, `,"id":%d`, r.Call+1), nil, 1)
	}
	c, err := g.Read(gate.Shim{
		Attachment: r.Attachment, Session: r.Session, Agent: r.Agent, Server: r.Server, Launch: r.Launch, Command: r.Command,
	}, gate.Submission{Seq: r.Call, Side: l.side(), Line: request})
	if err != nil {
		return nil, err
	}
	c.Received, c.Profile = r.Time, gate.Profile(r.Profile)
	return c, nil
}

// lacks says what is not on record of the call.
func (r *Recorded) lacks() gate.Lacks {
	return gate.Lacks{Arguments: !r.Whole, Details: true, Annotations: true, Session: true, Process: true, Command: r.Command == nil}
}

// facts are those that were found when the call came, by name.
func (r *Recorded) facts() []gate.Fact {
	facts := make([]gate.Fact, len(r.Record.Facts))
	for i, name := range r.Record.Facts {
		facts[i] = gate.Fact{Name: name}
	}
	return facts
}

// was is the verdict of the gates then: not what a person made of it, nor the
// profile. because says why it can't be compared, and is empty mostly.
func (r *Recorded) was() (verdict, because string) {
	switch r.Gate {
	case "", "visible", "rule", "permit", "ask", "accident":
	default:
		because = fmt.Sprintf("the gate %s decided, which is not tried here", r.Gate)
	}
	if because == "" && len(r.Extensions) > 0 && gate.Profile(r.Profile) == gate.Development {
		because = "extensions would have changed it, and what they would have made of it was judged"
	}
	switch {
	case r.Would == "WOULD_ASK", r.Verdict == "hold", r.Approval != "", r.Would == "" && r.Verdict == "deny" && r.Gate == "ask":
		return "ask", because
	case r.Would != "" && r.Would != "WOULD_REDACT", r.Verdict == "deny":
		return "deny", because
	}
	return "forward", because
}

// by says what decided then.
func (r *Recorded) by() string {
	switch {
	case r.Gate == "permit" && len(r.Policies) > 0:
		return strings.Join(r.Policies, ", ")
	case r.Rule != "":
		return r.Rule
	}
	return r.Gate
}

// CommandOf reads the command of a server from the record that its shim has
// joined; nil when it is not there.
func CommandOf(r *record.Record) []string {
	rest, ok := strings.CutPrefix(r.Reason, "[")
	if !ok {
		return nil
	}
	command := []string{}
	for {
		rest = strings.TrimPrefix(rest, " ")
		word, err := strconv.QuotedPrefix(rest)
		if err != nil {
			break
		}
		text, err := strconv.Unquote(word)
		if err != nil {
			return nil
		}
		command = append(command, text)
		rest = rest[len(word):]
	}
	if rest != "]" {
		return nil
	}
	return command
}
