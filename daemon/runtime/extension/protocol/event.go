package protocol

import (
	"fmt"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/rawjson"
)

// EventKind is the kind of a piece of a command's output.
type EventKind string

const (
	Text       EventKind = "text"   // output of the command
	System     EventKind = "system" // about its progress
	Done       EventKind = "done"   // no more output follows
	TaskStart  EventKind = "task.start"
	TaskUpdate EventKind = "task.update"
	TaskLog    EventKind = "task.log"
	TaskDone   EventKind = "task.done"
)

// Event is a piece of the output of a running command.
type Event struct {
	Kind     EventKind
	Content  string // Text, System; TaskLog: the line; TaskUpdate: a message, may be empty
	Task     string // id of the task
	Label    string // TaskStart: shown to a person
	TaskKind string // TaskStart: chosen by the extension, as download; may be empty
	Current  uint64 // TaskUpdate: amount done
	Total    uint64 // TaskUpdate: the whole amount; 0 if unknown
	Error    string // TaskDone: why it failed; empty if it did not
}

// CommandEvents returns the methods of the notifications that can belong to a command.
func CommandEvents() []string {
	return []string{CommandOutput, string(TaskStart), string(TaskUpdate), string(TaskLog), string(TaskDone)}
}

// ReadEvent parses a notification that arrived while the command with this request id ran. ok
// is false for output of another command and for other methods. Tasks count for any command. An
// error reports a malformed notification; those that follow are still valid.
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
	o := rawjson.Read(params)
	of, event := o.Text("request_id"), o.Object("event")
	e := Event{Kind: EventKind(event.Text("kind"))}
	switch e.Kind {
	case Text, System:
		e.Content = event.Text("content")
	case Done:
	default:
		o.Fail("unknown kind %q", Plain(string(e.Kind), 40))
	}
	if err := o.Err(); err != nil {
		return Event{}, false, fmt.Errorf("%s: %w", CommandOutput, err)
	}
	return e, of == request, nil
}

func readTask(kind EventKind, params []byte) (Event, error) {
	o := rawjson.Read(params)
	e := Event{Kind: kind, Task: o.Text("id")}
	switch kind {
	case TaskStart:
		e.Label, e.TaskKind = o.Text("label"), o.OptionalText("kind")
	case TaskUpdate:
		e.Current, e.Total, e.Content = o.Number("current", 0), o.Number("total", 0), o.OptionalText("message")
	case TaskLog:
		e.Content = o.Text("line")
	case TaskDone:
		e.Error = o.OptionalText("error")
	default:
		return Event{}, fmt.Errorf("%q is missing", Plain(string(kind), 40))
	}
	if e.Task == "" {
		o.Fail("id is empty")
	}
	if err := o.Err(); err != nil {
		return Event{}, fmt.Errorf("%s: %w", kind, err)
	}
	return e, nil
}

// ReadExit returns the exit code in the result of a command, 0 if there is none.
func ReadExit(raw []byte) (int, error) {
	o := rawjson.Read(raw)
	code := o.Number("exit_code", 0)
	if code > 255 {
		o.Fail("exit_code is more than 255")
	}
	if err := o.Err(); err != nil {
		return 0, fmt.Errorf("the result of the command: %w", err)
	}
	return int(code), nil
}
