package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// hookRules deny what an agent writes with a tool of its own, and nothing else.
const hookRules = `schema: 1
governance:
  defaults: {action: forward}
  rules: [{match: write, source: agent, action: deny, description: "nothing is written here"}]
pins: {mode: off}
`

// toolUser is a model that uses each of a list of tools in turn, and keeps what it is told of
// them.
type toolUser struct {
	*httptest.Server
	uses []toolUse
	told []string // bodies of the requests, the latest last
}

type toolUse struct {
	name  string
	input any
}

// newClaudeModel returns a model for Claude Code.
func newClaudeModel(t *testing.T, uses ...toolUse) *toolUser {
	m := &toolUser{uses: uses}
	m.Server = httptest.NewServer(http.HandlerFunc(m.claude))
	t.Cleanup(m.Close)
	return m
}

func (m *toolUser) claude(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Messages []struct{ Content json.RawMessage }
		Tools    []json.RawMessage
	}
	if !strings.HasSuffix(r.URL.Path, "/messages") || json.NewDecoder(r.Body).Decode(&ask) != nil {
		http.NotFound(w, r)
		return
	}
	var all strings.Builder
	for _, message := range ask.Messages {
		all.Write(message.Content)
	}
	done := strings.Count(all.String(), `"tool_result"`)
	w.Header().Set("Content-Type", "text/event-stream")
	event := func(kind, data string) { fmt.Fprintf(w, "event: %s\ndata: {\"type\":%q%s}\n\n", kind, kind, data) }
	event("message_start", `,"message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":1,"output_tokens":1}}`)
	reason := "end_turn"
	if len(ask.Tools) > 0 && done < len(m.uses) {
		reason = "tool_use"
		input, _ := json.Marshal(m.uses[done].input)
		part, _ := json.Marshal(string(input))
		event("content_block_start", fmt.Sprintf(`,"index":0,"content_block":{"type":"tool_use","id":"toolu_%d","name":%q,"input":{}}`, done, m.uses[done].name))
		event("content_block_delta", fmt.Sprintf(`,"index":0,"delta":{"type":"input_json_delta","partial_json":%s}`, part))
	} else {
		if len(ask.Tools) > 0 {
			m.told = append(m.told, all.String())
		}
		event("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`)
		event("content_block_delta", `,"index":0,"delta":{"type":"text_delta","text":"all done"}`)
	}
	event("content_block_stop", `,"index":0`)
	event("message_delta", fmt.Sprintf(`,"delta":{"stop_reason":%q},"usage":{"output_tokens":1}`, reason))
	event("message_stop", "")
}

// runClaude runs Claude Code with a model, which has it run a command and write a file. It returns
// which of both happened, and what the model was told.
func (h *fixture) runClaude(name string, argv ...string) (ran, wrote bool, told string) {
	h.t.Helper()
	touched, written := h.path("work", name+"-ran"), h.path("work", name+"-wrote")
	model := newClaudeModel(h.t, toolUse{"Bash", map[string]any{"command": "echo hello > " + touched, "description": "says hello"}},
		toolUse{"Write", map[string]any{"file_path": written, "content": "hello"}})
	cmd := exec.Command(argv[0], append(argv[1:], "-p", "--allowedTools", "Bash,Write", "--", "hello")...)
	cmd.Env = slices.Concat(h.env, offline, []string{"DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "ANTHROPIC_BASE_URL=" + model.URL, "ANTHROPIC_API_KEY=dummy"})
	cmd.Dir, cmd.WaitDelay = h.path("work"), 5*time.Second
	out := &watched{}
	cmd.Stdout, cmd.Stderr = out, out
	p := h.start(cmd)
	late := time.AfterFunc(agentPatience, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	<-p.ended
	if len(model.told) == 0 {
		h.t.Fatalf("claude did not come to an end:\n%s", out)
	}
	_, noRun := os.Stat(touched)
	_, noWrite := os.Stat(written)
	h.t.Logf("%s: %s", name, out)
	return noRun == nil, noWrite == nil, model.told[len(model.told)-1]
}

// TestClaudeHooks has Claude Code, as its makers publish it, use tools of its own: one that the
// rules forward, and one that they deny. Its contract is proven by this test.
func TestClaudeHooks(t *testing.T) {
	needProc(t)
	program := realAgents[slices.IndexFunc(realAgents, func(a realAgent) bool { return a.name == "claude" })].installed(t)
	t.Parallel()
	h := newFixture(t)
	h.rules(hookRules)
	claude := h.write("bin/claude", fmt.Sprintf("#!/bin/sh\nexec '%s' \"$@\"\n", program), 0o700)
	tgctl := filepath.Join(h.bin, "tgctl")
	settings := h.write("home/.claude/settings.json", "{\n  \"cleanupPeriodDays\": 30,\n  \"hooks\": {}\n}\n", 0o600)
	before := h.read("home/.claude/settings.json")
	h.startDaemon()
	want := func(name string, wantRun, wantWrite bool, words string, argv ...string) {
		t.Helper()
		ran, wrote, told := h.runClaude(name, argv...)
		if ran != wantRun || wrote != wantWrite || !strings.Contains(told, words) {
			t.Errorf("%s: ran a command: %v, wrote a file: %v; its model was told %s", name, ran, wrote, told)
		}
	}

	want("wrapped", true, false, "nothing is written here", tgctl, "wrap", "--", "claude")
	want("rewritten", true, false, "nothing is written here", tgctl, "wrap", "--rewrite", "--", "claude")
	if got := h.read("home/.claude/settings.json"); got != before {
		t.Errorf("%s is\n%s", settings, got)
	}
	h.tgctl("protect", "--yes", "claude-code")
	want("protected", true, false, "nothing is written here", claude)
	h.stopDaemon()
	want("alone", false, false, "tgctl daemon start", claude)
	h.startDaemon()
	h.tgctl("unprotect", "claude-code")
	want("released", true, true, "", claude)
	if got := h.read("home/.claude/settings.json"); got != before {
		t.Errorf("%s is\n%s", settings, got)
	}
	log := h.log()
	if n := count(log, "call", "shell", "forward"); n != 3 {
		t.Errorf("%d commands on record, want 3", n)
	}
	if n := count(log, "call", "write", "deny"); n != 3 {
		t.Errorf("%d denied writes on record, want 3", n)
	}
}
