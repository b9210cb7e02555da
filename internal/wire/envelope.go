package wire

// Side is the writer of a line.
type Side uint8

const (
	FromAgent Side = iota
	FromServer
)

// Kind is the kind of a message. The members of the message decide it.
type Kind uint8

const (
	Request      Kind = iota + 1 // id and method
	Notification                 // method, no id
	Result                       // id and result
	Error                        // error; the id may be absent
)

// String returns the kind in lower case, such as "request".
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

// Span is a half-open byte range in the line it was found in. The zero Span is an absent
// member.
type Span struct{ Start, End int }

// Of returns the bytes of s in line; nil if s is absent.
func (s Span) Of(line []byte) []byte {
	if s.End == 0 {
		return nil
	}
	return line[s.Start:s.End]
}

// Present reports whether the member is present.
func (s Span) Present() bool { return s.End != 0 }

// Len returns the number of bytes in s.
func (s Span) Len() int { return s.End - s.Start }

// Envelope is what the gate knows about one message: its kind, and the spans of the
// members that decide what is done with it. Spans cover the raw JSON value, including
// quotes. Apart from Method, it holds no copy of the line.
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
	Bare           bool // params has no members other than name, uri and arguments
	Name           Span // params.name
	URI            Span // params.uri
	Arguments      Span // params.arguments, an object; absent if it is null
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

// Key returns the id of e in the canonical form of [Key]; empty if the message has no id.
func (e *Envelope) Key(line []byte) string {
	key, err := Key(e.ID.Of(line))
	if err != nil {
		return ""
	}
	return key
}

// Refuse returns a refusal of a message that could be read but must not be forwarded.
// Only a request is answered.
func (e *Envelope) Refuse(code int, reason string) *Refusal {
	return &Refusal{Reason: reason, Code: code, ID: e.ID, Answer: e.Kind == Request}
}
