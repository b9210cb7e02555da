package rpc

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Part is the kind of a message that is one part of an answer, such as the words of an
// agent as they are generated. Only some dialects have it.
const Part wire.Kind = 5

// Message is a message independent of its encoding.
type Message struct {
	Kind   wire.Kind
	ID     string // in the form of Key; empty for a notification
	Method string // of a request or notification
	Body   []byte // params, result, or part; raw, in the notation of the dialect
	Fault  *Fault // of an Error

	// Cancels is the id of the request that a notification cancels, in the form of Key.
	Cancels string
}

// Dialect encodes and decodes messages. It does not correlate requests and answers.
// Implementations are safe for concurrent use.
type Dialect interface {
	// Decode decodes frame into m. Slices of m may point into frame.
	Decode(frame []byte, m *Message) error

	// Append appends the encoding of m to dst. It fails if the dialect can't express m.
	Append(dst []byte, m *Message) ([]byte, error)

	// NewID returns the id of the nth request, counted from 1, in the form of Key.
	NewID(n uint64) string

	// Cancel returns the notification that cancels the request id for method. It reports
	// false if there is none.
	Cancel(id, method string) (Message, bool)
}

// Fault is the error in an error answer, received or to be sent.
type Fault struct {
	Code    int64
	Message string
	Data    []byte // raw; nil if absent
}

func (f *Fault) Error() string {
	if f.Code == 0 {
		return f.Message
	}
	return f.Message + " (" + strconv.FormatInt(f.Code, 10) + ")"
}

// JSONRPC is the dialect of JSON-RPC 2.0. It is as strict as MCP's lines, except that it
// allows line breaks between tokens, for framings that allow them. The zero value cancels
// requests as MCP does.
type JSONRPC struct {
	// CancelMethod is the notification that cancels the request named by its requestId;
	// "notifications/cancelled" if empty.
	CancelMethod string
}

// Decode implements [Dialect].
func (d JSONRPC) Decode(frame []byte, m *Message) error {
	var e wire.Envelope
	if err := wire.ReadText(frame, wire.FromServer, &e); err != nil {
		return err
	}
	*m = Message{Kind: e.Kind, ID: e.Key(frame), Method: e.Method}
	switch e.Kind {
	case wire.Request:
		m.Body = e.Params.Of(frame)
	case wire.Notification:
		m.Body = e.Params.Of(frame)
		if e.Method == d.cancelMethod() && e.Params.Present() {
			return d.cancels(frame, &e, m)
		}
	case wire.Result:
		m.Body = e.Result.Of(frame)
	case wire.Error:
		fault, err := readFault(frame, e.Error)
		m.Fault = fault
		return err
	}
	return nil
}

func (d JSONRPC) cancelMethod() string { return cmp.Or(d.CancelMethod, "notifications/cancelled") }

func (d JSONRPC) cancels(frame []byte, e *wire.Envelope, m *Message) error {
	id, err := wire.Member(frame, e.Params, "requestId")
	if err != nil || !id.Present() {
		return err
	}
	m.Cancels, err = wire.Key(id.Of(frame))
	return err
}

// Append implements [Dialect].
func (d JSONRPC) Append(dst []byte, m *Message) ([]byte, error) {
	dst = append(dst, `{"jsonrpc":"2.0"`...)
	if m.ID != "" {
		dst = appendID(append(dst, `,"id":`...), m.ID)
	}
	if m.Kind < wire.Request || m.Kind > wire.Error {
		return nil, fmt.Errorf("JSON-RPC has no message of kind %d", m.Kind)
	}
	return appendSaid(dst, m)
}

// appendSaid appends the members after the id and closes the object.
func appendSaid(dst []byte, m *Message) ([]byte, error) {
	switch m.Kind {
	case wire.Request, wire.Notification:
		var err error
		if dst, err = jsontext.AppendQuote(append(dst, `,"method":`...), m.Method); err != nil {
			return nil, fmt.Errorf("write method: %w", err)
		}
		if m.Body != nil {
			dst = append(append(dst, `,"params":`...), m.Body...)
		}
	case wire.Result:
		dst = append(append(dst, `,"result":`...), orNull(m.Body)...)
	case Part:
		dst = append(append(dst, `,"delta":`...), orNull(m.Body)...)
	case wire.Error:
		dst = appendFault(append(dst, `,"error":`...), m.Fault)
	}
	return append(dst, '}'), nil
}

// NewID implements [Dialect]: 1, 2, 3.
func (JSONRPC) NewID(n uint64) string { return strconv.FormatUint(n, 10) }

// Cancel implements [Dialect]. An initialize request can't be canceled.
func (d JSONRPC) Cancel(id, method string) (Message, bool) {
	if method == "initialize" {
		return Message{}, false
	}
	params := append(appendID([]byte(`{"requestId":`), id), '}')
	return Message{Kind: wire.Notification, Method: d.cancelMethod(), Body: params, Cancels: id}, true
}

// appendID appends the JSON of an id in the form of Key.
func appendID(dst []byte, key string) []byte {
	if key[0] != '"' {
		return append(dst, key...)
	}
	dst, _ = jsontext.AppendQuote(dst, key[1:]) // fails for invalid UTF-8 only, which no key contains
	return dst
}

func appendFault(dst []byte, f *Fault) []byte {
	dst = strconv.AppendInt(append(dst, `{"code":`...), f.Code, 10)
	dst, _ = jsontext.AppendQuote(append(dst, `,"message":`...), f.Message) // invalid UTF-8 becomes U+FFFD
	if f.Data != nil {
		dst = append(append(dst, `,"data":`...), f.Data...)
	}
	return append(dst, '}')
}

// readFault decodes {code, message, data}.
func readFault(frame []byte, s wire.Span) (*Fault, error) {
	f := &Fault{}
	err := wire.Members(frame, s, func(name []byte, value wire.Span) error {
		var err error
		switch string(name) {
		case "code":
			code, ok := wire.Integer(value.Of(frame))
			if !ok {
				return errors.New("a code that is not an integer")
			}
			f.Code = code
		case "message":
			f.Message, err = unquoteLoosely(value, frame)
		case "data":
			f.Data = value.Of(frame)
		}
		return err
	})
	return f, err
}

// unquoteLoosely is Unquote for text that is only displayed: a lone surrogate becomes
// U+FFFD.
func unquoteLoosely(s wire.Span, line []byte) (string, error) {
	raw := s.Of(line)
	if len(raw) == 0 || raw[0] != '"' {
		return "", errors.New("not a string")
	}
	text, _ := jsontext.AppendUnquote(nil, raw)
	return string(text), nil
}

func orNull(body []byte) []byte {
	if body == nil {
		return []byte("null")
	}
	return body
}
