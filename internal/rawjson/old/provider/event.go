package provider

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// EventKind says what an Event tells.
type EventKind string

const (
	EventText     EventKind = "text"     // more of the answer
	EventThinking EventKind = "thinking" // more of what the model thinks
	EventToolUse  EventKind = "tool_use" // a whole tool use
	EventUsage    EventKind = "usage"    // what it took
	EventError    EventKind = "error"    // something went wrong; the result is still to come
	EventDone     EventKind = "done"     // nothing more follows
)

// Event is a piece of an answer that is streamed.
type Event struct {
	Kind  EventKind
	Text  string   // of text and thinking what is added; of error the message
	Use   *ToolUse // of tool_use
	Usage []byte   // of usage: a raw object
}

// ReadEvent reads the parameters of a provider.stream.event, in which the event
// may stand by itself or as the member event.
func ReadEvent(params []byte) (Event, error) {
	e, err := readEvent(params)
	if err != nil {
		return Event{}, fmt.Errorf("a provider stream event %w", err)
	}
	return e, nil
}

func readEvent(raw []byte) (Event, error) {
	o, err := readObject(raw)
	if err != nil {
		return Event{}, fmt.Errorf("is %w", err)
	}
	if inner := o["event"]; inner != nil {
		raw = inner
		if o, err = readObject(inner); err != nil {
			return Event{}, fmt.Errorf("is %w", err)
		}
	}
	kind, there, err := o.optionalText("type")
	if err != nil || !there {
		return Event{}, errors.New("is missing type")
	}
	e := Event{Kind: EventKind(kind)}
	switch e.Kind {
	case EventText, EventThinking:
		name := "delta"
		if o[name] == nil {
			name = "text"
		}
		if e.Text, err = o.text(name); err != nil {
			return Event{}, fmt.Errorf("of type %s has neither delta nor text that is text", kind)
		}
	case EventToolUse:
		if e.Use, err = readUse(o); err != nil {
			return Event{}, fmt.Errorf("of type tool_use has %w", err)
		}
	case EventUsage:
		if e.Usage, err = withoutType(raw); err != nil {
			return Event{}, err
		}
	case EventError:
		if e.Text, err = o.text("message"); err != nil {
			return Event{}, fmt.Errorf("of type error has %w", err)
		}
		if e.Text == "" {
			return Event{}, errors.New("of type error has an empty message")
		}
	case EventDone:
	default:
		return Event{}, fmt.Errorf("is of the unknown type %q", kind)
	}
	return e, nil
}

// withoutType returns the object raw without its member type; the others stay as
// they were written.
func withoutType(raw []byte) ([]byte, error) {
	raw = bytes.TrimSpace(raw)
	var rest [][]byte
	from := 1
	err := wire.Members(raw, wire.Span{End: len(raw)}, func(name []byte, value wire.Span) error {
		if string(name) != "type" {
			rest = append(rest, bytes.Trim(raw[from:value.End], ", \t\r\n"))
		}
		from = value.End
		return nil
	})
	return append(append([]byte("{"), bytes.Join(rest, []byte(","))...), '}'), err
}
