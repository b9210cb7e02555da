// Package protocol defines what the daemon and an extension say to each other, version 1: the
// methods, their params, and the strict parsing of what an extension answers. It does not
// depend on processes or wire protocols: whatever the wire protocol, messages are JSON here.
//
// Nothing that an extension sends is trusted before this package has parsed it. Invalid data is
// an error, and the caller decides what follows: an invalid handshake ends the extension, an
// invalid answer to a hook denies the call, an invalid piece of a stream is skipped.
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

// Requests and notifications of the daemon to an extension.
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

// Requests of an extension to the daemon.
const (
	MemoryAppend    = "memory.append"
	MemoryQuery     = "memory.query"
	ConfigGet       = "config.get"
	ConfigSet       = "config.set"
	ConfigSubscribe = "config.subscribe"
)

// Notifications of an extension to the daemon.
const (
	StreamEvents  = "provider.stream.event"
	CommandOutput = "command.output"
	taskPrefix    = "task."
)

// Timeout returns how long the answer to a method may take.
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

// Error codes of answers to an extension's requests.
const (
	CodeNoMethod = -32601
	CodeParams   = -32602 // also for a missing permission
	CodeHost     = -32000
)

// OneLine returns valid JSON without line breaks, unchanged if it has none.
func OneLine(raw []byte) []byte {
	if bytes.IndexByte(raw, '\n') < 0 && bytes.IndexByte(raw, '\r') < 0 {
		return raw
	}
	value := jsontext.Value(bytes.Clone(raw))
	if err := value.Compact(); err != nil {
		return raw // not JSON, and nobody takes it for JSON
	}
	return value
}

// Plain returns text of an extension's as one line of at most most bytes.
func Plain(text string, most int) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || r == utf8.RuneError }), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}
