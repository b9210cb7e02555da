package provider

import (
	"errors"
	"fmt"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/rawjson"
)

// Result is an answer of a model.
type Result struct {
	Content    []Block
	StopReason string // in the provider's words, as end_turn or tool_use; may be empty
	Usage      []byte // raw object, nil if absent
}

// Block is one block of an answer.
type Block struct {
	Type string   // text, tool_use, thinking, ...
	Text string   // for type text
	Use  *ToolUse // for type tool_use
	Raw  []byte   // the block as it was written
}

// ToolUse is a model's request to call a tool.
type ToolUse struct {
	ID    string // named in its result; not empty, unique in an answer
	Name  string // of the tool; not empty
	Input []byte // a raw object
}

// mostUses is the maximum number of tool uses in one answer.
const mostUses = 64

// ErrEmpty reports an answer without content. Only a streamed answer may be empty, since its
// content may have come as events.
var ErrEmpty = errors.New("the provider's answer has no content")

// ReadResult parses the result of provider.complete. The error for an answer without content is
// ErrEmpty.
func ReadResult(raw []byte) (Result, error) {
	r, err := ReadStreamed(raw)
	if err == nil && len(r.Content) == 0 {
		err = ErrEmpty
	}
	return r, err
}

// ReadStreamed parses the result of provider.stream, which may have no content. raw must not be
// modified afterwards.
func ReadStreamed(raw []byte) (Result, error) {
	o := rawjson.Read(raw)
	r := Result{StopReason: o.OptionalText("stop_reason"), Usage: o.Get("usage")}
	if r.Usage != nil && r.Usage[0] != '{' {
		o.Fail("usage is not an object")
	}
	if o.Get("content") == nil {
		o.Fail("content is missing")
	}
	for _, block := range o.Objects("content") {
		r.Content = append(r.Content, readBlock(block))
	}
	if err := o.Err(); err != nil {
		return Result{}, fmt.Errorf("the provider's answer: %w", err)
	}
	if _, err := r.Uses(); err != nil {
		return Result{}, err
	}
	return r, nil
}

// Uses returns the tool uses of an answer, in order. It returns an error if two have the same
// id or if there are too many.
func (r *Result) Uses() ([]ToolUse, error) {
	var uses []ToolUse
	seen := map[string]bool{}
	for _, b := range r.Content {
		if b.Use == nil {
			continue
		}
		if seen[b.Use.ID] {
			return nil, fmt.Errorf("the provider's answer has two tool uses with the id %q", b.Use.ID)
		}
		seen[b.Use.ID] = true
		uses = append(uses, *b.Use)
	}
	if len(uses) > mostUses {
		return nil, fmt.Errorf("the provider's answer has %d tool uses; at most %d can be answered", len(uses), mostUses)
	}
	return uses, nil
}

func readBlock(o rawjson.Object) Block {
	b := Block{Type: o.Text("type"), Raw: o.Raw}
	switch b.Type {
	case "text":
		b.Text = o.Text("text")
	case "tool_use":
		b.Use = readUse(o)
	}
	return b
}

// readUse parses a tool use of a block or an event.
func readUse(o rawjson.Object) *ToolUse {
	u := ToolUse{ID: o.Text("id"), Name: o.Text("name"), Input: []byte("{}")}
	switch {
	case strings.TrimSpace(u.ID) == "":
		o.Fail("a tool_use has an empty id")
	case strings.TrimSpace(u.Name) == "":
		o.Fail("a tool_use has an empty name")
	}
	if o.Has("input") {
		if u.Input = o.Get("input"); u.Input == nil || u.Input[0] != '{' {
			o.Fail("the input of the tool_use %q is not an object", u.ID)
		}
	}
	return &u
}

// EventKind is the kind of an Event.
type EventKind string

const (
	EventText     EventKind = "text"     // more of the answer
	EventThinking EventKind = "thinking" // more of what the model thinks
	EventToolUse  EventKind = "tool_use" // a complete tool use
	EventUsage    EventKind = "usage"    // tokens used
	EventError    EventKind = "error"    // something went wrong; the result still follows
	EventDone     EventKind = "done"     // nothing more follows
)

// Event is a piece of a streamed answer.
type Event struct {
	Kind  EventKind
	Text  string   // text and thinking: what is appended; error: the message
	Use   *ToolUse // tool_use
	Usage []byte   // usage: a raw object
}

// ReadEvent parses the parameters of a provider.stream.event, which are the event itself or an
// object with the member event.
func ReadEvent(params []byte) (Event, error) {
	whole := rawjson.Read(params)
	o := whole
	if o.Has("event") {
		o = o.Object("event")
	}
	e := Event{Kind: EventKind(o.Text("type"))}
	switch e.Kind {
	case EventText, EventThinking:
		name := "delta"
		if !o.Has(name) {
			name = "text"
		}
		e.Text = o.Text(name)
	case EventToolUse:
		e.Use = readUse(o)
	case EventUsage:
		e.Usage = o.Without("type")
	case EventError:
		if e.Text = o.Text("message"); e.Text == "" {
			o.Fail("an error has an empty message")
		}
	case EventDone:
	default:
		o.Fail("unknown type %q", e.Kind)
	}
	if err := whole.Err(); err != nil {
		return Event{}, fmt.Errorf("a provider stream event: %w", err)
	}
	return e, nil
}
