package protocol

import (
	"errors"
	"fmt"
	"strings"
)

// EventKind is what a piece of a command's output is.
type EventKind string

const (
	Text       EventKind = "text"   // of the command itself
	System     EventKind = "system" // about how it goes
	Done       EventKind = "done"   // there is no more output
	TaskStart  EventKind = "task.start"
	TaskUpdate EventKind = "task.update"
	TaskLog    EventKind = "task.log"
	TaskDone   EventKind = "task.done"
)

// Event is a piece of what a command says while it runs.
type Event struct {
	Kind     EventKind
	Content  string // Text, System; TaskLog: the line; TaskUpdate: a message, may be empty
	Task     string // of the tasks: which one
	Label    string // TaskStart: what a person is shown
	TaskKind string // TaskStart: a word of the extension's, as download; may be empty
	Current  uint64 // TaskUpdate: how far it has come
	Total    uint64 // TaskUpdate: of how much; 0 where nobody knows
	Error    string // TaskDone: why it failed; empty where it did not
}

// CommandEvents lists the notifications that can belong to a command.
func CommandEvents() []string {
	return []string{CommandOutput, string(TaskStart), string(TaskUpdate), string(TaskLog), string(TaskDone)}
}

// ReadEvent reads a notification that came while the command with this request id
// ran. ok is false for one that is not the command's: the output of another, or of
// another method. Tasks are taken whoever they belong to. An error says what is
// malformed, and the rest of the output counts all the same.
func ReadEvent(method string, params []byte, request string) (e Event, ok bool, err error) {
	switch {
	case method == CommandOutput:
		return readOutput(params, request)
	case strings.HasPrefix(method, taskPrefix):
		e, err = readTask(EventKind(method), params)
		return e, err == nil, err
	}
	return Event{}, false, nil
}

func readOutput(params []byte, request string) (Event, bool, error) {
	o, err := readObject(params)
	if err != nil {
		return Event{}, false, err
	}
	of, ok := o.text("request_id")
	if !ok {
		return Event{}, false, errors.New("command.output without request_id")
	}
	if o, err = readObject(o.get("event")); err != nil {
		return Event{}, false, fmt.Errorf("command.output: event: %w", err)
	}
	kind, _ := o.text("kind")
	e := Event{Kind: EventKind(kind)}
	switch e.Kind {
	case Text, System:
		if e.Content, ok = o.text("content"); !ok {
			return Event{}, false, fmt.Errorf("command.output of kind %s without content", e.Kind)
		}
	case Done:
	default:
		return Event{}, false, fmt.Errorf("command.output of the unknown kind %q", Plain(kind, 40))
	}
	return e, of == request, nil
}

func readTask(kind EventKind, params []byte) (Event, error) {
	o, err := readObject(params)
	if err != nil {
		return Event{}, fmt.Errorf("%s: %w", kind, err)
	}
	e := Event{Kind: kind}
	need := map[string]*string{"id": &e.Task}
	switch kind {
	case TaskStart:
		need["label"] = &e.Label
		e.TaskKind, err = o.optional("kind")
	case TaskUpdate:
		if e.Current, err = o.number("current"); err == nil {
			e.Total, err = o.number("total")
		}
		if err == nil {
			e.Content, err = o.optional("message")
		}
	case TaskLog:
		need["line"] = &e.Content
	case TaskDone:
		e.Error, err = o.optional("error")
	default:
		return Event{}, fmt.Errorf("there is no %q", Plain(string(kind), 40))
	}
	if err == nil {
		err = o.need(need)
	}
	if err == nil && e.Task == "" {
		err = errors.New("id is empty")
	}
	if err != nil {
		return Event{}, fmt.Errorf("%s: %w", kind, err)
	}
	return e, nil
}

// ReadExit reads the result of a command: its exit code, 0 where it says none.
func ReadExit(raw []byte) (int, error) {
	o, err := readObject(raw)
	if err != nil {
		return 0, fmt.Errorf("the result of the command: %w", err)
	}
	code, err := o.number("exit_code")
	if err == nil && code > 255 {
		err = errors.New("exit_code is more than 255")
	}
	return int(code), err
}
