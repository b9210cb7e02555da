package agenthook

import (
	"fmt"
	"strings"
	"testing"
)

// An event becomes a call with ThoughtGate's names and every byte of the agent's other members,
// and arguments that a person has changed become the agent's input again.
func TestCallAndInput(t *testing.T) {
	for _, test := range []struct{ agent, event, tool, arguments, changed, input string }{
		{
			"claude-code", `{"hook_event_name":"PreToolUse","cwd":"/w/","tool_name":"Edit","tool_input":{"file_path":"a","old_string":"\u00e9","n":1e2}}`,
			Write, `{"path":"a","old_string":"\u00e9","n":1e2,"cwd":"/w"}`,
			`{"path":"b","old_string":"x","cwd":"/w"}`, `{"file_path":"b","old_string":"x"}`,
		},
		{
			"opencode", `{"hook_event_name":"PreToolUse","cwd":"/w","tool_name":"bash","tool_input":{"command":"ls","workdir":"/v"}}`,
			Shell, `{"command":"ls","cwd":"/v"}`, `{"command":"id","cwd":"/v"}`, `{"command":"id","workdir":"/v"}`,
		},
		{
			"claude-code", `{"hook_event_name":"PreToolUse","tool_name":"mcp__files__read","tool_input":{"a":1}}`,
			MCP, `{"server":"files","tool":"read","arguments":{"a":1}}`, `{"server":"files","tool":"read","arguments":{"a":2}}`, `{"a":2}`,
		},
		{
			"cursor", `{"hook_event_name":"beforeMCPExecution","cursor_version":"2","tool_name":"Sing","tool_input":"{\"a\":1}"}`,
			Other, `{"name":"Sing","arguments":{"a":1}}`, `{"name":"Sing","arguments":{}}`, `{}`,
		},
		{
			"opencode", `{"hook_event_name":"PreToolUse","cwd":"/w","tool_name":"bash","tool_input":{"command":"ls","cwd":"/tmp"}}`,
			Shell, `{"command":"ls","input.cwd":"/tmp","cwd":"/w"}`, `{"command":"ls","input.cwd":"/tmp","cwd":"/w"}`, `{"command":"ls","cwd":"/tmp"}`,
		},
		{
			"codex", `{"hook_event_name":"PreToolUse","cwd":"/w","tool_name":"exec_command","tool_input":{"cmd":"ls","cwd":"/tmp","workdir":"/v"}}`,
			Shell, `{"command":"ls","input.cwd":"/tmp","cwd":"/v"}`, `{"command":"ls","cwd":"/v"}`, `{"cmd":"ls","workdir":"/v"}`,
		},
		{
			"gemini", `{"hook_event_name":"BeforeTool","cwd":"/w","tool_name":"run_shell_command","tool_input":{"command":"ls","directory":"/tmp"}}`,
			Shell, `{"command":"ls","directory":"/tmp","cwd":"/w"}`, `{"command":"ls","cwd":"/w"}`, `{"command":"ls"}`,
		},
		{
			"qwen", `{"hook_event_name":"PreToolUse","cwd":"/w","tool_name":"run_shell_command","tool_input":{"command":"ls","dir_path":"/tmp","directory":"/v"}}`,
			Shell, `{"command":"ls","dir_path":"/tmp","cwd":"/v"}`, `{"command":"ls","cwd":"/v"}`, `{"command":"ls","directory":"/v"}`,
		},
		{
			"claude-code", `{"hook_event_name":"PreToolUse","cwd":"/w","tool_name":"Bash","tool_input":{"command":"rm -rf a","cwd":"/tmp"}}`,
			Shell, `{"command":"rm -rf a","input.cwd":"/tmp","cwd":"/w"}`, `{"command":"ls","input.cwd":"/tmp","cwd":"/w"}`, `{"command":"ls","cwd":"/tmp"}`,
		},
		{
			"claude-code", `{"hook_event_name":"PreToolUse","tool_name":"mcp__files__evil__read","tool_input":{}}`,
			MCP, `{"server":"","tool":"files__evil__read","arguments":{}}`, `{"server":"","tool":"files__evil__read","arguments":{}}`, `{}`,
		},
		{ // it calls the tool as it does in an entry of its own
			"claude-code", `{"hook_event_name":"PreToolUse","cursor_version":"2","tool_name":"Shell","tool_input":{"command":"ls","working_directory":"/w"}}`,
			Shell, `{"command":"ls","cwd":"/w"}`, `{"command":"id","cwd":"/w"}`, `{"command":"id","working_directory":"/w"}`,
		},
		{
			"claude-code", `{"hook_event_name":"PreToolUse","cursor_version":"2","tool_name":"Bash","tool_input":{"command":"ls"}}`,
			Shell, `{"command":"ls"}`, `{"command":"id"}`, `{"command":"id"}`,
		},
		{
			"claude-code", `{"hook_event_name":"PreToolUse","cursor_version":"2","tool_name":"mcp__files__read","tool_input":{}}`,
			MCP, `{"server":"files","tool":"read","arguments":{}}`, `{"server":"files","tool":"read","arguments":{}}`, `{}`,
		},
		// As the documentation of each agent has them, and the sources of Goose and Crush.
		{
			"windsurf", `{"agent_action_name":"pre_run_command","trajectory_id":"t","execution_id":"e","timestamp":"2026-01-01T00:00:00Z","tool_info":{"command_line":"npm install package-name","cwd":"/Users/yourname/project"}}`,
			Shell, `{"command":"npm install package-name","cwd":"/Users/yourname/project"}`, `{"command":"ls","cwd":"/w"}`, `{"command_line":"ls","cwd":"/w"}`,
		},
		{
			"windsurf", `{"agent_action_name":"pre_write_code","tool_info":{"file_path":"/w/file.py","edits":[{"old_string":"a","new_string":"b"}]}}`,
			Write, `{"path":"/w/file.py","edits":[{"old_string":"a","new_string":"b"}]}`, `{"path":"/w/a"}`, `{"file_path":"/w/a"}`,
		},
		{"windsurf", `{"agent_action_name":"pre_read_code","tool_info":{"file_path":"/w/file.py"}}`, Read, `{"path":"/w/file.py"}`, `{}`, `{}`},
		{
			"windsurf", `{"agent_action_name":"pre_mcp_tool_use","tool_info":{"mcp_server_name":"github","mcp_tool_arguments":{"owner":"o"},"mcp_tool_name":"create_issue"}}`,
			MCP, `{"server":"github","tool":"create_issue","arguments":{"owner":"o"}}`, `{"arguments":{}}`, `{}`,
		},
		{
			"windsurf", `{"agent_action_name":"pre_mcp_tool_use","tool_info":{"mcp_tool_name":"create_issue"}}`,
			MCP, `{"server":"","tool":"create_issue","arguments":{}}`, `{"arguments":{}}`, `{}`,
		},
		{
			"goose", `{"event":"PreToolUse","session_id":"s","matcher_context":"developer__shell","tool_call_id":"c","tool_name":"developer__shell","tool_input":{"command":"rg TODO"},"working_dir":"/w"}`,
			Shell, `{"command":"rg TODO","cwd":"/w"}`, `{"command":"ls","cwd":"/w"}`, `{"command":"ls"}`,
		},
		{"goose", `{"event":"PreToolUse","tool_name":"edit","tool_input":{"path":"n","before":"a","after":"b"},"working_dir":"/w"}`, Write, `{"path":"n","before":"a","after":"b","cwd":"/w"}`, `{}`, `{}`},
		{
			"crush", `{"event":"PreToolUse","session_id":"313909e","cwd":"/home/user/project","tool_name":"bash","tool_input":{"command":"rm -rf /","working_dir":"/w"}}`,
			Shell, `{"command":"rm -rf /","cwd":"/w"}`, `{"command":"ls","cwd":"/w"}`, `{"command":"ls","working_dir":"/w"}`,
		},
		{
			"crush", `{"event":"PreToolUse","cwd":"/w","tool_name":"mcp_github_create_issue","tool_input":{"a":1}}`,
			Other, `{"name":"mcp_github_create_issue","arguments":{"a":1}}`, `{"arguments":{}}`, `{}`,
		},
		{
			"droid", `{"session_id":"abc123","transcript_path":"/h/.factory/projects/p/0.jsonl","cwd":"/w","permission_mode":"off","hook_event_name":"PreToolUse","tool_name":"Create","tool_input":{"file_path":"/path/to/file.txt","content":"file content"}}`,
			Write, `{"path":"/path/to/file.txt","content":"file content","cwd":"/w"}`, `{"path":"/a"}`, `{"file_path":"/a"}`,
		},
		{"droid", `{"cwd":"/w","hook_event_name":"PreToolUse","tool_name":"Execute","tool_input":{"command":"ls"}}`, Shell, `{"command":"ls","cwd":"/w"}`, `{}`, `{}`},
		{"droid", `{"hook_event_name":"PreToolUse","tool_name":"mcp__memory__create_entities","tool_input":{}}`, MCP, `{"server":"memory","tool":"create_entities","arguments":{}}`, `{"arguments":{}}`, `{}`},
		{
			"devin", `{"session_id":"s","prompt_id":"p","tool_use_id":"c","hook_event_name":"PreToolUse","tool_name":"exec","tool_input":{"command":"npm install","shell_id":"main"}}`,
			Shell, `{"command":"npm install","shell_id":"main"}`, `{"command":"ls","shell_id":"main"}`, `{"command":"ls","shell_id":"main"}`,
		},
		{"devin", `{"hook_event_name":"PreToolUse","tool_name":"edit","tool_input":{"file_path":"/w/a","old_string":"a"}}`, Write, `{"path":"/w/a","old_string":"a"}`, `{"path":"/a"}`, `{"file_path":"/a"}`},
		{"devin", `{"hook_event_name":"PreToolUse","tool_name":"mcp__github__create_issue","tool_input":{}}`, MCP, `{"server":"github","tool":"create_issue","arguments":{}}`, `{"arguments":{}}`, `{}`},
		{"gemini", `{"hook_event_name":"BeforeTool","tool_name":"google_web_search"}`, Search, `{}`, `{}`, `{}`},
	} {
		c := Of(test.agent)
		e, err := c.Read([]byte(test.event))
		if err != nil {
			t.Fatal(err)
		}
		call, err := c.Call(e)
		if err != nil {
			t.Fatal(err)
		}
		if call.Tool != test.tool || string(call.Arguments) != test.arguments {
			t.Errorf("%s: %s %s, want %s %s", test.event, call.Tool, call.Arguments, test.tool, test.arguments)
		}
		if input, err := call.Input([]byte(test.changed)); err != nil || string(input) != test.input {
			t.Errorf("%s: %s, %v, want %s", test.changed, input, err, test.input)
		}
	}
}

// A denial, with its reason, is in the words of the agent, and so is the consent to other arguments.
// Where an agent runs the entries of another one, only the exit code is in words that both know.
func TestAnswers(t *testing.T) {
	before := `"tool_name":"Bash","tool_input":{"command":"x"}`
	for _, test := range []struct{ agent, event, deny, change, pass string }{
		{
			"claude-code", `{"hook_event_name":"PreToolUse",` + before + `}`,
			`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"no \"x\""}}`,
			`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":{"a":1}}}`,
			`{"hookSpecificOutput":{"hookEventName":"PreToolUse","additionalContext":"told"}}`,
		},
		{
			"codex", `{"hook_event_name":"PreToolUse","turn_id":"1",` + before + `}`,
			`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"no \"x\""}}`,
			`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":{"a":1}}}`, ``,
		},
		{
			"copilot-cli", `{"hook_event_name":"PreToolUse",` + before + `}`,
			`{"permissionDecision":"deny","permissionDecisionReason":"no \"x\"","hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"no \"x\""}}`,
			`{"permissionDecision":"allow","modifiedArgs":{"a":1}}`, ``,
		},
		{
			"gemini", `{"hook_event_name":"BeforeTool",` + before + `}`,
			`{"decision":"deny","reason":"no \"x\""}`,
			`{"decision":"allow","hookSpecificOutput":{"hookEventName":"BeforeTool","tool_input":{"a":1}}}`, ``,
		},
		{
			"cursor", `{"hook_event_name":"preToolUse","cursor_version":"2",` + before + `}`,
			`{"permission":"deny","user_message":"no \"x\"","agent_message":"no \"x\""}`, `not possible`, `{"permission":"allow"}`,
		},
		{
			"qwen", `{"hook_event_name":"PreToolUse",` + before + `}`,
			`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"no \"x\""}}`, `not possible`, ``,
		},
		{"opencode", `{"hook_event_name":"PreToolUse",` + before + `}`, `exit 2: no "x"`, `{"input":{"a":1}}`, ``},
		{"claude-code", `{"hook_event_name":"PreToolUse","cursor_version":"2",` + before + `}`, `exit 2: no "x"`, `not possible`, ``},
		{"windsurf", `{"agent_action_name":"pre_run_command","tool_info":{"command_line":"x"}}`, `exit 2: no "x"`, `not possible`, ``},
		{"goose", `{"event":"PreToolUse",` + before + `}`, `exit 2: no "x"`, `not possible`, ``},
		{"crush", `{"event":"PreToolUse",` + before + `}`, `exit 2: no "x"`, `not possible`, ``},
		{"droid", `{"hook_event_name":"PreToolUse",` + before + `}`, `exit 2: no "x"`, `not possible`, ``},
		{"devin", `{"hook_event_name":"PreToolUse",` + before + `}`, `exit 2: no "x"`, `not possible`, ``},
	} {
		c := Of(test.agent)
		e, err := c.Read([]byte(test.event))
		if err != nil {
			t.Fatal(err)
		}
		if got := printed(c.Deny(e, `no "x"`)); got != test.deny {
			t.Errorf("%s: denied by %s, want %s", test.event, got, test.deny)
		}
		change, ok := c.Change(e, []byte(`{"a":1}`))
		if got := printed(change); ok && got != test.change || !ok && test.change != "not possible" {
			t.Errorf("%s: changed by %s, %v, want %s", test.event, got, ok, test.change)
		}
		if got := printed(c.Pass(e, "told")); got != test.pass {
			t.Errorf("%s: passes by %s, want %s", test.event, got, test.pass)
		}
	}
}

// printed returns what an agent gets from a hook.
func printed(o Output) string {
	if o.Status != 0 {
		return fmt.Sprintf("exit %d: %s%s", o.Status, o.Stdout, strings.TrimSpace(string(o.Stderr)))
	}
	return strings.TrimSpace(string(o.Stdout) + string(o.Stderr))
}

// What is not understood is an error, which denies: neither is an agent answered in the words of
// another, nor does one of two members for the same thing decide.
func TestEventsThatAreNotUnderstood(t *testing.T) {
	for event, want := range map[string]string{
		`{"hook_event_name":"PreToolUse","turn_id":"1","tool_name":"Bash","tool_input":{}}`:                   "codex has run it",
		`{"hook_event_name":"Sunrise","tool_name":"Bash","tool_input":{}}`:                                    "Sunrise",
		`{"tool_name":"Bash","tool_input":{}}`:                                                                "not known to report",
		`{"hook_event_name":"PreToolUse","tool_input":{}}`:                                                    "names no tool",
		`{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":[]}`:                                 "not a JSON object",
		`{"hook_event_name":"PreToolUse","tool_name":"Bash","Tool_name":"Read","tool_input":{}}`:              "two spellings",
		`{"hook_event_name":"PreToolUse","tool_name":"Read","tool_input":{"path":"/a","file_path":"/b"}}`:     "two members for path",
		`{"hook_event_name":"PreToolUse","tool_name":"Read","tool_input":{"file_path":"/a","file_path":"b"}}`: "duplicate",
	} {
		c := Of("claude-code")
		e, err := c.Read([]byte(event))
		if err == nil {
			_, err = c.Call(e)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", event, err, want)
		}
	}
}

// An entry has the form of the agent's documentation, and the limit in its unit.
func TestEntries(t *testing.T) {
	for agent, want := range map[string]string{
		"claude-code": `{"matcher":"*","hooks":[{"type":"command","command":"/s","args":[WORDS],"timeout":3600,"onFailure":"block"}]}`,
		"codex":       `{"matcher":"*","hooks":[{"type":"command","command":"LINE","timeout":3600}]}`,
		"gemini":      `{"matcher":"*","hooks":[{"type":"command","command":"LINE","timeout":3600000}]}`,
		"qwen":        `{"matcher":"*","hooks":[{"type":"command","command":"LINE","timeout":50}]}`,
		"cursor":      `{"command":"LINE","timeout":3600,"failClosed":true}`,
		"copilot-cli": `{"type":"command","bash":"LINE","timeoutSec":3600}`,
		"opencode":    `{"command":"/s","args":[WORDS],"timeout":3600}`,
		"windsurf":    `{"command":"LINE"}`,
		"goose":       `{"hooks":[{"type":"command","command":"LINE","timeout":3600,"on_failure":"block"}]}`,
		"crush":       `{"command":"LINE","timeout":3600}`,
		"droid":       `{"matcher":"*","hooks":[{"type":"command","command":"LINE","timeout":50}]}`,
		"devin":       `{"hooks":[{"type":"command","command":"LINE","timeout":50}]}`,
	} {
		c := Of(agent)
		words := []string{"hook", "--socket", "/k", "--session", "i", "--limit", c.Limit.String(), agent}
		line := shellQuoted(append([]string{"/s"}, words...))
		want = strings.NewReplacer("LINE", line, "[WORDS]", string(list(words))).Replace(want)
		if got := c.Entries("/s", "/k", "i"); len(got) != len(c.Hooks) || got[0].Event != c.Judging() || got[0].Text != want {
			t.Errorf("%s: %+v, want %s", agent, got, want)
		}
	}
}
