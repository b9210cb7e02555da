package agenthook

import (
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Output is what a hook prints and exits with.
type Output struct {
	Stdout, Stderr []byte
	Status         int
}

// statusDeny is the exit code by which a hook denies a call at every agent. The agent's model
// reads what the hook has written to standard error.
const statusDeny = 2

// Refuse returns the output that denies a call at an agent about which nothing is known.
func Refuse(reason string) Output { return Output{Stderr: []byte(reason + "\n"), Status: statusDeny} }

// words are the words of one agent for answers.
type words uint8

const (
	wordsClaude words = iota + 1 // also Codex
	wordsCopilot
	wordsGemini
	wordsCursor
	wordsPlain // exit codes, and for a changed call {"input": ...}
)

// Pass returns the output that lets the agent go on as if there were no hook: whatever the agent
// itself would ask its user about, it still asks. notice is for its model; it may be empty.
func (c *Contract) Pass(e *Event, notice string) Output {
	switch {
	case e.foreign != nil:
	case c.words == wordsCursor && e.Kind == Before:
		return object("permission", text("allow"))
	case c.words == wordsClaude && notice != "" && c.Notice && e.Kind == Before:
		return object("hookSpecificOutput", members("hookEventName", text(e.Name), "additionalContext", text(notice)))
	}
	return Output{}
}

// Deny returns the output that denies the call, with the reason for the agent's model.
func (c *Contract) Deny(e *Event, reason string) Output {
	if e.foreign != nil {
		return Refuse(reason)
	}
	switch c.words {
	case wordsClaude:
		return object("hookSpecificOutput", members("hookEventName", text(e.Name), "permissionDecision", text("deny"), "permissionDecisionReason", text(reason)))
	case wordsCopilot:
		return object("permissionDecision", text("deny"), "permissionDecisionReason", text(reason),
			"hookSpecificOutput", members("hookEventName", text(e.Name), "permissionDecision", text("deny"), "permissionDecisionReason", text(reason)))
	case wordsGemini:
		return object("decision", text("deny"), "reason", text(reason))
	case wordsCursor:
		return object("permission", text("deny"), "user_message", text(reason), "agent_message", text(reason))
	}
	return Refuse(reason)
}

// Asks reports whether the agent says in an event that it would ask its own user about the call if
// it were told to. Of a call of a subagent, which may run where nobody is asked, it is not known.
func (c *Contract) Asks(e *Event) bool {
	return e.Kind == Before && e.foreign == nil && !e.Subagent && e.ID != "" && slices.Contains(c.AskModes, e.Mode)
}

// headless are the options of Claude Code with which it asks nobody, or has a program answer: a
// channel may pass its questions on.
var headless = []string{"--print", "--output-format", "--input-format", "--permission-prompt-tool", "--sdk-url", "--channels", "--dangerously-load-development-channels"}

// Headless reports whether an argument of the agent's command line says that it may have nobody to
// ask. It knows those of Claude Code, the only agent with AskModes.
func (c *Contract) Headless(arg string) bool {
	name, _, _ := strings.Cut(arg, "=")
	if len(name) > 1 && name[0] == '-' && name[1] != '-' {
		return strings.ContainsRune(name, 'p') // in a group of short options, too
	}
	return slices.Contains(headless, name)
}

// Ask returns the output that has the agent ask its own user about the call. It may only be given if
// [Contract.Asks].
func (c *Contract) Ask(e *Event, question string) Output {
	return object("hookSpecificOutput", members("hookEventName", text(e.Name), "permissionDecision", text("ask"), "permissionDecisionReason", text(question)))
}

// Change returns the output that has the agent go on with another input. It reports false if the
// agent can't be told so.
func (c *Contract) Change(e *Event, input []byte) (Output, bool) {
	if e.foreign != nil || c.fixed {
		return Output{}, false
	}
	switch c.words {
	case wordsClaude:
		return object("hookSpecificOutput", members("hookEventName", text(e.Name), "permissionDecision", text("allow"), "updatedInput", input)), true
	case wordsCopilot:
		return object("permissionDecision", text("allow"), "modifiedArgs", input), true
	case wordsGemini:
		return object("decision", text("allow"), "hookSpecificOutput", members("hookEventName", text(e.Name), "tool_input", input)), true
	case wordsPlain:
		return object("input", input), true
	}
	return Output{}, false
}

func text(s string) []byte { return wire.AppendQuote(nil, s) }

// members returns a JSON object. all alternates between names and raw values.
func members(all ...any) []byte {
	var o writtenObject
	for i := 0; i < len(all); i += 2 {
		o.add(all[i].(string), all[i+1].([]byte))
	}
	return o.end()
}

func object(all ...any) Output { return Output{Stdout: append(members(all...), '\n')} }

// writtenObject is a JSON object that is being written.
type writtenObject []byte

func (o *writtenObject) add(name string, value []byte) {
	separator := byte(',')
	if len(*o) == 0 {
		separator = '{'
	}
	*o = append(append(wire.AppendQuote(append(*o, separator), name), ':'), value...)
}

func (o *writtenObject) end() []byte {
	if len(*o) == 0 {
		return []byte("{}")
	}
	return append(*o, '}')
}
