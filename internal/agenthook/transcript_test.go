package agenthook

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// A line with more values than a message has is not understood: each takes memory. A long text is one.
func TestUsesAreBounded(t *testing.T) {
	list := func(unit string, n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(unit+",", n), ",") + "]"
	}
	for name, tt := range map[string]struct {
		value string
		want  bool
	}{
		"a long text": {`"` + strings.Repeat(`{},`, maxValues) + `"`, true}, "many": {list("{}", maxValues/2-100), true},
		"too many": {list("{}", maxValues), false}, "too many numbers": {list("1", maxValues), false}, "too deep": {list(list("{}", 1000), maxValues/1000), false},
	} {
		for agent, line := range map[string]string{
			"claude-code": `{"type":"assistant","message":{"x":@,"content":[]}}`, "gemini": `{"type":"gemini","x":@,"toolCalls":[]}`,
			"qwen": `{"type":"assistant","message":{"x":@,"parts":[]}}`, "copilot-cli": `{"type":"tool.execution_start","data":{"x":@}}`, "codex": `{"type":"response_item","payload":{"x":@}}`,
		} {
			if _, err := Of(agent).Uses([]byte(strings.Replace(line, "@", tt.value, 1)), time.Time{}); (err == nil) != tt.want {
				t.Errorf("%s of %s: %v", name, agent, err)
			}
		}
	}
}

// What lines of transcripts say, as the agents write them.
func TestUses(t *testing.T) {
	const stamp = `"timestamp":"2026-03-01T12:00:00.500Z"`
	since := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	claude := func(kind, content string) string {
		return `{"parentUuid":null,"isSidechain":false,"type":"` + kind + `","message":{"role":"` + kind + `","content":` + content + `},` + stamp + `}`
	}
	codex := func(payload string) string { return `{` + stamp + `,"type":"response_item","payload":` + payload + `}` }
	opencode := func(tool, state string) string {
		return `{"type":"tool","tool":` + tool + `,"callID":"c0","state":{` + state + `}}`
	}
	for name, tt := range map[string]struct {
		agent, line string
		want        []Use
	}{
		"a command": {"claude-code", claude("assistant", `[{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"npm test","description":"x"}}]`),
			[]Use{{ID: "toolu_1", Tool: Shell, What: "npm test"}}},
		"two at once": {"claude-code", claude("assistant", `[{"type":"text","text":"now"},{"type":"tool_use","id":"a","name":"Write","input":{"file_path":"/x","content":""}},{"type":"tool_use","id":"b","name":"mcp__files__read","input":{}}]`),
			[]Use{{ID: "a", Tool: Write, What: "/x"}, {ID: "b", Tool: MCP, Server: "files", What: "mcp__files__read"}}},
		"an unknown tool": {"claude-code", claude("assistant", `[{"type":"tool_use","id":"c","name":"Telepathy","input":{"at":1}}]`), []Use{{ID: "c", Tool: Other, What: "Telepathy"}}},
		"no input":        {"claude-code", claude("assistant", `[{"type":"tool_use","id":"c","name":"Bash","input":null}]`), []Use{{ID: "c", Tool: Shell, What: "Bash"}}},
		"an odd input":    {"claude-code", claude("assistant", `[{"type":"tool_use","id":"c","name":"Bash","input":[1]}]`), []Use{{ID: "c", Tool: Other, What: "Bash"}}},
		"refused by the agent itself": {"claude-code", claude("user", `[{"tool_use_id":"d","type":"tool_result","content":"<tool_use_error>No such tool available</tool_use_error>","is_error":true}]`),
			[]Use{{ID: "d", Ended: true, Refused: true}}},
		"output that looks so":     {"claude-code", claude("user", `[{"tool_use_id":"d","type":"tool_result","content":"<tool_use_error>","is_error":false}]`), []Use{{ID: "d", Ended: true}}},
		"a failed command":         {"claude-code", claude("user", `[{"tool_use_id":"d","type":"tool_result","content":"Exit code 1\n<tool_use_error>","is_error":true}]`), []Use{{ID: "d", Ended: true}}},
		"a person cannot use them": {"claude-code", claude("user", `[{"type":"tool_use","id":"x","name":"Bash","input":{}}]`), nil},
		"words of a person":        {"claude-code", claude("user", `"run npm test"`), nil},
		"a summary":                {"claude-code", `{"type":"summary","summary":"x","leafUuid":"y"}`, nil},
		"before the process began": {"claude-code", strings.Replace(claude("assistant", `[{"type":"tool_use","id":"o","name":"Bash","input":{"command":"x"}}]`), "T12:", "T11:", 1), nil},
		"without a time": {"claude-code", strings.Replace(claude("assistant", `[{"type":"tool_use","id":"o","name":"Bash","input":{"command":"x"}}]`), stamp, `"timestamp":"soon"`, 1),
			[]Use{{ID: "o", Tool: Shell, What: "x"}}},

		"a function of codex":    {"codex", codex(`{"type":"function_call","name":"exec_command","arguments":"{\"cmd\":\"ls -l\"}","call_id":"call_1"}`), []Use{{ID: "call_1", Tool: Shell, What: "ls -l"}}},
		"a command as a list":    {"codex", codex(`{"type":"function_call","name":"shell","arguments":"{\"command\":[\"bash\",\"-lc\",\"ls\"]}","call_id":"call_2"}`), []Use{{ID: "call_2", Tool: Shell, What: "bash -lc ls"}}},
		"a patch":                {"codex", codex(`{"type":"custom_tool_call","name":"apply_patch","input":"*** Begin Patch","call_id":"call_3"}`), []Use{{ID: "call_3", Tool: Write, What: "*** Begin Patch"}}},
		"a shell of the model's": {"codex", codex(`{"type":"local_shell_call","call_id":"call_4","action":{"type":"exec","command":["ls"]}}`), []Use{{ID: "call_4", Tool: Shell, What: "ls"}}},
		"a tool without hooks":   {"codex", codex(`{"type":"function_call","name":"update_plan","arguments":"{}","call_id":"call_5"}`), nil},
		"an answer":              {"codex", codex(`{"type":"function_call_output","call_id":"call_1","output":"x"}`), []Use{{ID: "call_1", Ended: true}}},
		"an event":               {"codex", `{` + stamp + `,"type":"event_msg","payload":{"type":"token_count"}}`, nil},

		"a message of gemini":   {"gemini", `{"id":"m",` + stamp + `,"type":"gemini","content":"","toolCalls":[{"id":"r_0","name":"run_shell_command","args":{"command":"ls"},"result":[],"status":"success"}]}`, []Use{{ID: "r_0", Tool: Shell, What: "ls"}, {ID: "r_0", Ended: true}}},
		"a tool that failed":    {"gemini", `{"id":"m",` + stamp + `,"type":"gemini","toolCalls":[{"id":"w_0","name":"write_file","args":{"file_path":"/x"},"status":"error"}]}`, []Use{{ID: "w_0", Tool: Write, What: "/x"}, {ID: "w_0", Ended: true}}},
		"what a user cancelled": {"gemini", `{"id":"m",` + stamp + `,"type":"gemini","toolCalls":[{"id":"r_1","name":"run_shell_command","args":{"command":"ls"},"status":"cancelled"}]}`, []Use{{ID: "r_1", Ended: true, Refused: true}}},
		"a tool that waits":     {"gemini", `{"id":"m",` + stamp + `,"type":"gemini","toolCalls":[{"id":"r_1","name":"run_shell_command","args":{"command":"ls"},"status":"executing"}]}`, nil},
		"a tool of nobody":      {"gemini", `{"id":"m",` + stamp + `,"type":"gemini","toolCalls":[{"id":"n_0","name":"nonsense","args":{"a":1},"status":"error"}]}`, nil},
		"a message without any": {"gemini", `{"id":"m",` + stamp + `,"type":"gemini","content":"hello"}`, nil},
		"a message of a person": {"gemini", `{"id":"m",` + stamp + `,"type":"user","content":[{"functionResponse":{"id":"r_0"}}]}`, nil},
		"a change of the file":  {"gemini", `{"$set":{"lastUpdated":"2026-03-01T12:00:00.000Z"}}`, nil},
		"a call of qwen":        {"qwen", `{"uuid":"u",` + stamp + `,"type":"assistant","message":{"role":"model","parts":[{"text":"now"},{"functionCall":{"id":"c0","name":"run_shell_command","args":{"command":"ls"}}}]}}`, []Use{{ID: "c0", Tool: Shell, What: "ls"}}},
		"its result":            {"qwen", `{"uuid":"u",` + stamp + `,"type":"tool_result","message":{"role":"user","parts":[{"functionResponse":{"id":"c0","name":"run_shell_command"}}]},"toolCallResult":{"executionStatus":"error"}}`, []Use{{ID: "c0", Ended: true}}},
		"one that never began":  {"qwen", `{"uuid":"u",` + stamp + `,"type":"tool_result","message":{"role":"user","parts":[{"functionResponse":{"id":"c2","name":"nonsense"}}]},"toolCallResult":{"executionStatus":"not_started"}}`, []Use{{ID: "c2", Ended: true, Refused: true}}},
		"figures of qwen":       {"qwen", `{"uuid":"u",` + stamp + `,"type":"system","subtype":"ui_telemetry","systemPayload":{"uiEvent":{"call_id":"c0"}}}`, nil},
		"a call of copilot":     {"copilot-cli", `{"type":"tool.execution_start","data":{"toolCallId":"c0","toolName":"bash","arguments":{"command":"ls","description":"x"}},` + stamp + `}`, []Use{{ID: "c0", Tool: Shell, What: "ls"}}},
		"its end":               {"copilot-cli", `{"type":"tool.execution_complete","data":{"toolCallId":"c0","success":false},` + stamp + `}`, []Use{{ID: "c0", Ended: true}}},
		"a tool without a name": {"copilot-cli", `{"type":"tool.execution_start","data":{"toolCallId":"c0","toolName":"report_intent","arguments":{}},` + stamp + `}`, nil},
		"a step of opencode":    {"opencode", `{"snapshot":"4b825d","type":"step-start"}`, []Use{{Begun: true}}},
		"a call of opencode": {"opencode", opencode(`"bash"`, `"status":"completed","input":{"command":"ls","description":"x"},"output":"a","time":{"start":1772366400500,"end":1772366400900}`),
			[]Use{{ID: "c0", Tool: Shell, What: "ls"}, {ID: "c0", Ended: true}}},
		"one that failed":              {"opencode", opencode(`"write"`, `"status":"error","input":{"filePath":"/x","content":"q"},"error":"no","time":{"start":1772366400500}`), []Use{{ID: "c0", Tool: Write, What: "/x"}, {ID: "c0", Ended: true}}},
		"one that runs":                {"opencode", opencode(`"bash"`, `"status":"running","input":{"command":"ls"},"time":{"start":1772366400500}`), []Use{{ID: "c0", Tool: Shell, What: "ls"}}},
		"one that is written":          {"opencode", opencode(`"bash"`, `"status":"pending","input":{},"raw":"{"`), nil},
		"one that was aborted before":  {"opencode", opencode(`"bash"`, `"status":"error","input":{ },"error":"Tool execution aborted"`), nil},
		"one of another conversation":  {"opencode", opencode(`"bash"`, `"status":"completed","input":{"command":"ls"},"time":{"start":1772366399999}`), nil},
		"a tool that opencode has not": {"opencode", opencode(`"invalid"`, `"status":"completed","input":{"tool":"nonsense"}`), nil},
		"words of opencode":            {"opencode", `{"type":"text","text":"hello"}`, nil},
		"words of copilot":             {"copilot-cli", `{"type":"assistant.message","data":{"toolRequests":[{"toolCallId":"c0"}]},` + stamp + `}`, nil},
	} {
		got, err := Of(tt.agent).Uses([]byte(tt.line), since)
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, tt.want)
		}
	}
	for _, garbage := range []string{``, `{`, `[]`, `{"type":1}`, `{"type":"user","type":"assistant"}`, claude("assistant", `["x"]`), claude("assistant", `[{"type":"tool_use","id":7}]`)} {
		if got, err := Of("claude-code").Uses([]byte(garbage), since); err == nil {
			t.Errorf("%s: %+v", garbage, got)
		}
	}
}

// Where Claude Code has added a reminder of its own to a result, the result is what its hook is told.
func TestReminderOfClaude(t *testing.T) {
	const told = `{"type":"text","file":{"content":""}}`
	for name, tt := range map[string]struct{ content, rest, want string }{
		"a file":            {`"milk"`, `,"toolUseResult":` + told, `"milk"`},
		"an empty file":     {`"<system-reminder>Warning: the file is empty.</system-reminder>"`, `,"toolUseResult":` + told, told},
		"nothing told":      {`"<system-reminder>"`, ``, `"<system-reminder>"`},
		"a reminder within": {`[{"type":"text","text":"milk\n<system-reminder>"}]`, `,"toolUseResult":` + told, told},
	} {
		line := `{"type":"user","message":{"role":"user","content":[{"tool_use_id":"d","type":"tool_result","content":` + tt.content + `}]}` + tt.rest + `}`
		got, err := Of("claude-code").Reports([]byte(line))
		if err != nil || len(got) != 1 || string(got[0].Result) != tt.want {
			t.Errorf("%s: %+v, %v; want %s", name, got, err, tt.want)
		}
	}
}

// Which files are transcripts, and which one an event is in.
func TestTranscriptOf(t *testing.T) {
	for _, tt := range []struct {
		agent, name string
		is          bool
	}{
		{"claude-code", "p/s.jsonl", true}, {"claude-code", "p/s/subagents/a.jsonl", true}, {"claude-code", "p/s.txt", false},
		{"gemini", "shop/chats/session-2026-11-29T13-06-e4fe196b.jsonl", true}, {"gemini", "shop/chats/e4fe196b/agent.jsonl", false}, {"gemini", "shop/logs.jsonl", false},
		{"qwen", "-home-shop/chats/25928.jsonl", true}, {"qwen", "-home-shop/other/25928.jsonl", false},
		{"copilot-cli", "8663/events.jsonl", true}, {"copilot-cli", "8663/files/events.jsonl", false}, {"copilot-cli", "8663/other.jsonl", false},
		{"opencode", "opencode.db", true}, {"opencode", "opencode.db-wal", false}, {"opencode", "snapshot/opencode.db", false},
	} {
		if got := Of(tt.agent).Transcript.Is(tt.name); got != tt.is {
			t.Errorf("%s: %s is a transcript: %v", tt.agent, tt.name, got)
		}
	}
	for _, tt := range []struct {
		agent, folder string
		may           bool
	}{
		{"claude-code", "p/s/subagents", true}, {"gemini", "shop/chats", true}, {"gemini", "shop/chats/more", false}, {"copilot-cli", "8663", true}, {"copilot-cli", "8663/files", false}, {"opencode", "snapshot", false},
	} {
		if got := Of(tt.agent).Transcript.MayHave(tt.folder); got != tt.may {
			t.Errorf("%s: %s may have transcripts: %v", tt.agent, tt.folder, got)
		}
	}
	for agent, want := range map[string][2]string{"opencode": {"/all/opencode.db", "/there"}, "claude-code": {"", "/there"}, "gemini": {"", "/there"}, "copilot-cli": {"/all/s/events.jsonl", "/there"}} {
		of := Of(agent).Transcript
		if got := [2]string{of.Of(&Event{Session: "s"}, "/all"), of.Of(&Event{Session: "s", Transcript: "/there"}, "/all")}; got != want {
			t.Errorf("%s: %q, want %q", agent, got, want)
		}
	}
}

// The event of the canary is one that the agent could report, and only a denial is taken for one.
func TestCanaryEvent(t *testing.T) {
	for i := range contracts {
		c := &contracts[i]
		if c.Judging() == "" {
			continue
		}
		e, err := c.Read(c.CanaryEvent("true canary"))
		if err != nil || e.Kind != Before {
			t.Errorf("%s: %+v, %v", c.Agent, e, err)
			continue
		}
		call, err := c.Call(e)
		if err != nil || call.Tool != Shell || !strings.Contains(string(call.Arguments), `"command":"true canary"`) {
			t.Errorf("%s: %+v, %v", c.Agent, call, err)
		}
		if !c.Denies(c.Deny(e, "no")) || !c.Denies(Refuse("no")) {
			t.Errorf("%s: a denial does not deny", c.Agent)
		}
		changed, _ := c.Change(e, []byte(`{}`))
		for _, o := range []Output{{}, {Status: 1}, {Stdout: []byte("deny")}, {Stdout: []byte(`{"a":"deny"}`)}, changed, c.Pass(e, "")} {
			if c.Denies(o) {
				t.Errorf("%s: %+v denies", c.Agent, o)
			}
		}
	}
}
