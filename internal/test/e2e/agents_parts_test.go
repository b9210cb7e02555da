package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// What the tests with real agents are made of.

// watchedServer is a fake server that notes who started it.
func (h *fixture) watchedServer(name string) entry {
	e := h.fakeServer(name)
	e.Env[parentsVar] = h.path("parents")
	return e
}

// claudeList is a state file with two servers, which Claude Code writes to.
func (h *fixture) claudeList() string {
	h.t.Helper()
	return h.write("home/.claude.json", fmt.Sprintf("{\n  \"numStartups\": 0,\n  \"mcpServers\": {\"one\": %s, \"two\": %s}\n}", h.text(h.watchedServer("one")), h.text(h.watchedServer("two"))), 0o600)
}

// listed writes a file with servers under mcpServers, in a hand of its own.
func (h *fixture) listed(name string, servers ...string) string {
	h.t.Helper()
	var b strings.Builder
	b.WriteString("{\n   \"mcpServers\" : {")
	for i, server := range servers {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, "\n\t\t%q:  %s", server, h.text(h.watchedServer(server)))
	}
	b.WriteString("\n   }\n}")
	return h.write(name, b.String(), 0o640)
}

// opencodeConfig is a server of the user's own, and a second one that a project
// turns off. What a project has a part in, and is on, would wait for a person.
func (h *fixture) opencodeConfig() []string {
	h.t.Helper()
	one, two := h.watchedServer("one"), h.watchedServer("two")
	command := func(e entry) string { return h.text(append([]string{e.Command}, e.Args...)) }
	const schema = "\"$schema\": \"https://opencode.ai/config.json\"" // it would add it
	return []string{
		h.write("config/opencode/opencode.json", fmt.Sprintf("{ %s,\n\"mcp\": {\n // the user's\n\"one\": {\"type\": \"local\", \"command\": %s, \"environment\": %s},\n"+
			"\"two\": {\"type\": \"local\", \"command\": %s}, } }\n", schema, command(one), h.text(one.Env), command(two)), 0o600),
		h.write("work/opencode.jsonc", fmt.Sprintf("{ %s, \"mcp\": { \"two\": {\"enabled\": false} } }", schema), 0o644),
	}
}

// codexConfig is a server in TOML.
func (h *fixture) codexConfig() []string {
	h.t.Helper()
	one := h.watchedServer("one")
	var env []string
	for name, value := range one.Env {
		env = append(env, fmt.Sprintf("%s = %q", name, value))
	}
	return []string{h.write("home/.codex/config.toml", fmt.Sprintf("# by hand\nmodel = \"m\"\n\n[mcp_servers.one]\ncommand = %q # ours\nargs = [%q]\nenv = { %s }\n",
		one.Command, one.Args[0], strings.Join(env, ", ")), 0o600)}
}

func (h *fixture) text(v any) string {
	h.t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		h.t.Fatal(err)
	}
	return string(text)
}

// watched keeps what is written to it, and tells when something was.
type watched struct {
	until []byte
	seen  chan struct{} // closed when until was written

	mu   sync.Mutex // guards what follows
	text bytes.Buffer
	told bool
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.text.Write(p)
	if !w.told && len(w.until) > 0 && bytes.Contains(w.text.Bytes(), w.until) {
		w.told = true
		close(w.seen)
	}
	return n, err
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// answerAtOnce is a model that says hello to everything, in both ways that the
// OpenAI API has.
func answerAtOnce(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	if r.Method == http.MethodGet {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"m","object":"model"}]}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if strings.HasSuffix(r.URL.Path, "/responses") {
		for _, event := range []string{
			`{"type":"response.created","response":{"id":"r"}}`,
			`{"type":"response.output_item.done","item":{"type":"message","role":"assistant","id":"m","content":[{"type":"output_text","text":"hello"}]}}`,
			`{"type":"response.completed","response":{"id":"r","usage":{"input_tokens":1,"input_tokens_details":null,"output_tokens":1,"output_tokens_details":null,"total_tokens":2}}}`,
		} {
			_, _ = fmt.Fprintf(w, "data: %s\n\n", event)
		}
		return
	}
	for _, choice := range []string{`{"index":0,"delta":{"role":"assistant","content":"hello"},"finish_reason":null}`, `{"index":0,"delta":{},"finish_reason":"stop"}`} {
		_, _ = fmt.Fprintf(w, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[%s]}\n\n", choice)
	}
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}
