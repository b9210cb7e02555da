package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
)

// browserFake is the program that opens pages: it keeps the file that it is given, and how it was called.
const browserFake = `#!/bin/sh
printf '%%s %%s\n' "$#" "$*" >%[1]s/called
stat -c %%a "${1#file://}" >%[1]s/mode
cp "${1#file://}" %[1]s/copy && mv %[1]s/copy %[1]s/letter
`

// The command with a real daemon and a real agent: the file lets a browser in and is gone afterwards, the page
// can deny and, where the workflow does not list it, not approve.
func TestDashboard(t *testing.T) {
	bin, err := builtPrograms()
	if err != nil {
		t.Fatal(err)
	}
	h := &desktopFixture{tmuxFixture{t: t, dir: consoletest.ShortDir(t)}}
	t.Cleanup(func() { nothingLeft(t, h.dir) })
	h.env = []string{"PATH=" + strings.Join([]string{bin, h.dir, os.Getenv("PATH")}, string(os.PathListSeparator)), "LANG=C.UTF-8", "HOME=" + filepath.Join(h.dir, "home"),
		"XDG_CONFIG_HOME=" + filepath.Join(h.dir, "config"), "XDG_STATE_HOME=" + filepath.Join(h.dir, "state"), "XDG_RUNTIME_DIR=" + filepath.Join(h.dir, "run"), "GORACE=" + os.Getenv("GORACE")}
	for _, dir := range []string{"home", "state", "run"} {
		if err := os.MkdirAll(filepath.Join(h.dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	h.write("config/thoughtgate/thoughtgate.yaml", "schema: 1\ngovernance:\n  rules:\n    - {match: \"write_*\", action: approve}\n")
	h.write("mcp.json", `{"mcpServers": {"notes": {"command": "fake-server"}}}`)
	h.write("script.txt", "call notes write_note {\"name\": \"a\", \"text\": \"1\"}\n")
	h.write("xdg-open", strings.ReplaceAll(strings.ReplaceAll(browserFake, "%[1]s", h.dir), "%%", "%"))
	if err := os.Chmod(filepath.Join(h.dir, "xdg-open"), 0o755); err != nil {
		t.Fatal(err)
	}
	h.must("tgctl", "daemon", "start")
	t.Cleanup(func() { _ = h.command("tgctl", "daemon", "stop").Run() })
	refused := h.command("tgctl", "dashboard")
	refused.Env = append(refused.Env[:len(refused.Env):len(refused.Env)], "THOUGHTGATE_ACTIVE=1")
	if out, err := refused.CombinedOutput(); err == nil || !strings.Contains(string(out), "below a wrapped agent") {
		t.Errorf("below an agent: %v %s", err, out)
	}

	agent := h.begin(h.command("tgctl", "wrap", "--agent-type", "custom", "--config-path", "mcp.json", "--", "fake-agent", "mcp.json", "script.txt"))
	await(t, "a question", func() bool { return strings.Contains(h.must("tgctl", "approvals"), "A-1") })
	dashboard := h.command("tgctl", "dashboard")
	said := h.begin(dashboard)
	read := func(name string) string {
		text, _ := os.ReadFile(filepath.Join(h.dir, name))
		return string(text)
	}
	await(t, "the file in a browser", func() bool { return read("letter") != "" })
	part := func(pattern string) string {
		found := regexp.MustCompile(pattern).FindStringSubmatch(read("letter"))
		if found == nil {
			t.Fatalf("the file has no %s: %s", pattern, read("letter"))
		}
		return found[1]
	}
	base, pass := part(`action="(http://127\.0\.0\.1:\d+)/enter"`), part(`value="(\w{26})"`)
	if called := read("called"); !strings.HasPrefix(called, "1 file://") || strings.Contains(called, pass) || strings.TrimSpace(read("mode")) != "600" || strings.Contains(said.String(), pass) {
		t.Errorf("called with %q, mode %q, said %q", called, read("mode"), said)
	}
	jar, key := "", ""
	ask := func(method, path, kind, body string) (int, string) {
		r, err := http.NewRequest(method, base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Content-Type": {kind}, "Origin": {base}, "Cookie": {jar}, "Thoughtgate-Key": {key}}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range resp.Cookies() {
			jar = c.Name + "=" + c.Value
		}
		return resp.StatusCode, string(text)
	}
	code, text := ask("POST", "/enter", "application/x-www-form-urlencoded", url.Values{"pass": {pass}}.Encode())
	if found := regexp.MustCompile(`name="key" content="(\w+)"`).FindStringSubmatch(text); code == http.StatusOK && found != nil {
		key = found[1]
	}
	await(t, "the end of the file", func() bool {
		left, err := filepath.Glob(filepath.Join(h.dir, "run", "thoughtgate", "dashboard-*"))
		return err == nil && len(left) == 0
	})
	var q struct {
		Subject string
		Offer   struct{ Approve bool }
	}
	if code, text = ask("GET", "/api/question?id=A-1", "", ""); code != http.StatusOK || json.Unmarshal([]byte(text), &q) != nil || q.Offer.Approve {
		t.Fatalf("the question: %d %s", code, text)
	}
	for _, proof := range []string{"", "a wrong passphrase"} {
		if code, text = ask("POST", "/api/answer", "application/json", `{"id":"A-1","subject":"`+q.Subject+`","answer":"approve","proof":"`+proof+`"}`); code != http.StatusConflict || !strings.Contains(text, "tgctl") {
			t.Errorf("an approval with %q: %d %s", proof, code, text)
		}
	}
	if code, text = ask("POST", "/api/answer", "application/json", `{"id":"A-1","subject":"`+q.Subject+`","answer":"deny","note":"by the page"}`); code != http.StatusOK {
		t.Errorf("a denial: %d %s", code, text)
	}
	await(t, "the denial", func() bool { return strings.Contains(agent.String(), "by the page") })
	record := h.must("tgctl", "audit", "list", "--all", "--kind", "decision", "--json")
	if !strings.Contains(record, `"verdict":"rejected"`) || !strings.Contains(record, `"surface":"page"`) || strings.Contains(record, "approved") {
		t.Errorf("on record is %s", record)
	}
	if err := dashboard.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	await(t, "the end of the dashboard", func() bool {
		_, err := http.Get(base + "/")
		return err != nil
	})
}
