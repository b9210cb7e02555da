package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
)

const suggestConfig = `schema: 1
governance:
  rules:
    - match: "write_*"
      action: approve
`

// What a person approves at a terminal three times is suggested, with what it would have done; it is put into the file as it
// was printed, and then such a call is forwarded, and another one still asks.
func TestSuggest(t *testing.T) {
	bin, env := presenceHome(t, suggestConfig)
	tgctl := func(args ...string) (string, error) {
		cmd := exec.Command(filepath.Join(bin, "tgctl"), args...)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	shop := filepath.Join(consoletest.ShortDir(t), "shop") // the project; what leads out of it is never suggested
	if err := os.Mkdir(shop, 0o700); err != nil {
		t.Fatal(err)
	}
	call := func(path string) string {
		return fmt.Sprintf(`call notes write_note {"path": %q}`, filepath.Join(shop, path))
	}
	wrap := func(lines ...string) (*exec.Cmd, *bytes.Buffer) {
		dir := consoletest.ShortDir(t)
		config, script := filepath.Join(dir, "mcp.json"), filepath.Join(dir, "script.txt")
		for path, text := range map[string]string{config: `{"mcpServers": {"notes": {"command": "fake-server"}}}`, script: strings.Join(lines, "\n") + "\n"} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command(filepath.Join(bin, "tgctl"), "wrap", "--agent-type", "custom", "--config-path", config, "--", "fake-agent", config, script)
		var out bytes.Buffer
		cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = env, shop, &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, &out
	}
	approve := func(id string, at func(args ...string) int) {
		t.Helper()
		eventuallyListed(t, tgctl, id)
		if code := at("approvals", "approve", id); code != 0 {
			t.Fatalf("approve %s: exit %d", id, code)
		}
	}
	atTerminal := func(args ...string) int { return atScreen(t, bin, env, args...).ends() }
	agent, said := wrap(call("notes/a"), call("notes/b"), call("notes/c"))
	for i := range 2 {
		approve(fmt.Sprint("A-", i+1), atTerminal)
	}
	approve("A-3", func(args ...string) int { // by a script, which does not count
		if _, err := tgctl(args...); err != nil {
			return 1
		}
		return 0
	})
	if err := agent.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	if out, err := tgctl("policy", "suggest"); err != nil || !strings.Contains(out, "Nothing is suggested") {
		t.Errorf("%v\n%s", err, out)
	}
	agent, said = wrap(call("notes/d"))
	approve("A-4", atTerminal)
	if err := agent.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	out, err := tgctl("policy", "suggest")
	t.Log(out)
	for _, text := range []string{
		"1. write_note of notes for custom: paths below " + shop + "/notes", "2. write_note of notes for custom: any arguments",
		"covers 3 questions that you approved", shop + `/notes/d"}`, "of 4 calls, 4 that were asked about would have been forwarded",
		"record 15 was asked about, too: approved by script", `above "write_*" (thoughtgate.yaml:4)`, "Nothing was changed.",
	} {
		if err != nil || !strings.Contains(out, text) {
			t.Errorf("%v, and it does not say %q", err, text)
		}
	}
	useSuggestion(t, env, out)
	if text, err := tgctl("daemon", "reload"); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	agent, said = wrap(call("notes/e"), call("other"))
	eventuallyListed(t, tgctl, "A-5")
	if shown, err := tgctl("approvals", "show", "A-5"); err != nil || !strings.Contains(shown, shop+"/other") {
		t.Errorf("%v\n%s", err, shown)
	}
	approve("A-5", atTerminal)
	if err := agent.Wait(); err != nil || strings.Count(said.String(), "write_note: error false") != 2 {
		t.Errorf("%v\n%s", err, said)
	}
}

// useSuggestion puts the first suggestion into the files, as a person would paste it.
func useSuggestion(t *testing.T, env []string, out string) {
	t.Helper()
	first, _, _ := strings.Cut(out, "\n2. ")
	found := regexp.MustCompile(`(?s)thoughtgate.yaml:4\):\n(.*?)   and in (\S+):\n(.*)`).FindStringSubmatch(first)
	if found == nil {
		t.Fatalf("no rule is printed:\n%s", first)
	}
	folder := filepath.Dir(filepath.Dir(found[2]))
	rules := strings.Replace(suggestConfig, "    - match: \"write_*\"\n", found[1]+"    - match: \"write_*\"\n", 1)
	if err := os.MkdirAll(filepath.Dir(found[2]), 0o700); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{filepath.Join(folder, "thoughtgate.yaml"): rules, found[2]: found[3]} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// eventuallyListed waits until a question waits.
func eventuallyListed(t *testing.T, tgctl func(args ...string) (string, error), id string) {
	t.Helper()
	await(t, id+" is asked", func() bool {
		list, err := tgctl("approvals")
		return err == nil && strings.Contains(list, id)
	})
}
