package gate

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// What a person is asked about, what an approval and a grant cover, and what is recorded of a
// call is all of its params, including members that a server or an agent adds beside the
// arguments. Only what serves transport and carries no content is left out: the progress token
// and the trace context.

// The maximum lengths of texts that count as what their names say. Longer values, and values
// that are not text, are content like any other.
const (
	maxToken   = 128
	maxBaggage = 8192
	maxCallID  = 64
)

// isTransport reports whether a member of params._meta is a progress token or a part of the
// trace context.
func isTransport(name, value []byte) bool {
	switch string(name) {
	case "progressToken":
		if value[0] == '-' || '0' <= value[0] && value[0] <= '9' {
			return len(value) <= maxToken
		}
		return isWord(value, maxToken, "")
	case "traceparent":
		return isWord(value, maxTraceparent, "")
	case "tracestate":
		return isWord(value, maxTracestate, " \t")
	case "baggage":
		return isWord(value, maxBaggage, " \t")
	}
	return false
}

// isWord reports whether raw is a JSON string of printable ASCII without escapes, in which the
// only blanks are those in with.
func isWord(raw []byte, most int, with string) bool {
	if len(raw) < 2 || len(raw) > most+2 || raw[0] != '"' {
		return false
	}
	return !slices.ContainsFunc(raw[1:len(raw)-1], func(c byte) bool {
		return c == '\\' || (c <= ' ' || c >= 0x7f) && strings.IndexByte(with, c) < 0
	})
}

// callIDs are the members of params._meta in which known agents put a new name for each call,
// and the prefix of such names. With them, no call would equal an earlier one. They are shown,
// recorded and inspected like everything else, and only left out of comparisons. If they have
// another form, or come from another agent, they are compared too.
var callIDs = []struct{ agent, member, prefix string }{
	{"claude-code", "claudecode/toolUseId", "toolu_"},
	{"vscode", "vscode.requestId", ""},
}

// isCallID reports whether a member of params._meta is the name that the agent of c gives the
// call.
func (c *Call) isCallID(name, value []byte) bool {
	for _, id := range callIDs {
		if c.Agent == id.agent && string(name) == id.member {
			return isWord(value, maxCallID, "") && strings.HasPrefix(string(value[1:]), id.prefix) && !slices.ContainsFunc(value[1:len(value)-1], func(b byte) bool {
				return b != '_' && b != '-' && (b < '0' || b > '9') && (b|0x20 < 'a' || b|0x20 > 'z')
			})
		}
	}
	return false
}

// Params returns the raw params without the progress token and the trace context, or nil if
// there are none. A _meta that holds nothing else is left out entirely.
func (c *Call) Params() []byte { return c.params(isTransport) }

// InParams converts paths into arguments, such as redact_fields, to paths into the params. A
// server's request has its params as arguments, and one that is shown together with others is
// nested.
func (c *Call) InParams(paths []string) []string {
	switch {
	case c.Envelope.Arguments.Present():
		return within("arguments.", paths)
	case c.Envelope.Kind == 0: // see together
		return within("*.params.", paths)
	}
	return paths
}

// inValues converts paths into arguments to paths into what values returns.
func (c *Call) inValues(paths []string, areParams bool) []string {
	switch {
	case c.Envelope.Kind == wire.Result:
		return within("*.params.", paths)
	case c.Envelope.Kind == wire.Error:
		return within("data.elicitations.", paths)
	case c.carriesAsks():
		return within("inputRequests.*.params.", paths)
	case areParams:
		return within("arguments.", paths)
	}
	return paths
}

func within(folder string, paths []string) []string {
	all := make([]string, len(paths))
	for i, path := range paths {
		all[i] = folder + path
	}
	return all
}

// same returns the params that are compared to tell whether a call equals an earlier one,
// without the named members.
func (c *Call) same(without ...string) []byte {
	return c.params(func(name, value []byte) bool { return isTransport(name, value) || c.isCallID(name, value) }, without...)
}

// params returns the raw params without the members of _meta for which drop returns true, and
// without the named members. It returns params that can't be edited unchanged.
func (c *Call) params(drop func(name, value []byte) bool, without ...string) []byte {
	e := &c.Envelope
	whole := e.Params.Of(c.Line)
	if whole == nil || !e.Meta.Present() && len(without) == 0 {
		return whole
	}
	emptied := false
	var edits []wire.Edit
	if raw := e.Meta.Of(c.Line); len(raw) > 0 && raw[0] == '{' {
		of, left, err := wire.CutMembers(c.Line, e.Meta, func(name []byte, value wire.Span) bool { return drop(name, value.Of(c.Line)) })
		if err != nil {
			return whole
		}
		if emptied = left == 0; !emptied {
			edits = of
		}
	}
	if emptied || len(without) > 0 {
		of, left, err := wire.CutMembers(c.Line, e.Params, func(name []byte, _ wire.Span) bool {
			return emptied && string(name) == "_meta" || slices.Contains(without, string(name))
		})
		if err != nil {
			return whole
		}
		if left == 0 {
			return []byte("{}")
		}
		edits = append(edits, of...)
	}
	cut, err := wire.Splice(c.Line[:e.Params.End], edits...)
	if err != nil {
		return whole
	}
	return cut[e.Params.Start:]
}

// Beside returns the members of params other than the call's subject and arguments, as one raw
// JSON object; nil if there are none.
func (c *Call) Beside() []byte {
	if c.Envelope.Bare {
		return nil
	}
	return nonEmpty(c.params(isTransport, argued...))
}

// BesideDigest returns the SHA-256 over what stands beside the arguments of a call and is
// compared. Calls that differ in it are not the same, whatever their arguments.
func (c *Call) BesideDigest() [32]byte {
	without := argued
	if c.Method == "completion/complete" { // its arguments have that name
		without = append(slices.Clip(argued), "argument")
	}
	return sha256.Sum256(nonEmpty(c.same(without...)))
}

// argued are the members of params that hold the subject and the arguments of a call.
var argued = []string{"name", "uri", "arguments"}

// nonEmpty returns a raw JSON object, or nil if it has no members.
func nonEmpty(raw []byte) []byte {
	if len(raw) < 2 || strings.TrimSpace(string(raw[1:min(len(raw), 64)])) == "}" {
		return nil
	}
	return raw
}

// subject returns what an approval is valid for: the SHA-256 over what is called and what asks
// about it.
func (c *Call) subject(basis Basis) [32]byte {
	digest := c.Digest()
	return sha256.Sum256(slices.Concat(digest[:], basis.Rule[:], basis.Workflow[:]))
}

// digestVersion is the first digested part. An approval or a parked call of a release that
// digested less of a call matches none.
const digestVersion = "params 2"

// Digest returns the SHA-256 over what is called. It covers the server, the launch and the
// folder in which it was started, the definition of what is called, the method, and the raw
// bytes of params without the progress token, the trace context and the agent's own name of
// the call, or those of a server's answer. Each part is preceded by its length, so that no two
// calls share a digest.
func (c *Call) Digest() [32]byte {
	return digestOf([]byte(digestVersion), []byte(c.Server), []byte(c.Launch), []byte(c.Cwd), c.Definition[:], []byte(c.Method), c.said())
}

// digestOf returns the SHA-256 over parts, each preceded by its length.
func digestOf(parts ...[]byte) [32]byte {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d:", len(part))
		h.Write(part)
	}
	return [32]byte(h.Sum(nil))
}

// said returns the content of a message without its envelope.
func (c *Call) said() []byte {
	switch c.Envelope.Kind {
	case wire.Result:
		return c.Envelope.Result.Of(c.Line)
	case wire.Error:
		return c.Envelope.Error.Of(c.Line)
	}
	return c.same()
}

// values returns what is kept beside the record of c: the asks in an answer, or the arguments
// of a request. areParams reports that raw is all of the params, because there are other
// members.
func (c *Call) values() (raw []byte, areParams bool) {
	e := &c.Envelope
	switch {
	case e.Kind == wire.Result:
		return e.InputRequests.Of(c.Line), false
	case e.Kind == wire.Error:
		return e.Error.Of(c.Line), false
	case !e.Arguments.Present():
		return c.Params(), false
	case c.Beside() != nil:
		return c.Params(), true
	}
	return e.Arguments.Of(c.Line), false
}

// came is a line as submitted, and its SHA-256.
type came struct {
	line   []byte
	digest [32]byte
}

// sum returns the SHA-256 over the line, which may differ from the submitted one.
func (c *Call) sum() [32]byte {
	if n := len(c.Line); n > 0 && n == len(c.came.line) && &c.Line[0] == &c.came.line[0] {
		return c.came.digest
	}
	return sha256.Sum256(c.Line)
}

// hexOf formats a digest as records do.
func hexOf(digest [32]byte) string {
	var room [2 * len(digest)]byte
	return string(hex.AppendEncode(room[:0], digest[:]))
}
