package agenthook

import "testing"

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
