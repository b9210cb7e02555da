package rpc

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// TypedJSON is the dialect of agents whose messages have a type member:
//
//	{"type":"request","id":"req-1","method":"execute","params":{…}}
//	{"type":"stream","id":"req-1","delta":"a part of the answer"}
//	{"type":"response","id":"req-1","result":{…}}
//	{"type":"error","id":"req-1","error":{…}}
//
// A request without an id is a notification. Messages are read as strictly as JSON-RPC.
type TypedJSON struct {
	// Cancels sends {"type":"cancel","id":…} to the other side when a request is
	// canceled. Without it, only this side forgets the request.
	Cancels bool
}

var typedNames = []string{"type", "id", "method", "params", "result", "delta", "error"}

const (
	typedType = iota
	typedID
	typedMethod
	typedParams
	typedResult
	typedDelta
	typedError
)

// Decode implements [Dialect].
func (d TypedJSON) Decode(frame []byte, m *Message) error {
	at, err := wire.Fields(frame, typedNames...)
	if err != nil {
		return err
	}
	*m = Message{}
	if at[typedID].Present() {
		if m.ID, err = wire.Key(at[typedID].Of(frame)); err != nil {
			return errID
		}
	}
	return d.shape(frame, at, m)
}

// Faults of a message, in the words of package wire where it has them.
var (
	errTyped  = errors.New("not a request, response, stream, error or cancel with the members it needs")
	errID     = errors.New("an id that is neither a string of at most 1024 bytes nor an integer of 64 bits")
	errMethod = errors.New("a method that is not a name in visible ASCII")
	errError  = errors.New("an error without an integer code and a string message")
)

// shape fills m according to its type. It fails if a member belongs to another type.
func (d TypedJSON) shape(frame []byte, at []wire.Span, m *Message) error {
	kind, err := wire.Unquote(at[typedType], frame)
	if err != nil {
		return errTyped
	}
	allowed := map[string][]int{
		"request": {typedMethod, typedParams}, "response": {typedResult}, "stream": {typedDelta}, "error": {typedError}, "cancel": {},
	}
	own, ok := allowed[kind]
	if !ok {
		return errTyped
	}
	for i := typedMethod; i < len(at); i++ {
		if at[i].Present() && !slices.Contains(own, i) {
			return errTyped
		}
	}
	if m.ID == "" && kind != "request" {
		return errTyped
	}
	switch kind {
	case "request":
		return typedRequest(frame, at, m)
	case "response":
		m.Kind, m.Body = wire.Result, at[typedResult].Of(frame)
	case "stream":
		if m.Kind, m.Body = Part, at[typedDelta].Of(frame); m.Body == nil {
			return errTyped
		}
	case "error":
		m.Kind = wire.Error
		m.Fault, err = typedFault(frame, at[typedError])
		return err
	case "cancel":
		m.Kind, m.Cancels, m.ID = wire.Notification, m.ID, ""
	}
	return nil
}

func typedRequest(frame []byte, at []wire.Span, m *Message) error {
	method, err := wire.Unquote(at[typedMethod], frame)
	if err != nil || !wire.IsMethod([]byte(method)) {
		return errMethod
	}
	m.Kind, m.Method, m.Body = wire.Request, method, at[typedParams].Of(frame)
	if m.ID == "" {
		m.Kind = wire.Notification
	}
	return nil
}

// typedFault reads an error, which may be an object or a string.
func typedFault(frame []byte, s wire.Span) (*Fault, error) {
	switch raw := s.Of(frame); {
	case raw == nil:
		return nil, errTyped
	case raw[0] == '"':
		text, err := unquoteLoosely(s, frame)
		return &Fault{Message: text}, err
	case raw[0] == '{':
		f, err := readFault(frame, s)
		if err != nil {
			return nil, errError
		}
		return f, nil
	}
	return nil, errError
}

// Append implements [Dialect].
func (d TypedJSON) Append(dst []byte, m *Message) ([]byte, error) {
	kind := map[wire.Kind]string{wire.Request: "request", wire.Notification: "request", wire.Result: "response", Part: "stream", wire.Error: "error"}[m.Kind]
	if m.Kind == wire.Notification && m.Cancels != "" {
		return append(appendID(append(dst, `{"type":"cancel","id":`...), m.Cancels), '}'), nil
	}
	if kind == "" || m.ID == "" && m.Kind != wire.Notification {
		return nil, fmt.Errorf("typed JSON has no message of kind %d, or the id is missing", m.Kind)
	}
	dst = append(append(append(dst, `{"type":"`...), kind...), '"')
	if m.ID != "" {
		dst = appendID(append(dst, `,"id":`...), m.ID)
	}
	return appendSaid(dst, m)
}

// NewID implements [Dialect]: req-1, req-2, req-3.
func (TypedJSON) NewID(n uint64) string { return `"req-` + strconv.FormatUint(n, 10) }

// Cancel implements [Dialect].
func (d TypedJSON) Cancel(id, _ string) (Message, bool) {
	return Message{Kind: wire.Notification, Cancels: id}, d.Cancels
}
