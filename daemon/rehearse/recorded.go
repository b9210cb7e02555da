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

// Recorded is a recorded call.
type Recorded struct {
	record.Record
	Values  []byte   // what is kept of the values; may be nil
	Params  bool     // Values are the whole params, not only the arguments
	Whole   bool     // Values are complete, or there were none
	Command []string // of the server; nil if not known
}

// errNoCall reports that a record is not of a call but of a judged answer.
var errNoCall = errors.New("no call")

// line restores the call. An error other than errNoCall says why that is impossible.
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
		return l, fmt.Errorf("the content of %s is not recorded", r.Method)
	}
	return l, nil
}

// isParams reports whether values are the params of a call without arguments, which are kept
// instead of arguments.
func isParams(values []byte, name string) bool {
	named, other := false, false
	members, _ := rawjson.Members(values) // if it has no members, it is not named
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

// call returns the message that was judged, with the time and profile of the record.
func (r *Recorded) call(g *gate.Gate, l *Line) (*gate.Call, error) {
	if err := l.complete(); err != nil {
		return nil, err
	}
	request := l.request(r.Call + 1)
	if r.MessageID == "" && l.side() == wire.FromAgent { // a notification that is in no table
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

// lacks returns what the record does not contain.
func (r *Recorded) lacks() gate.Lacks {
	return gate.Lacks{Arguments: !r.Whole, Details: true, Annotations: true, Session: true, Process: true, Command: r.Command == nil}
}

// facts returns the facts that were found when the call came, by name.
func (r *Recorded) facts() []gate.Fact {
	facts := make([]gate.Fact, len(r.Record.Facts))
	for i, name := range r.Record.Facts {
		facts[i] = gate.Fact{Name: name}
	}
	return facts
}

// was returns the verdict of the gates at that time, before a person's answer and regardless of the
// profile. because says why it can't be compared; it is usually empty.
func (r *Recorded) was() (verdict, because string) {
	switch r.Gate {
	case "", "visible", "rule", "permit", "ask", "accident":
	default:
		because = fmt.Sprintf("the gate %s decided, which a backtest does not run", r.Gate)
	}
	if because == "" && len(r.Extensions) > 0 && gate.Profile(r.Profile) == gate.Development {
		because = "extensions would have changed it, and the changed call was judged"
	}
	switch {
	case r.Would == "WOULD_ASK", r.Verdict == "hold", r.Approval != "", r.Surface == record.SurfaceHost, r.Would == "" && r.Verdict == "deny" && r.Gate == "ask":
		return "ask", because
	case r.Would != "" && r.Would != "WOULD_REDACT", r.Verdict == "deny":
		return "deny", because
	}
	return "forward", because
}

// by returns what decided at that time.
func (r *Recorded) by() string {
	switch {
	case r.Gate == "permit" && len(r.Policies) > 0:
		return strings.Join(r.Policies, ", ")
	case r.Rule != "":
		return r.Rule
	}
	return r.Gate
}

// CommandOf parses the command of a server in the record of its shim's attachment, or returns nil
// if there is none.
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
