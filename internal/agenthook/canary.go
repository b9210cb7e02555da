package agenthook

import (
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/rawjson"
)

// Judging returns the event whose answer decides whether a tool runs, of those that entries are
// written for. It is empty if the agent has no entries.
func (c *Contract) Judging() string {
	for _, event := range c.Hooks {
		if c.Events[event] == Before {
			return event
		}
	}
	return ""
}

// canary is the conversation, and the id of the call, of a canary.
const canary = "canary"

// CanaryEvent returns what the agent would report to a [Contract.Judging] hook before it runs
// command.
func (c *Contract) CanaryEvent(command string) []byte {
	var names []string
	for name, t := range c.Tools {
		if _, event := c.Events[name]; t.Name == Shell && !event {
			names = append(names, name)
		}
	}
	if c.said == windsurfName {
		return members(windsurfName, text(c.Judging()), "trajectory_id", text(canary), "tool_info", members("command_line", text(command), "cwd", text("/")))
	}
	return members(c.nameMember(), text(c.Judging()), "session_id", text(canary), "cwd", text("/"), "tool_use_id", text(canary),
		"tool_name", text(slices.Min(names)), "tool_input", members("command", text(command)))
}

// IsCanary reports whether an event is the [Contract.CanaryEvent] of command, or says so: it says
// nothing about an agent.
func (e *Event) IsCanary(command string) bool {
	return e.Session == canary && strings.Contains(string(e.Input), command)
}

// Denies reports whether the agent takes what a hook has printed, and its exit code, for a denial.
func (c *Contract) Denies(o Output) bool {
	if o.Status != 0 {
		return o.Status == statusDeny
	}
	answer := rawjson.Read(o.Stdout)
	said := ""
	switch c.words {
	case wordsClaude:
		said = answer.Object("hookSpecificOutput").OptionalText("permissionDecision")
	case wordsCopilot:
		said = answer.OptionalText("permissionDecision")
	case wordsGemini:
		said = answer.OptionalText("decision")
	case wordsCursor:
		said = answer.OptionalText("permission")
	}
	return answer.Err() == nil && said == "deny"
}
