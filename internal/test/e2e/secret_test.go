package e2e

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// planted is a secret as the rules know them, and hidden one that only the
// configuration names.
const (
	planted = "ghp_Zt3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY2zA4"
	hidden  = "correct-horse-battery-7"
)

// runLeaker is a server that says the secret wherever it can.
func runLeaker() int {
	secret := os.Args[len(os.Args)-1]
	fmt.Fprintln(os.Stderr, "leaker: starting with "+secret)
	out := json.NewEncoder(os.Stdout)
	say := func(member string, id any, value any) {
		_ = out.Encode(map[string]any{"jsonrpc": "2.0", "id": id, member: value})
	}
	tell := func(method string, params any) {
		_ = out.Encode(map[string]any{"jsonrpc": "2.0", "method": method, "params": params})
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for asked := 0; lines.Scan(); {
		var m struct {
			ID     any
			Method string
			Params struct {
				Name string
				Meta struct{ ProgressToken any } `json:"_meta"`
			}
		}
		if json.Unmarshal(lines.Bytes(), &m) != nil || m.Method == "" || m.ID == nil {
			continue
		}
		switch m.Method {
		case "initialize":
			say("result", m.ID, map[string]any{"protocolVersion": "2025-11-25", "serverInfo": map[string]any{"name": "leaker", "version": "1"},
				"capabilities": map[string]any{"tools": struct{}{}, "logging": struct{}{}}})
		case "tools/list":
			var tools []any
			for _, name := range []string{"write_leak", "fail_leak", "ask_leak"} {
				tools = append(tools, map[string]any{"name": name, "inputSchema": map[string]any{"type": "object"}})
			}
			say("result", m.ID, map[string]any{"tools": tools})
		case "tools/call":
			fmt.Fprintln(os.Stderr, "leaker: called with "+secret)
			tell("notifications/message", map[string]any{"level": "info", "data": "the token is " + secret})
			if m.Params.Meta.ProgressToken != nil {
				tell("notifications/progress", map[string]any{"progressToken": m.Params.Meta.ProgressToken, "progress": 1, "message": secret})
			}
			switch m.Params.Name {
			case "fail_leak":
				say("error", m.ID, map[string]any{"code": -32050, "message": "refused by " + secret, "data": map[string]any{"token": secret}})
				continue
			case "ask_leak":
				asked++
				_ = out.Encode(map[string]any{"jsonrpc": "2.0", "id": fmt.Sprint("ask-", asked), "method": "elicitation/create", "params": map[string]any{
					"mode": "form", "message": "is this yours: " + secret, "requestedSchema": map[string]any{"type": "object", "properties": map[string]any{"a": map[string]any{"type": "string"}}}}})
			}
			say("result", m.ID, map[string]any{"content": []any{map[string]any{"type": "text", "text": "it is " + secret}}, "structuredContent": map[string]any{"token": secret}})
		default:
			say("error", m.ID, map[string]any{"code": -32601, "message": "no " + secret})
		}
	}
	return 0
}

// A secret that takes every path there is is found nowhere once the questions are
// decided: not in what the daemon keeps, not in what it logs or hands on, in
// whatever form.
func TestSecretIsFoundNowhere(t *testing.T) {
	for _, values := range []string{"none", "redacted", "full"} {
		t.Run(values, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t)
			h.rules(`schema: 1
governance:
  rules:
    - {match: "*", method: "elicitation/create", action: approve}
    - {match: "https://*", method: "resources/read", action: approve}
    - {match: "write_*", action: approve}
approval: {you: {destination: {type: local}, timeout: 5m, redact_fields: ["quiet"]}}
audit: {values: ` + values + `}
`)
			h.write("work/.thoughtgate.yaml", "schema: 1\ngovernance: {rules: [{match: \""+planted+"\", action: deny}]}\n", 0o600)
			h.write("editor.sh", `sed -i "s/EDITME/$SECRET/" "$1"`, 0o700)
			leaker := entry{Command: testBinary(t), Args: []string{"--token", planted}, Env: map[string]string{roleVar: "leaker", "API_TOKEN": planted}}
			config := h.servers(0o600, map[string]entry{"one": h.fakeServer("one"), "two": leaker})
			h.startDaemon()
			leak(t, h, config)
			mail := h.tgctl("audit", "list", "--json", "--limit", "0") + h.tgctl("approvals", "list", "--all", "--json") +
				h.tgctl("grants", "--all", "--json") + h.tgctl("status", "--json") + h.tgctl("servers", "--json")
			for _, format := range []string{"jsonl", "ocsf"} {
				h.tgctl("audit", "export", "--format", format, "-o", h.path("export."+format))
			}
			h.tgctl("audit", "report", "-o", h.path("report.html"))
			h.write("shown", mail, 0o600)
			search(t, h, values, "while the daemon runs")
			h.stopDaemon()
			h.startDaemon()
			h.stopDaemon()
			search(t, h, values, "after a restart")
		})
	}
}

// leak sends the secret along every path.
func leak(t *testing.T, h *fixture, config string) {
	a := h.wrap(config)
	ask := func(o order, answer ...string) {
		t.Helper()
		_, result := a.begin(o)
		q := h.question()
		r := h.run([]string{"EDITOR=sh " + h.path("editor.sh"), "SECRET=" + planted}, "tgctl", append([]string{"approvals", answer[0], q.ID}, answer[1:]...)...)
		if r.code != 0 {
			t.Errorf("%q: %s", answer, r.stderr)
		}
		a.await(result, o.Tool)
	}
	write := func(name string) order {
		return order{Server: "one", Tool: "write_note", Arguments: map[string]any{"name": name, "text": "my token is " + planted, "quiet": hidden}}
	}
	ask(write("approved"), "approve", "--note", "fine, it is "+planted)
	ask(write("denied"), "deny", "--reason", "never send "+planted)
	ask(write("granted"), "approve", "--for", "1h", "--match", "arg=text")
	ask(order{Server: "one", Tool: "write_note", Arguments: map[string]any{"name": "edited", "text": "EDITME"}}, "approve", "--edit")
	a.call("one", "read_note", map[string]any{"name": "approved"})
	a.call("one", "delete_note", map[string]any{"name": planted})
	a.call("one", planted, map[string]any{})
	a.call("two", "fail_leak", nil)
	ask(order{Server: "two", Tool: "ask_leak", Arguments: map[string]any{"x": planted}}, "approve")
	ask(order{Server: "two", Tool: "write_leak", Arguments: map[string]any{planted: planted}}, "approve")
	for _, server := range []string{"one", "two"} {
		_, listed := a.begin(order{Server: server})
		a.await(listed, "the tools of "+server)
	}
	// One is taken back.
	id, result := a.begin(order{Server: "two", Tool: "write_leak", Arguments: map[string]any{"token": planted, "quiet": hidden}})
	h.question()
	a.begin(order{Cancel: id})
	a.await(result, "the call that was taken back")
	eventually(func() bool { return len(h.questions()) == 0 }, patience)
	a.leave()

	// What no client would send.
	h.shimLog = h.path("shim.log")
	s := h.shim(testBinary(t), planted)
	s.write(initialize)
	s.errorCode()
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + planted + `"},"id":2}`,
		`{"jsonrpc":"2.0","id":3,"method":"` + planted + `"}`,
		`{"jsonrpc":"2.0","id":"` + planted + `","method":"resources/read","params":{"uri":"https://x.example/?token=` + planted + `"}}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"echo","arguments":"` + planted + `"}}`,
		planted,
	} {
		s.write(line)
	}
	h.question() // about the page: the parent of a shim can't answer, but take back
	for _, id := range []string{"77", `"` + planted + `"`} {
		s.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `,"reason":"` + planted + `"}}`)
	}
	s.write(`{"jsonrpc":"2.0","id":99,"method":"ping"}`)
	for answered := false; !answered; {
		select {
		case line := <-s.lines:
			answered = strings.Contains(line, `"id":99`)
		case <-time.After(patience):
			t.Fatal("a ping is not answered")
		}
	}
	s.stdin.Close()
	s.wait(t)
}

// forms are how a secret may stand in a file.
func forms(secret string) map[string][]byte {
	all := map[string][]byte{"as it is": []byte(secret), "in hex": []byte(hex.EncodeToString([]byte(secret))), "in HEX": []byte(strings.ToUpper(hex.EncodeToString([]byte(secret))))}
	for shift := range 3 {
		// Only what does not depend on what stands around it.
		text := base64.RawStdEncoding.EncodeToString(append(make([]byte, shift), secret...))
		all[fmt.Sprint("in base64, ", shift)] = []byte(text[(shift*8+5)/6 : len(text)-2])
	}
	var escaped, utf16 []byte
	for _, c := range []byte(secret) {
		escaped = fmt.Appendf(escaped, `\u%04x`, c)
		utf16 = append(utf16, c, 0)
	}
	all["escaped"], all["in UTF-16"] = escaped, utf16
	return all
}

// search looks for the secrets in every file that ThoughtGate has written.
func search(t *testing.T, h *fixture, values, when string) {
	t.Helper()
	ours := 0
	err := filepath.WalkDir(h.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, h.root+"/")
		first, _, _ := strings.Cut(name, "/")
		switch first {
		case "bin", "home", "config", "work":
			return nil // programs, and what people and agents wrote
		}
		if name == "editor.sh" || strings.HasSuffix(name, ".sock") || strings.HasPrefix(name, "one.log") {
			return nil
		}
		ours++
		raw, err := os.ReadFile(path)
		for _, secret := range []string{planted, hidden} {
			for form, bytesOf := range forms(secret) {
				for rest := raw; ; {
					at := bytes.Index(rest, bytesOf)
					if at < 0 {
						break
					}
					from := len(raw) - len(rest) + at
					line := raw[bytes.LastIndexByte(raw[:from], '\n')+1:]
					line, _, _ = bytes.Cut(line, []byte("\n"))
					// Whoever configures full wants the arguments as they were, but for
					// what the workflow withholds: there, and nowhere else.
					kept := values == "full" && secret == planted && bytes.HasPrefix(line, []byte(`{"values":`)) &&
						(strings.HasSuffix(name, ".jsonl") || name == "shown")
					if rest = rest[at+len(bytesOf):]; kept {
						continue
					}
					t.Errorf("%s: %s holds a secret %s: %.300q", when, name, form, line)
				}
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if ours < 8 {
		t.Errorf("only %d files were looked at", ours)
	}
}
