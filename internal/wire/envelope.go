package wire

// Side is who wrote a line.
type Side uint8

const (
	FromAgent Side = iota
	FromServer
)

// Kind is what a message is, by the members it has.
type Kind uint8

const (
	Request      Kind = iota + 1 // id and method
	Notification                 // method, no id
	Result                       // id and result
	Error                        // error; the id may be absent
)

// String returns the kind in lower case, as request.
func (k Kind) String() string {
	switch k {
	case Request:
		return "request"
	case Notification:
		return "notification"
	case Result:
		return "result"
	case Error:
		return "error"
	}
	return "none"
}

// Span is a half-open range of bytes of the line it was found in. The zero
// Span is an absent member.
type Span struct{ Start, End int }

// Of returns the bytes of s in line, nil when s is absent.
func (s Span) Of(line []byte) []byte {
	if s.End == 0 {
		return nil
	}
	return line[s.Start:s.End]
}

// Present reports whether the member was there.
func (s Span) Present() bool { return s.End != 0 }

// Len is the number of bytes that s covers.
func (s Span) Len() int { return s.End - s.Start }

// Envelope is what the gate knows of one message: its kind, and where in the
// line the members lie that decide what is done with it. Spans cover the raw
// JSON value, quotes included. It holds no copy of the line but for Method.
type Envelope struct {
	Kind   Kind
	Method string // unescaped; empty in results and errors
	Modern bool   // params._meta names a protocol version (MCP 2026-07-28)

	ID     Span // string or integer as written
	Params Span // an object
	Result Span // any value; MCP's are objects
	Error  Span // an object with an integer code and a string message
	Code   int64

	// Within params.
	Bare           bool // it has no members beside name, uri and arguments
	Name           Span // params.name
	URI            Span // params.uri
	Arguments      Span // params.arguments, an object; absent when it is null
	Meta           Span // params._meta
	ProgressToken  Span // params._meta.progressToken
	Version        Span // params._meta["io.modelcontextprotocol/protocolVersion"], a string
	RequestID      Span // params.requestId, of notifications/cancelled
	Task           Span // params.task
	TaskID         Span // params.taskId, of tasks/*
	RequestState   Span // params.requestState
	InputResponses Span // params.inputResponses
	Mode           Span // params.mode, of elicitation/create
	Ref            Span // params.ref, of completion/complete
	Notifications  Span // params.notifications, of subscriptions/listen

	// Within result; InputRequests also within the params of notifications/tasks.
	IsError       bool // result.isError is true
	ResultType    Span // result.resultType
	InputRequests Span // result.inputRequests
	CreatedTask   Span // result.task, of a call that became a task (2025-11-25)
	CreatedTaskID Span // result.taskId, likewise (tasks extension)
}

// spans returns all spans of e.
func (e *Envelope) spans() [22]*Span {
	return [...]*Span{
		&e.ID, &e.Params, &e.Result, &e.Error,
		&e.Name, &e.URI, &e.Arguments, &e.Meta, &e.ProgressToken, &e.Version, &e.RequestID, &e.Task, &e.TaskID,
		&e.RequestState, &e.InputResponses, &e.Mode, &e.Ref, &e.Notifications,
		&e.ResultType, &e.InputRequests, &e.CreatedTask, &e.CreatedTaskID,
	}
}

// Key returns the id of e in the canonical form of [Key]; empty when the
// message has no id.
func (e *Envelope) Key(line []byte) string {
	key, err := Key(e.ID.Of(line))
	if err != nil {
		return ""
	}
	return key
}

// Refuse returns the refusal of a message that could be read and may not
// cross all the same. A request is answered, anything else is not.
func (e *Envelope) Refuse(code int, reason string) *Refusal {
	return &Refusal{Reason: reason, Code: code, ID: e.ID, Answer: e.Kind == Request}
}
