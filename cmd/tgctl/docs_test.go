package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/internal/test/golden"
)

// documented is the page whose commands are run. With -update their outputs are
// rewritten.
const documented = "../../docs/policies.md"

// aDay is the script of an agent that runs before a block of the kind `console recorded`.
const aDay = `call notes write_note {"name": "plan", "text": "ship it"}
call notes read_note {"name": "plan"}
call notes delete_note {"name": "plan"}
call notes write_note {"name": "plan", "text": "ship nothing"}
`

// dayRules are the rules in force for that agent.
const dayRules = `schema: 1
governance:
  rules:
    - {match: "delete_*", action: deny}
`

// varying lists what differs from run to run, and what the page has instead.
var varying = []struct {
	is   *regexp.Regexp
	text string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4}`), "2026-11-20 09:14:36 +0100"},
	{regexp.MustCompile(`record \d+`), "record 11"},
	{regexp.MustCompile(`records \d+ to \d+`), "records 7 to 12"},
}

// The real programs print what the documentation says. A block runs in its own home, with
// the last configuration above it and the named files of the blocks above it.
func TestDocumentedCommands(t *testing.T) {
	page, err := os.ReadFile(documented)
	if err != nil {
		t.Fatal(err)
	}
	bin, err := builtPrograms()
	if err != nil {
		t.Fatal(err)
	}
	var yaml, cedar string
	files := map[string]string{}
	ran := 0
	fence := regexp.MustCompile("(?ms)^```([a-z]+)(?: ([^\n]+))?\n(.*?)^```$")
	now := fence.ReplaceAllStringFunc(string(page), func(block string) string {
		m := fence.FindStringSubmatch(block)
		kind, name, text := m[1], m[2], m[3]
		switch {
		case kind == "yaml" && name == "":
			yaml, cedar = text, ""
		case kind == "cedar":
			cedar += text
		case kind == "yaml", kind == "jsonl":
			files[name] = text
		case kind == "console":
			ran++
			s := newSandbox(t, bin, yaml, cedar, files)
			if name == "recorded" {
				s.liveADay(t)
			}
			return strings.Replace(block, text, s.session(t, text), 1)
		}
		return block
	})
	if ran < 3 {
		t.Errorf("ran %d blocks: is this the right page?", ran)
	}
	if *golden.Update {
		if err := os.WriteFile(documented, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(page), now); diff != "" && !*golden.Update {
		t.Errorf("the commands print something else; if that is meant, run with -update (-page +now):\n%s", diff)
	}
}

// sandbox is a home in which commands run.
type sandbox struct {
	home, work, bin string
}

func newSandbox(t *testing.T, bin, yaml, cedar string, files map[string]string) *sandbox {
	t.Helper()
	home := consoletest.ShortDir(t)
	s := &sandbox{home: home, work: filepath.Join(home, "trial"), bin: bin}
	all := map[string]string{filepath.Join(home, ".config/thoughtgate/thoughtgate.yaml"): yaml}
	if cedar != "" {
		all[filepath.Join(home, ".config/thoughtgate/policies/policies.cedar")] = cedar
	}
	for name, text := range files {
		if !strings.HasPrefix(name, ".") { // a project's file would apply to the samples
			all[filepath.Join(s.work, name)] = text
		}
	}
	for _, dir := range []string{filepath.Join(home, "run"), s.work} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range all {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// run runs a line of shell and returns what it printed.
func (s *sandbox) run(t *testing.T, line string) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = s.work
	cmd.Env = []string{"HOME=" + s.home, "XDG_RUNTIME_DIR=" + filepath.Join(s.home, "run"), "PATH=" + s.bin + ":" + os.Getenv("PATH")}
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || said.Len() > 0 {
		t.Errorf("%s: %v: %s", line, err, said.String())
	}
	return out.String()
}

// session runs the commands of a block and returns the block with their actual output.
func (s *sandbox) session(t *testing.T, text string) string {
	t.Helper()
	var b strings.Builder
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		command, ok := strings.CutPrefix(line, "$ ")
		if !ok {
			continue
		}
		if _, err := exec.LookPath("jq"); err != nil && strings.Contains(command, "| jq ") {
			t.Skip("jq is not here")
		}
		out := strings.ReplaceAll(s.run(t, command), s.home, "/home/ann")
		for _, v := range varying {
			out = v.is.ReplaceAllString(out, v.text)
		}
		b.WriteString(line + "\n" + out)
	}
	return b.String()
}

// liveADay runs the agent that produces the records, and leaves the daemon running until
// the test ends.
func (s *sandbox) liveADay(t *testing.T) {
	t.Helper()
	for name, text := range map[string]string{
		"mcp.json": `{"mcpServers": {"notes": {"command": "fake-server"}}}`, "script.txt": aDay, "day.yaml": dayRules,
	} {
		if err := os.WriteFile(filepath.Join(s.work, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.run(t, "cp day.yaml ~/.config/thoughtgate/thoughtgate.yaml; tgctl daemon start 2>/dev/null; "+
		"tgctl wrap --agent-type custom --config-path mcp.json -- fake-agent mcp.json script.txt >/dev/null 2>&1")
	t.Cleanup(func() {
		s.run(t, "tgctl daemon stop 2>/dev/null")
		nothingLeft(t, s.home)
	})
}
