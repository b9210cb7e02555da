package mcp

import (
	"strconv"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// JSON-RPC and MCP error codes.
const (
	CodeParse           = wire.CodeParse
	CodeInvalid         = wire.CodeInvalid
	CodeUnknownMethod   = -32601
	CodeInvalidParams   = wire.CodeInvalidParams
	CodeInternal        = -32603
	CodeUnknownResource = -32002 // legacy; the modern era uses CodeInvalidParams
	CodeURLRequired     = -32042 // 2025-11-25: somebody must visit the pages in its data first
	CodeUnknownRevision = -32022 // modern
)

// ThoughtGate's own error codes. They lie outside the ranges reserved by JSON-RPC and
// MCP.
const (
	CodeRule         = -31001 // denied by a rule
	CodePolicy       = -31002 // denied by a policy
	CodeRejected     = -31003 // denied by a person
	CodeExpired      = -31004 // no person answered
	CodeExtension    = -31005 // denied by an extension
	CodeGate         = -31010 // the gate is not available
	CodeServerStart  = -31011 // the server could not be started
	CodeServerExit   = -31012 // the server has exited
	CodeServerSilent = -31013 // the server does not answer
	CodeWithheld     = -31014 // the start of the server was not accepted
)

// codeDeclined answers a sampling request. It is MCP's code for a request that the user
// rejects.
const codeDeclined = -1

// Denial describes why a message is denied, for the model and for programs.
type Denial struct {
	Code int

	// Text is for a model: what was denied and why, that it was not executed, and whether
	// repeating can help. If it is empty, it is built from the fields below.
	Text string

	Gate        string   // the gate that denied: visible, rule, permit, ask, accident
	ErrorType   string   // one word for programs, such as policy_denied
	Reason      string   // one sentence
	Approval    string   // the question, such as A-17
	Correlation string   // the correlation id in the record
	Policies    []string // ids of the policies that decided

	// Hidden makes the answer look like that of a server without such a tool, prompt or
	// resource. The rest of the denial is not shown.
	Hidden bool

	// Method and Modern are those of the request. They are needed only if the line is a
	// result; a request has its own.
	Method string
	Modern bool

	// Supported is for CodeUnknownRevision: the revisions the client may fall back to.
	Supported []string
}

// Deny returns the line, without its newline, that replaces the message e in line. For a
// request it is the answer to the requester; for an answer it goes to the side that waits
// for it. It is nil if there is nobody to answer.
func Deny(line []byte, e *wire.Envelope, d Denial) []byte {
	if !e.ID.Present() || e.Kind == wire.Notification {
		return nil
	}
	id := e.ID.Of(line)
	if e.Kind == wire.Request {
		d.Method, d.Modern = e.Method, e.Modern
	}
	switch {
	case d.Hidden:
		code, text := hidden(line, e, d)
		return RefuseUnread(id, code, text)
	case d.Code == CodeUnknownRevision && e.Kind == wire.Request:
		return RefuseRevision(line, e, d.Supported)
	case d.Method == "tools/call" && !e.Task.Present() && !d.broken():
		return toolResult(id, d)
	case e.Kind == wire.Request && d.Code != CodeUnknownMethod:
		switch d.Method {
		case "elicitation/create":
			return append(opened(id, "result"), `{"action":"decline"}}`...)
		case "sampling/createMessage":
			d.Code, d.Text = codeDeclined, "denied by policy"
		case "roots/list":
			d.Code, d.Text = CodeUnknownMethod, "roots are not available"
		}
	}
	return errorLine(id, d.Code, d.text(), d.data())
}

// RefuseUnread returns the error line, without its newline, for a request of which only
// the raw id is known. It is nil if id is empty.
func RefuseUnread(id []byte, code int, text string) []byte {
	if len(id) == 0 {
		return nil
	}
	return errorLine(id, code, text, nil)
}

// RefuseRevision returns the error line, without its newline, that tells the client of
// the modern request e which revisions it may fall back to.
func RefuseRevision(line []byte, e *wire.Envelope, supported []string) []byte {
	id := e.ID.Of(line)
	if id == nil || e.Kind != wire.Request {
		return nil
	}
	data := append([]byte(`{"supported":`), quoteAll(nil, supported)...)
	data = append(data, `,"requested":`...)
	if e.Version.Present() {
		data = append(data, e.Version.Of(line)...)
	} else {
		data = append(data, `""`...)
	}
	return errorLine(id, CodeUnknownRevision, "Unsupported protocol version", append(data, '}'))
}

// broken reports that no gate denied: the gate or the server is unavailable. Then even a
// tool call is answered with an error.
func (d *Denial) broken() bool {
	return d.Gate == "" && d.Code <= CodeGate && d.Code >= CodeServerSilent
}

// longestName is the maximum number of bytes of a peer's name that an answer repeats.
const longestName = 256

// hidden returns the error of a server that lacks the subject of the request.
func hidden(line []byte, e *wire.Envelope, d Denial) (code int, text string) {
	name := ""
	if e.Kind == wire.Request {
		name, _ = SubjectOf(e, line)
	}
	if len(name) > longestName {
		name = strings.ToValidUTF8(name[:longestName], "") + "…"
	}
	code, text = CodeInvalidParams, "Not found"
	switch d.Method {
	case "tools/call":
		text = "Unknown tool"
	case "prompts/get":
		text = "Unknown prompt"
	case "tasks/update":
		text = "Unknown task"
	case "resources/read", "resources/subscribe":
		if text = "Resource not found"; !d.Modern {
			code = CodeUnknownResource
		}
	}
	return code, text + ": " + name
}

// text returns the text for the model or a person.
func (d *Denial) text() string {
	if d.Text != "" {
		return d.Text
	}
	var b strings.Builder
	b.WriteString("Not executed. Denied")
	if len(d.Policies) > 0 {
		b.WriteString(" by policy `" + strings.Join(d.Policies, "`, `") + "`")
	}
	if d.Reason != "" {
		b.WriteString(": " + strings.TrimRight(d.Reason, "."))
	}
	b.WriteString(". Repeating the call will not help; ask the user.")
	if d.Correlation != "" {
		b.WriteString(" (" + d.Correlation + ")")
	}
	return b.String()
}

// data returns the data member of an error; nil if it would be empty.
func (d *Denial) data() []byte {
	data := []byte{'{'}
	add := func(name string, raw []byte) {
		if len(data) > 1 {
			data = append(data, ',')
		}
		data = append(append(wire.AppendQuote(data, name), ':'), raw...)
	}
	text := func(name, value string) {
		if value != "" {
			add(name, wire.AppendQuote(nil, value))
		}
	}
	text("gate", d.Gate)
	text("error_type", d.ErrorType)
	if len(d.Policies) > 0 {
		add("policies", quoteAll(nil, d.Policies))
	}
	text("reason", d.Reason)
	text("approval", d.Approval)
	text("correlation_id", d.Correlation)
	if len(data) == 1 {
		return nil
	}
	return append(data, '}')
}

// toolResult returns a denial as a tool result, because agents show results to the model
// but not errors.
func toolResult(id []byte, d Denial) []byte {
	line := append(opened(id, "result"), `{"content":[{"type":"text","text":`...)
	line = append(wire.AppendQuote(line, d.text()), `}],"isError":true`...)
	if d.Modern {
		line = append(line, `,"resultType":"complete"`...)
	}
	return append(line, "}}"...)
}

func errorLine(id []byte, code int, text string, data []byte) []byte {
	line := append(opened(id, "error"), `{"code":`...)
	line = strconv.AppendInt(line, int64(code), 10)
	line = wire.AppendQuote(append(line, `,"message":`...), text)
	if data != nil {
		line = append(append(line, `,"data":`...), data...)
	}
	return append(line, "}}"...)
}

// opened returns the start of an answer, up to the value of member.
func opened(id []byte, member string) []byte {
	line := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	return append(append(append(line, `,"`...), member...), `":`...)
}

func quoteAll(dst []byte, texts []string) []byte {
	dst = append(dst, '[')
	for i, text := range texts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = wire.AppendQuote(dst, text)
	}
	return append(dst, ']')
}
