package e2e

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// The main job, as a person does it: a configuration with two real servers,
// wrapped; a read forwarded, a write denied, a call held and approved, another
// held and denied; and afterwards everything as it was, and on record.
func TestMainJob(t *testing.T) {
	files, everything := npmServer(t, "server-filesystem"), npmServer(t, "server-everything")
	t.Parallel()
	h := newFixture(t)
	h.rules(`schema: 1
governance:
  defaults: {action: forward}
  rules:
    - {match: "write_*", source: files, action: deny, description: "the tree is for reading"}
    - {match: "get-sum", source: every*, action: approve, description: "sums need a second pair of eyes"}
approval:
  you: {destination: {type: local}, timeout: 2m}
`)
	h.write("docs/hello.txt", "hello from a file", 0o600)
	config := h.servers(0o640, map[string]entry{
		"files":      {Command: "node", Args: []string{files, h.path("docs")}},
		"everything": {Command: "node", Args: []string{everything, "stdio", h.path()}, Env: map[string]string{"MARK": "kept"}},
	})
	before := h.read("work/mcp.json")

	h.startDaemon()
	a := h.wrap(config)

	if now := h.read("work/mcp.json"); !strings.Contains(now, h.bin+"/tg-shim") || now == before {
		t.Errorf("the configuration is not rewritten while the agent runs:\n%s", now)
	}
	wantMode(t, config, 0o640)

	_, list := a.begin(order{Server: "files"})
	if tools := a.await(list, "tools/list").Tools; !slices.Contains(tools, "read_text_file") || len(tools) < 10 {
		t.Errorf("tools of files: %q", tools)
	}
	read := a.call("files", "read_text_file", map[string]any{"path": h.path("docs/hello.txt")})
	if read.IsError || read.Error != "" || !strings.Contains(read.Text, "hello from a file") {
		t.Errorf("the read: %+v", read)
	}
	write := a.call("files", "write_file", map[string]any{"path": h.path("docs/new.txt"), "content": "x"})
	for _, want := range []string{`write_*`, "thoughtgate.yaml:5", "Not executed", "the tree is for reading"} {
		if !write.IsError || !strings.Contains(write.Text, want) {
			t.Errorf("the denied write is answered with %+v, which lacks %q", write, want)
		}
	}
	if _, err := os.Stat(h.path("docs/new.txt")); err == nil {
		t.Error("the denied write was executed")
	}

	_, held := a.begin(order{Server: "everything", Tool: "get-sum", Arguments: map[string]any{"a": 20, "b": 22}})
	q := h.question()
	if q.Tool != "get-sum" || q.Server != "everything" || !strings.Contains(q.Reason, "second pair of eyes") {
		t.Errorf("the question: %+v", q)
	}
	if shown := h.tgctl("approvals", "show", q.ID); !strings.Contains(shown, "get-sum") || !strings.Contains(shown, "22") {
		t.Errorf("approvals show:\n%s", shown)
	}
	// Others go on meanwhile.
	if echo := a.call("everything", "echo", map[string]any{"message": "still here"}); !strings.Contains(echo.Text, "still here") {
		t.Errorf("a call beside a held one: %+v", echo)
	}
	if out := h.tgctl("approvals", "approve", q.ID); !strings.Contains(out, "approved "+q.ID) {
		t.Errorf("approvals approve:\n%s", out)
	}
	if sum := a.await(held, "get-sum"); sum.IsError || !strings.Contains(sum.Text, "42") {
		t.Errorf("the approved call: %+v", sum)
	}

	_, held = a.begin(order{Server: "everything", Tool: "get-sum", Arguments: map[string]any{"a": 1, "b": 2}})
	q2 := h.question()
	h.tgctl("approvals", "deny", q2.ID, "--reason", "not on a Friday")
	if sum := a.await(held, "get-sum"); !sum.IsError || !strings.Contains(sum.Text, "not on a Friday") || !strings.Contains(sum.Text, "Not executed") {
		t.Errorf("the refused call: %+v", sum)
	}
	if r := h.run(nil, "tgctl", "approvals", "approve", q2.ID); r.code == 0 {
		t.Error("a question that was answered can be answered again")
	}

	if code := a.leave(); code != 0 {
		t.Errorf("wrap: exit %d\n%s", code, a.talk())
	}
	if after := h.read("work/mcp.json"); after != before {
		t.Errorf("the configuration is not as it was:\n%s\nbefore:\n%s", after, before)
	}
	wantMode(t, config, 0o640)
	wantOnly(t, h.path("work"), "mcp.json")

	if !eventually(func() bool { return count(h.log(), "session", "", "closed") == 1 }, patience) {
		t.Error("the end of the session is not on record")
	}
	log := h.log()
	for _, want := range []struct {
		kind, tool, verdict string
		n                   int
	}{
		{"call", "read_text_file", "forward", 1}, {"call", "write_file", "deny", 1}, {"call", "echo", "forward", 1},
		{"call", "get-sum", "hold", 2}, {"call", "get-sum", "forward", 1}, {"call", "get-sum", "deny", 1},
		{"decision", "", "approved", 1}, {"decision", "", "rejected", 1},
	} {
		if n := count(log, want.kind, want.tool, want.verdict); n != want.n {
			t.Errorf("the log has %d records of %s %s %s, want %d", n, want.kind, want.tool, want.verdict, want.n)
		}
	}
	if count(log, "session", "", "opened") != 1 || count(log, "attach", "", "") != 2 || count(log, "detach", "", "") != 2 {
		t.Errorf("the log lacks the session or its attachments: %+v", log)
	}
	for _, l := range log {
		if l.Tool == "write_file" && !strings.Contains(l.Rule, "thoughtgate.yaml:5") {
			t.Errorf("the denial is recorded without its rule: %+v", l)
		}
	}
}

func wantMode(t *testing.T, path string, want os.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != want {
		t.Errorf("%s has mode %04o, want %04o", path, got, want)
	}
}

// wantOnly fails if the folder holds anything but what is named.
func wantOnly(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains(names, e.Name()) {
			t.Errorf("%s is left in %s", e.Name(), dir)
		}
	}
}
