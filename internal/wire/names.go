package wire

import (
	"bytes"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// names lists the members that decide what a message is or what is done with it. An
// object with such members must have no other member whose name some reader takes for one
// of them.
type names []string

// unknown is the index of a name that is not in a table.
const unknown = -1

var topNames = names{"jsonrpc", "id", "method", "params", "result", "error"}

const (
	topJSONRPC = iota
	topID
	topMethod
	topParams
	topResult
	topError
)

var paramNames = names{
	"name", "uri", "arguments", "_meta", "requestId", "task", "taskId",
	"requestState", "inputResponses", "inputRequests", "mode", "ref", "notifications",
}

// The first of paramNames; the others are treated alike.
const (
	paramName = iota
	paramURI
	paramArguments
	paramMeta
)

var metaNames = names{"progressToken", "io.modelcontextprotocol/protocolVersion"}

const (
	metaProgressToken = iota
	metaVersion
)

var resultNames = names{"isError", "resultType", "inputRequests", "task", "taskId"}

const resultIsError = 0

var errorNames = names{"code", "message"}

const (
	errorCode = iota
	errorMessage
)

// find returns the index of name, or unknown. twin reports that name is not in the table,
// but that a reader would find it there that ignores case, trims, or strips invisible
// characters.
func (t names) find(name []byte) (index int, twin bool) {
	for i, known := range t {
		if string(name) == known {
			return i, false
		}
	}
	return unknown, t.hasTwin(name)
}

func (t names) hasTwin(name []byte) bool {
	// A JavaScript reader that copies members may find any name in __proto__.
	return string(name) == "__proto__" || t.folds(name)
}

// folds reports whether name equals one of the table, apart from case and from blanks and
// invisible characters.
func (t names) folds(name []byte) bool {
	if !plain(name) {
		name = visible(name)
	}
	for _, known := range t {
		// Lengths may differ: the Kelvin sign folds to k.
		if bytes.EqualFold(name, []byte(known)) {
			return true
		}
	}
	return false
}

// plain reports whether name is ASCII without blanks and controls.
func plain(name []byte) bool {
	for _, c := range name {
		if c <= ' ' || c >= 0x7f {
			return false
		}
	}
	return true
}

// visible returns name without blanks, controls and invisible characters.
func visible(name []byte) []byte {
	kept := make([]byte, 0, len(name))
	for len(name) > 0 {
		r, n := utf8.DecodeRune(name)
		if !(r == utf8.RuneError || unicode.IsSpace(r) || Unseen(r)) {
			kept = append(kept, name[:n]...)
		}
		name = name[n:]
	}
	return kept
}

// Unseen reports whether r is a control, or an invisible character that changes how a
// text looks: direction marks, zero-width characters, line separators, fillers, variation
// selectors, tags.
func Unseen(r rune) bool {
	if r < utf8.RuneSelf {
		return r < ' ' || r == 0x7f
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp,
		unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// unquoteName returns the value of a raw JSON string. The result is within quoted or in
// scratch, which may have grown.
func unquoteName(scratch, quoted []byte) (name, grown []byte) {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1], scratch
	}
	// The error is ignored: a lone surrogate becomes U+FFFD.
	scratch, _ = jsontext.AppendUnquote(scratch[:0], quoted)
	return scratch, scratch
}

// methods interns the names of MCP's methods, so that reading a message need not allocate
// them. Their meaning is not known here.
var methods = intern(
	"initialize", "ping", "server/discover", "logging/setLevel", "completion/complete",
	"tools/list", "tools/call",
	"resources/list", "resources/templates/list", "resources/read", "resources/subscribe",
	"resources/unsubscribe", "resources/directory/read", "subscriptions/listen",
	"prompts/list", "prompts/get", "skills/list", "skills/get",
	"tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "tasks/update",
	"sampling/createMessage", "elicitation/create", "roots/list",
	"notifications/initialized", "notifications/cancelled", "notifications/progress",
	"notifications/message", "notifications/tools/list_changed",
	"notifications/prompts/list_changed", "notifications/resources/list_changed",
	"notifications/resources/updated", "notifications/subscriptions/acknowledged",
	"notifications/roots/list_changed", "notifications/elicitation/complete",
	"notifications/tasks/status", "notifications/tasks",
)

func intern(names ...string) map[string]string {
	table := make(map[string]string, len(names))
	for _, name := range names {
		table[name] = name
	}
	return table
}
