package mcp

import (
	"strconv"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Asks reports whether the message e in line may ask its reader for something: it carries
// asks, or is a result whose type is not complete. Such a message is judged, whatever it
// answers.
func Asks(line []byte, e *wire.Envelope) bool {
	kind := string(e.ResultType.Of(line))
	return kind != "" && kind != `"complete"` || e.InputRequests.Present()
}

// AsksWithin reports whether a message e about a task, a notification or the result of
// method, contains another result that asks for something. It is false for messages that
// are not about a task.
func AsksWithin(line []byte, e *wire.Envelope, method string) bool {
	of := e.Result
	switch {
	case e.Kind == wire.Notification:
		of = e.Params
	case !strings.HasPrefix(method, "tasks/") && !e.CreatedTask.Present():
		return false
	}
	if raw := of.Of(line); len(raw) == 0 || raw[0] != '{' {
		return false
	}
	asks := false
	err := wire.Members(line, of, func(name []byte, value wire.Span) error {
		if raw := value.Of(line); raw[0] != '{' {
			return nil
		}
		var inner wire.Envelope
		switch string(name) {
		case "result", "task":
			return wire.Members(line, value, func(name []byte, value wire.Span) error {
				switch string(name) {
				case "resultType":
					inner.ResultType = value
				case "inputRequests":
					inner.InputRequests = value
				}
				asks = asks || Asks(line, &inner)
				return nil
			})
		case "error":
			return wire.Members(line, value, func(name []byte, value wire.Span) error {
				code, err := strconv.ParseFloat(string(value.Of(line)), 64)
				asks = asks || string(name) == "code" && err == nil && code == CodeURLRequired
				return nil
			})
		}
		return nil
	})
	return asks || err != nil
}
