package provider

import (
	"fmt"

	"github.com/thoughtgate/thoughtgated/internal/rawjson"
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
		o.Fail("the type %q is not known", e.Kind)
	}
	if err := whole.Err(); err != nil {
		return Event{}, fmt.Errorf("a provider stream event: %w", err)
	}
	return e, nil
}
