package wire

import "strconv"

// Part is the kind of a message that is one part of an answer of many, as what
// an agent says word by word. Only some dialects have it.
const Part Kind = 5

// Message is one message as a Dialect sees it, whatever the bytes.
type Message struct {
	Kind   Kind
	ID     string // in the form of Key; empty in a notification
	Method string // of a request or notification
	Body   []byte // params, result, or part; raw, in the notation of the dialect
	Fault  *Fault // of an Error

	// Cancels is the id of the request that a notification takes back, in the
	// form of Key.
	Cancels string
}

// Dialect says what the frames of a stream say. It knows nothing of who waits
// for what. Implementations are safe for concurrent use.
type Dialect interface {
	// Decode reads frame into m. Slices of m may point into frame.
	Decode(frame []byte, m *Message) error

	// Append appends the bytes of m to dst. It fails when the dialect can't
	// say m.
	Append(dst []byte, m *Message) ([]byte, error)

	// NewID returns the id of the nth request, n from 1, in the form of Key.
	NewID(n uint64) string

	// Cancel returns the notification that takes back the request id, which is
	// one for method. It is false when there is none.
	Cancel(id, method string) (Message, bool)
}

// Fault is the error that the other side answered with, or is to be answered.
type Fault struct {
	Code    int64
	Message string
	Data    []byte // raw; nil for none
}

func (f *Fault) Error() string {
	if f.Code == 0 {
		return f.Message
	}
	return f.Message + " (" + strconv.FormatInt(f.Code, 10) + ")"
}
