package facts

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// beside walks the params of an agent's message except the arguments, which are examined
// separately: _meta, task, what is to be completed, the answers of a user, and unknown members.
// The paths of its members begin at params.
type beside struct {
	*inspection
	kind mcp.Subject
}

// walkBeside examines the params other than the arguments.
func (in *inspection) walkBeside() {
	c := in.call
	raw := c.Envelope.Params.Of(c.Line)
	kind := mcp.SubjectKind(c.Method)
	if c.Side != wire.FromAgent || raw == nil || c.Envelope.Bare && isAbout(kind, &c.Envelope) {
		return
	}
	if c.Envelope.Arguments.Present() {
		in.params = withoutArguments(in.params[:0], c)
		raw = in.params
	}
	in.walk.raw = raw
	in.around = beside{in, kind}
	if err := in.walk.run(&in.around); err != nil {
		in.add(gate.FactSecret, "the params could not be read completely", "")
	}
}

// isAbout reports whether bare params hold only the subject of a call and its arguments, which
// are examined separately.
func isAbout(kind mcp.Subject, e *wire.Envelope) bool {
	switch kind {
	case mcp.Tool, mcp.Prompt:
		return !e.URI.Present()
	case mcp.Resource:
		return !e.Name.Present()
	}
	return false
}

// withoutArguments appends the params of c to dst, with null in place of the arguments.
func withoutArguments(dst []byte, c *gate.Call) []byte {
	p, a := c.Envelope.Params, c.Envelope.Arguments
	dst = append(append(dst, c.Line[p.Start:a.Start]...), "null"...)
	return append(dst, c.Line[a.End:p.End]...)
}

// isSubject reports whether the walk is at the member that names the subject of the call, which
// is examined separately.
func (b *beside) isSubject(w *walk) bool {
	if len(w.frames) != 1 {
		return false
	}
	switch name := string(w.name()); b.kind {
	case mcp.Tool, mcp.Prompt:
		return name == "name"
	case mcp.Resource:
		return name == "uri"
	}
	return false
}

// isURI reports whether the walk is at a URI that the call is about: one of several, or in a
// reference.
func (b *beside) isURI(w *walk) bool {
	switch b.kind {
	case mcp.Listen:
		return len(w.frames) == 3 && inMember(w, 0, "notifications")
	case mcp.Reference:
		return len(w.frames) == 2 && inMember(w, 0, "ref") && inMember(w, 1, "uri")
	}
	return false
}

// ofProtocol reports whether the walk is in a part of _meta with which MCP and tracing carry the
// message and describe the agent. Nothing is sent to a place that is named there.
func ofProtocol(w *walk) bool {
	return inMeta(w) && protocolNames[string(w.nameAt(1))]
}

// inMeta reports whether the walk is in params._meta.
func inMeta(w *walk) bool { return inMember(w, 0, "_meta") }

// inMember reports whether the walk is in the member called name of the frame at depth.
func inMember(w *walk, depth int, name string) bool {
	return string(w.nameAt(depth)) == name
}

var protocolNames = set("progressToken", "traceparent", "tracestate", "baggage",
	"io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientInfo", "io.modelcontextprotocol/clientCapabilities")

func (b *beside) member(w *walk, name span) {
	text := unquoted(w.raw[name.start:name.end])
	switch {
	case len(w.frames) == 2 && inMeta(w) && protocolNames[string(text)]:
	case len(w.frames) > 2 && ofProtocol(w):
		b.text(text, manner{secrets: true}, b.path)
	default:
		b.inspection.member(w, name)
	}
}

func (b *beside) value(w *walk, kind jsontext.Kind, v span) {
	switch {
	case b.isSubject(w):
	case ofProtocol(w):
		if kind == '"' {
			b.text(unquoted(w.raw[v.start:v.end]), manner{secrets: true, places: true}, b.path)
		}
	case kind == '"' && b.isURI(w):
		text := unquoted(w.raw[v.start:v.end])
		b.uri(string(text), b.path)
		b.recall.argument(w, w.name(), text, false)
	default:
		b.inspection.value(w, kind, v)
	}
}
