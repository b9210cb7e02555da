package wire

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
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

var typedNames = names{"type", "id", "method", "params", "result", "delta", "error"}

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
	if fault := checkText(frame, FromServer); fault != nil {
		return fault.plain()
	}
	whole, err := onlyObject(frame)
	if err != nil {
		return err
	}
	var at [typedError + 1]Span
	err = Members(frame, whole, func(name []byte, value Span) error {
		index, twin := typedNames.find(name)
		if twin {
			return errTwin.plain()
		}
		if index != unknown {
			at[index] = value
		}
		return nil
	})
	if err != nil {
		return err
	}
	*m = Message{}
	if at[typedID].Present() {
		if m.ID, err = Key(at[typedID].Of(frame)); err != nil {
			return errID.plain()
		}
	}
	return d.shape(frame, &at, m)
}

// onlyObject returns the span of the object that frame consists of.
func onlyObject(frame []byte) (Span, error) {
	w := walkers.Get().(*walker)
	w.begin(frame, FromServer)
	defer w.release(frame)
	kind, start := w.dec.PeekKind(), w.start()
	if err := w.skip(); err != nil {
		return Span{}, faultOf(err).plain()
	}
	if kind != '{' {
		return Span{}, errNotObject.plain()
	}
	end := int(w.dec.InputOffset())
	if _, err := w.dec.ReadToken(); err != io.EOF {
		return Span{}, errTrailing.plain()
	}
	return Span{start, end}, nil
}

var errTyped = errors.New("not a request, response, stream, error or cancel with the members it needs")

// shape fills m according to its type. It fails if a member belongs to another type.
func (d TypedJSON) shape(frame []byte, at *[typedError + 1]Span, m *Message) error {
	kind, err := Unquote(at[typedType], frame)
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
		m.Kind, m.Body = Result, at[typedResult].Of(frame)
	case "stream":
		if m.Kind, m.Body = Part, at[typedDelta].Of(frame); m.Body == nil {
			return errTyped
		}
	case "error":
		m.Kind = Error
		m.Fault, err = typedFault(frame, at[typedError])
		return err
	case "cancel":
		m.Kind, m.Cancels, m.ID = Notification, m.ID, ""
	}
	return nil
}

func typedRequest(frame []byte, at *[typedError + 1]Span, m *Message) error {
	method, err := Unquote(at[typedMethod], frame)
	if err != nil || method == "" || len(method) > MaxMethod || !plain([]byte(method)) {
		return errMethod.plain()
	}
	m.Kind, m.Method, m.Body = Request, method, at[typedParams].Of(frame)
	if m.ID == "" {
		m.Kind = Notification
	}
	return nil
}

// typedFault reads an error, which may be an object or a string.
func typedFault(frame []byte, s Span) (*Fault, error) {
	switch raw := s.Of(frame); {
	case raw == nil:
		return nil, errTyped
	case raw[0] == '"':
		text, err := unquoteLoosely(s, frame)
		return &Fault{Message: text}, err
	case raw[0] == '{':
		f, err := readFault(frame, s)
		if err != nil {
			return nil, errErrorShape.plain()
		}
		return f, nil
	}
	return nil, errErrorShape.plain()
}

// Append implements [Dialect].
func (d TypedJSON) Append(dst []byte, m *Message) ([]byte, error) {
	kind := map[Kind]string{Request: "request", Notification: "request", Result: "response", Part: "stream", Error: "error"}[m.Kind]
	if m.Kind == Notification && m.Cancels != "" {
		return append(appendID(append(dst, `{"type":"cancel","id":`...), m.Cancels), '}'), nil
	}
	if kind == "" || m.ID == "" && m.Kind != Notification {
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
	return Message{Kind: Notification, Cancels: id}, d.Cancels
}
