// Package protocol is what the daemon and an extension say to each other, version
// 1: the names of what is asked, what stands in it, and the strict reading of what
// an extension answers. It knows neither processes nor wires: whatever an extension
// speaks, here it is JSON.
//
// Nothing that an extension says is believed before it was read here. What can't be
// read is an error, and what becomes of it is the caller's to say: a handshake that
// is refused ends the extension, an answer to a hook refuses the call, a piece of a
// stream is passed over.
package protocol

import (
	"bytes"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Version is the version of the protocol; both sides must speak the same one.
const Version = 1

// What the daemon asks an extension, and tells it.
const (
	Initialize       = "initialize"
	HookBefore       = "hook.before"
	HookAfter        = "hook.after"
	ToolCall         = "tool.call"
	ProviderComplete = "provider.complete"
	ProviderStream   = "provider.stream"
	CommandInvoke    = "command.invoke"
	Shutdown         = "shutdown"
	ConfigChanged    = "config.changed" // a notification
)

// What an extension asks the daemon.
const (
	MemoryAppend    = "memory.append"
	MemoryQuery     = "memory.query"
	ConfigGet       = "config.get"
	ConfigSet       = "config.set"
	ConfigSubscribe = "config.subscribe"
)

// What an extension tells the daemon.
const (
	StreamEvents  = "provider.stream.event"
	CommandOutput = "command.output"
	taskPrefix    = "task."
)

// Timeout is how long the answer to a method may take.
func Timeout(method string) time.Duration {
	switch method {
	case Initialize:
		return 10 * time.Second
	case HookBefore, HookAfter:
		return 5 * time.Second
	case ToolCall, CommandInvoke:
		return 120 * time.Second
	case ProviderComplete, ProviderStream:
		return 60 * time.Second
	case Shutdown:
		return 500 * time.Millisecond
	}
	return 30 * time.Second
}

// Codes of the errors that a host request is answered with.
const (
	CodeNoMethod = -32601
	CodeParams   = -32602 // also for a permission that is missing
	CodeHost     = -32000
)

// OneLine returns valid JSON without line breaks: as it came if it has none.
func OneLine(raw []byte) []byte {
	if bytes.IndexByte(raw, '\n') < 0 && bytes.IndexByte(raw, '\r') < 0 {
		return raw
	}
	value := jsontext.Value(bytes.Clone(raw))
	if err := value.Compact(); err != nil {
		return raw // it is no JSON, and nobody takes it for that
	}
	return value
}

// Plain returns text that an extension chose on one line, at most most bytes of it.
func Plain(text string, most int) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || r == utf8.RuneError }), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}
