package agenthook

import (
	"slices"
	"strings"
	"testing"
)

// Only an agent that can be told to ask its own user is, and only about a call of its own of which
// it says that it would ask: in a mode that is known to, as the same program that the entry is for.
func TestAsks(t *testing.T) {
	const event = `{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"x"}`
	for rest, want := range map[string]bool{
		`"tool_use_id":"1","permission_mode":"default"`:                      true,
		`"tool_use_id":"1","permission_mode":"acceptEdits"`:                  true,
		`"tool_use_id":"1","permission_mode":"plan"`:                         true,
		`"tool_use_id":"1","permission_mode":"bypassPermissions"`:            false,
		`"tool_use_id":"1","permission_mode":"dontAsk"`:                      false,
		`"tool_use_id":"1","permission_mode":"auto"`:                         false,
		`"tool_use_id":"1","permission_mode":"Default"`:                      false,
		`"tool_use_id":"1","permission_mode":""`:                             false,
		`"tool_use_id":"1"`:                                                  false,
		`"permission_mode":"default"`:                                        false, // its result could not be told from others
		`"tool_use_id":"1","permission_mode":"default","agent_id":"a"`:       false, // a subagent
		`"tool_use_id":"1","permission_mode":"default","cursor_version":"2"`: false, // Cursor has run the entry
	} {
		for _, agent := range Agents() {
			c := Of(agent)
			text := event + "," + rest + "}"
			e, err := c.Read([]byte(text))
			if err != nil {
				if agent == "claude-code" {
					t.Fatal(err)
				}
				continue
			}
			if got := c.Asks(e); got != (want && agent == "claude-code") {
				t.Errorf("%s: %s: asks: %v", agent, text, got)
			}
		}
	}
	c := Of("claude-code")
	e, err := c.Read([]byte(`{"hook_event_name":"PostToolUse","tool_name":"Bash","tool_use_id":"1","permission_mode":"default"}`))
	if err != nil || c.Asks(e) {
		t.Errorf("after the call: asks: %v, %v", c.Asks(e), err)
	}
	e.Name = "PreToolUse"
	const want = `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"ask","permissionDecisionReason":"is \"x\"\nfine?"}}`
	if got := printed(c.Ask(e, "is \"x\"\nfine?")); got != want || c.Denies(c.Ask(e, "")) {
		t.Errorf("asks by %s, want %s", got, want)
	}
}

func TestHeadless(t *testing.T) {
	c := Of("claude-code")
	for line, want := range map[string]bool{
		"claude":                                                  false,
		"claude fix the parser, please":                           false,
		"claude -c --model opus":                                  false,
		"claude -p hello":                                         true,
		"claude -cp hello":                                        true,
		"claude --print hello":                                    true,
		"claude --output-format=json hello":                       true,
		"claude --input-format stream-json":                       true,
		"claude --permission-prompt-tool mcp__a__b":               true,
		"claude --channels plugin:chat@x":                         true,
		"claude --dangerously-load-development-channels server:x": true,
	} {
		if got := slices.ContainsFunc(strings.Fields(line), c.Headless); got != want {
			t.Errorf("%s: headless: %v", line, got)
		}
	}
}
