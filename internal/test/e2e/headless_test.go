package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestHeadlessAgent runs an agent as its makers publish it under tgctl run, with a
// model that wants a command executed: the agent asks for permission, a person gives
// it, and the agent's server was started through the shim.
func TestHeadlessAgent(t *testing.T) {
	needProc(t)
	opencode := realAgents[slices.IndexFunc(realAgents, func(a realAgent) bool { return a.name == "opencode" })]
	program := opencode.installed(t)
	t.Parallel()
	h := newFixture(t)
	provider := httptest.NewServer(http.HandlerFunc(wantsCommand))
	defer provider.Close()
	h.write("config/opencode/opencode.json", fmt.Sprintf(`{"$schema": "https://opencode.ai/config.json", "model": "x/m", "permission": {"bash": "ask"}, "provider": {"x": {
		"npm": "@ai-sdk/openai-compatible", "name": "x", "options": {"baseURL": %q, "apiKey": "k"}, "models": {"m": {"name": "m"}}}}}`, provider.URL+"/v1"), 0o600)
	one := h.watchedServer("one")
	h.rules("schema: 1\ngovernance: {rules: [{match: \"permission/*\", action: approve}]}\nagents: " + h.text(map[string]any{"coder": map[string]any{
		"command": []string{program, "acp"}, "protocol": "acp", "pass": []string{"XDG_CONFIG_HOME", "XDG_STATE_HOME"},
		"env":     variables(slices.Concat(opencode.env, offline)),
		"servers": map[string]any{"one": map[string]any{"command": append([]string{one.Command}, one.Args...), "env": one.Env}},
	}}) + "\n")
	h.startDaemon()
	cmd := exec.Command(filepath.Join(h.bin, "tgctl"), "run", "--timeout", "10m", "coder", "--", "say hello")
	cmd.Env, cmd.Dir = h.env, h.path("work")
	out, said := &watched{}, &watched{}
	cmd.Stdout, cmd.Stderr = out, said
	run := h.start(cmd)
	late := time.AfterFunc(agentPatience, func() { _ = cmd.Process.Kill() })
	defer late.Stop()

	over := func() bool {
		select {
		case <-run.ended:
			return true
		default:
			return false
		}
	}
	asked := func() bool {
		return slices.ContainsFunc(h.log(), func(l logged) bool { return l.Tool == "permission/execute" && l.Verdict == "hold" })
	}
	if !eventually(func() bool { return asked() || over() }, agentPatience) || !asked() {
		t.Fatalf("nobody was asked:\n%s\n%s", out, said)
	}
	h.tgctl("approvals", "approve", "A-1")
	<-run.ended
	if !strings.Contains(out.String(), "all done") || cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("exit %d:\n%s\n%s", cmd.ProcessState.ExitCode(), out, said)
	}
	log := h.log()
	if !slices.ContainsFunc(log, func(l logged) bool { return l.Kind == "attach" && l.Server == "one" }) {
		t.Errorf("its server was not started through the shim:\n%+v", log)
	}
	for starter := range strings.Lines(h.read("parents")) {
		if strings.TrimSpace(starter) != filepath.Join(h.bin, "tg-shim") {
			t.Errorf("a server was started by %s", starter)
		}
	}
}

// variables makes a mapping of NAME=value.
func variables(env []string) map[string]string {
	all := map[string]string{}
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		all[name] = value
	}
	return all
}

// wantsCommand is a model that has a command executed where it may, and then is done.
func wantsCommand(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Messages []struct{ Role string }
		Tools    []json.RawMessage
	}
	if r.Method == http.MethodGet || json.NewDecoder(r.Body).Decode(&ask) != nil || len(ask.Tools) == 0 ||
		ask.Messages[len(ask.Messages)-1].Role != "user" {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"all done"},"finish_reason":null}]}`+"\n\n"+
			`data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"c1","type":"function",`+
		`"function":{"name":"bash","arguments":"{\"command\":\"echo hello\",\"description\":\"says hello\"}"}}]},"finish_reason":null}]}`+"\n\n"+
		`data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`+"\n\ndata: [DONE]\n\n")
}
