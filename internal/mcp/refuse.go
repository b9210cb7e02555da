package mcp

import (
	"strconv"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Codes of JSON-RPC and MCP.
const (
	CodeParse           = wire.CodeParse
	CodeInvalid         = wire.CodeInvalid
	CodeUnknownMethod   = -32601
	CodeInvalidParams   = wire.CodeInvalidParams
	CodeInternal        = -32603
	CodeUnknownResource = -32002 // legacy; the modern era says CodeInvalidParams
	CodeURLRequired     = -32042 // 2025-11-25: somebody has to visit the pages in its data first
	CodeUnknownRevision = -32022 // modern
)

// Codes of ThoughtGate's own. They lie outside of what JSON-RPC and MCP keep
// for themselves.
const (
	CodeRule         = -31001 // denied by a rule
	CodePolicy       = -31002 // denied by a policy
	CodeRejected     = -31003 // a person said no
	CodeExpired      = -31004 // nobody answered
	CodeExtension    = -31005 // an extension said no
	CodeGate         = -31010 // the gate is not there
	CodeServerStart  = -31011 // the server could not be started
	CodeServerExit   = -31012 // the server has ended
	CodeServerSilent = -31013 // the server does not answer
	CodeWithheld     = -31014 // nobody has agreed to start the server
)

// codeDeclined answers a sampling request: what MCP says when the user does
// not want it.
const codeDeclined = -1

// Denial is a refusal in full: what the model reads, and what a program can
// make of it.
type Denial struct {
	Code int

	// Text is for a model: what was refused by what, that it was not executed,
	// whether repeating can help. When empty it is made of the members below.
	Text string

	Gate        string   // which gate refused: visible, rule, permit, ask, accident
	ErrorType   string   // one word for programs, as policy_denied
	Reason      string   // one sentence
	Approval    string   // the question, as A-17
	Correlation string   // the id under which the record has it
	Policies    []string // ids of the policies that decided

	// Hidden makes the answer that of a server without such a tool, prompt or
	// resource. Nothing else of the denial shows.
	Hidden bool

	// Method and Modern are those of the request. They need to be given only
	// when the line is the answer to it; a request has its own.
	Method string
	Modern bool

	// Supported goes with CodeUnknownRevision: what the client may fall back to.
	Supported []string
}

// Deny returns the line to give, without its newline, in place of the
// message e in line: to whoever asked, if it is a request; to whoever waits for
// it, if it is an answer. It is nil when there is nobody to answer.
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
			d.Code, d.Text = codeDeclined, "refused by policy"
		case "roots/list":
			d.Code, d.Text = CodeUnknownMethod, "roots are not available"
		}
	}
	return errorLine(id, d.Code, d.text(), d.data())
}

// RefuseUnread returns the error, without newline, for the request with the
// raw id, when there is no more to say. It is nil when id is empty.
func RefuseUnread(id []byte, code int, text string) []byte {
	if len(id) == 0 {
		return nil
	}
	return errorLine(id, code, text, nil)
}

// RefuseRevision returns the error, without newline, by which the client of the
// modern request e learns which revisions it may fall back to.
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

// broken reports that no gate refused: it, or the server, is not there. Then
// even a tool call is answered with an error.
func (d *Denial) broken() bool {
	return d.Gate == "" && d.Code <= CodeGate && d.Code >= CodeServerSilent
}

// longestName is how much of a name that a peer made up is said back to it, in
// bytes.
const longestName = 256

// hidden returns what a server says that lacks what the request is about.
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

// text returns what the model or a person reads.
func (d *Denial) text() string {
	if d.Text != "" {
		return d.Text
	}
	var b strings.Builder
	b.WriteString("Not executed. Refused")
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

// data returns the member data of an error, nil when there is nothing to say.
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

// toolResult is a refusal that a model gets to read: agents show it results,
// not errors.
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

// opened begins an answer whose member is still to be written.
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
