package e2e

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/test/fake"
)

// offering is a fixture with an extension, which has tools and a model, that is
// installed and runs.
func offering(t *testing.T, rules string) *fixture {
	t.Helper()
	h := newFixture(t)
	h.rules(rules)
	h.startDaemon()
	folder := h.path("notes")
	extension := fake.Extension{Name: "notes", Program: testBinary(t), Permissions: []string{"tools", "providers"}, Manifest: "restart: {first: 10ms, most: 50ms}\n"}
	if err := extension.Write(folder); err != nil {
		t.Fatal(err)
	}
	h.tgctl("ext", "install", "--yes", folder)
	if !eventually(func() bool { return strings.Contains(h.tgctl("ext", "list"), "running") }, patience) {
		t.Fatalf("the extension does not run:\n%s", h.tgctl("ext", "show", "notes"))
	}
	return h
}

// tools is the entry that gives an agent the tools of the extension.
func (h *fixture) tools() entry {
	return entry{Command: h.path("bin/tg-shim"), Args: []string{"--extension", "notes"}, Env: map[string]string{"THOUGHTGATE_SOCKET": h.path("run/thoughtgate/shim.sock")}}
}

// TestExtensionTools: the official client lists and calls the tools of an extension
// through a real shim, beside a server that is wrapped, and what it calls is judged
// and on record like any other call.
func TestExtensionTools(t *testing.T) {
	t.Parallel()
	h := offering(t, `schema: 1
sampling: {provider: nobody/model}
governance:
  defaults: {action: forward}
  rules:
    - {match: env, source: ext-notes, action: deny, description: "what it runs with is nobody's business"}
`)
	if status := h.tgctl("status"); !strings.Contains(status, "sampling.provider is nobody/model, which is not available now") {
		t.Errorf("nobody is warned of a provider that is not there:\n%s", status)
	}
	if show := h.tgctl("ext", "show", "notes"); !strings.Contains(show, `"ext-notes": {"command": "`+h.path("bin/tg-shim")+`",`) || !strings.Contains(show, h.tools().Env["THOUGHTGATE_SOCKET"]) {
		t.Errorf("how to give it to an agent is not shown:\n%s", show)
	}
	config := h.servers(0o600, map[string]entry{"notes": h.tools(), "files": h.fakeServer("files")})
	before := h.read("work/mcp.json")
	a := h.wrap(config)
	_, list := a.begin(order{Server: "notes"})
	if tools := a.await(list, "tools/list").Tools; !slices.Contains(tools, "echo") || !slices.Contains(tools, "env") {
		t.Errorf("tools: %q", tools)
	}
	if ps := h.tgctl("ps", "--json"); !regexp.MustCompile(`"kind":"extension","name":"notes"[^}]*"clients":1,`).MatchString(ps) {
		t.Errorf("the extension is not shown with a client:\n%s", ps)
	}
	if r := a.call("notes", "echo", map[string]any{"say": "hi"}); r.IsError || r.Text != `{"say":"hi"}` {
		t.Errorf("echo: %+v", r)
	}
	if r := a.call("notes", "env", nil); !r.IsError || !strings.Contains(r.Text, "nobody's business") {
		t.Errorf("env: %+v", r)
	}
	if r := a.call("notes", "nothing", nil); !strings.Contains(r.Error, "Unknown tool: nothing") {
		t.Errorf("an unknown tool: %+v", r)
	}
	if r := a.call("files", "write_note", map[string]any{"name": "x", "text": "y"}); r.IsError || r.Error != "" {
		t.Errorf("the server beside it: %+v", r)
	}
	// The extension ends in the middle of a call, and is started again.
	if r := a.call("notes", "crash", nil); !r.IsError || !strings.Contains(r.Text, "Tool execution failed") {
		t.Errorf("crash: %+v", r)
	}
	if !eventually(func() bool { return a.call("notes", "echo", nil).Text == "{}" }, patience) {
		t.Error("the tools do not come back")
	}
	// The daemon goes, and with it the server that stood in it.
	h.killDaemon()
	h.startDaemon()
	if !eventually(func() bool { return a.call("notes", "echo", nil).Text == "{}" }, patience) {
		t.Error("the tools are gone with the daemon")
	}
	if code := a.leave(); code != 0 {
		t.Errorf("exit %d\n%s", code, a.talk())
	}
	if now := h.read("work/mcp.json"); now != before {
		t.Errorf("the configuration is now\n%s", now)
	}
	for _, want := range []struct{ tool, verdict string }{{"echo", "forward"}, {"env", "deny"}} {
		if !slices.ContainsFunc(h.log(), func(l logged) bool {
			return l.Kind == "call" && l.Server == "ext-notes" && l.Tool == want.tool && l.Verdict == want.verdict && l.Session != ""
		}) {
			t.Errorf("no record of %s: %s", want.tool, want.verdict)
		}
	}
}

// TestSampling: a server that asks a model gets its answer from the extension's,
// since the client has none.
func TestSampling(t *testing.T) {
	t.Parallel()
	h := offering(t, `schema: 1
sampling: {provider: notes/fake}
governance:
  defaults: {action: forward, asks: forward}
`)
	if warned := h.tgctl("status"); strings.Contains(warned, "sampling.provider") {
		t.Errorf("a provider that is there is warned of:\n%s", warned)
	}
	server := h.fakeServer("asker")
	server.Env["E2E_LEGACY"] = "1"
	a := h.wrap(h.servers(0o600, map[string]entry{"asker": server}))
	if r := a.call("asker", "ask_model", map[string]any{"prompt": "2+2"}); r.IsError || r.Text != "The model said: hello" {
		t.Errorf("ask_model: %+v", r)
	}
	if code := a.leave(); code != 0 {
		t.Errorf("exit %d\n%s", code, a.talk())
	}
	answered := 0
	for _, l := range h.log() {
		if l.Answerer == "notes/fake" && (l.Kind == "call" && l.Verdict == "forward" || l.Kind == "outcome" && l.Verdict == "ok") {
			answered++
		}
	}
	if answered != 2 {
		t.Errorf("%d records say who answered, want 2", answered)
	}
}
