package wire

import (
	"bytes"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// The members that decide what a message is, or what is done with it. In an
// object that has such names, no other member may have a name that some reader
// takes for one of them.
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
	"name", "arguments", "uri", "_meta", "requestId", "task", "taskId",
	"requestState", "inputResponses", "inputRequests", "mode", "ref", "notifications",
}

const (
	paramName = iota
	paramArguments
	paramURI
	paramMeta
	paramRequestID
	paramTask
	paramTaskID
	paramRequestState
	paramInputResponses
	paramInputRequests
	paramMode
	paramRef
	paramNotifications
)

var metaNames = names{"progressToken", "io.modelcontextprotocol/protocolVersion"}

const (
	metaProgressToken = iota
	metaVersion
)

var resultNames = names{"isError", "resultType", "inputRequests", "task", "taskId"}

const (
	resultIsError = iota
	resultResultType
	resultInputRequests
	resultTask
	resultTaskID
)

var errorNames = names{"code", "message"}

const (
	errorCode = iota
	errorMessage
)

// find returns the index of name, or unknown. twin reports that name is not in
// the table and that a reader which folds case, trims, or drops what can't be
// seen would find it there.
func (t names) find(name []byte) (index int, twin bool) {
	for i, known := range t {
		if string(name) == known {
			return i, false
		}
	}
	return unknown, t.hasTwin(name)
}

func (t names) hasTwin(name []byte) bool {
	// A JavaScript reader that copies members may find any name in this one.
	return string(name) == "__proto__" || t.folds(name)
}

// folds reports whether name is one of the table but for case and for what is
// trimmed or not seen.
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

// plain reports whether name is ASCII without anything that is trimmed.
func plain(name []byte) bool {
	for _, c := range name {
		if c <= ' ' || c >= 0x7f {
			return false
		}
	}
	return true
}

// visible returns name without blanks, controls, and characters that are not
// shown.
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

// Unseen reports whether r is a control, or a character that changes how a
// text looks without being seen: marks that turn the direction of writing,
// zero-width characters, separators of lines, fillers, variation selectors,
// tags.
func Unseen(r rune) bool {
	if r < utf8.RuneSelf {
		return r < ' ' || r == 0x7f
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp,
		unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// unquoteName returns what a raw JSON string stands for. The result is within
// quoted, or is scratch.
func unquoteName(scratch, quoted []byte) (name, grown []byte) {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1], scratch
	}
	// A lone surrogate is an error and stands for U+FFFD all the same.
	scratch, _ = jsontext.AppendUnquote(scratch[:0], quoted)
	return scratch, scratch
}

// methods holds the names of MCP's methods, so that reading a message does not
// have to copy them. What they mean is not known here.
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
