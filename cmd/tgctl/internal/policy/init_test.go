package policy

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/internal/record"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// called returns a record of a call of a tool.
func called(seq uint64, server, tool string, facts ...string) *pb.AuditRecord {
	r := &record.Record{
		Seq: seq, Time: consoletest.Noon, Kind: record.KindCall, Direction: "agent_to_server", Method: "tools/call",
		Server: server, Tool: tool, Verdict: "forward", Facts: facts,
	}
	return &pb.AuditRecord{Seq: seq, Line: r.Append(nil)}
}

// consoleToInit returns a console in a home where Claude Code has servers, and a daemon that
// has recorded calls.
func consoleToInit(t *testing.T) (*consoletest.Daemon, *consoletest.Console, string) {
	t.Helper()
	f := consoletest.Start(t)
	f.Validate = &pb.ValidateResponse{}
	f.Records = []*pb.AuditRecord{
		called(1, "github", "create_issue", "sends"), called(2, "github", "delete_repo", "acts"), called(3, "github", "create_issue", "sends"),
		called(4, "files", "read_file"), called(5, "evil\x1b[2J\"]\n}: x", "no{u}\u202e"), called(6, "files", "with*star", "acts"),
		called(7, "gone", "run ${HOME}", "acts"),
	}
	home := t.TempDir()
	claude := `{"mcpServers": {
	  "github": {"command": "npx", "args": ["-y", "server", "--token", "hunter2"]},
	  "files": {"command": "/opt/bin/mcp-files", "args": ["/home/ana"]},
	  "idle": {"command": "tg-shim"}
	}}`
	if err := os.WriteFile(filepath.Join(home, ".claude.json"), []byte(claude), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(home)
	c := newConsole(f.Socket)
	c.Env["HOME"], c.Env["XDG_CONFIG_HOME"] = home, filepath.Join(home, "config")
	return f, c, filepath.Join(home, "config", "thoughtgate", "thoughtgate.yaml")
}

func TestPolicyInit(t *testing.T) {
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	f, c, path := consoleToInit(t)
	if code := c.Run(t, "policy", "init"); code != 0 {
		t.Fatalf("exit %d: %s", code, c.Err.String())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	home, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(wd) // where the golden files are
	consoletest.Golden(t, "policy-init", string(text))
	t.Chdir(home)
	if want := "wrote " + path + ": 5 servers, 6 recorded tools\nIt equals the built-in default."; !strings.HasPrefix(c.Out.String(), want) {
		t.Errorf("got %q, want %q", c.Out.String(), want)
	}
	if strings.Contains(string(text), "hunter2") {
		t.Error("an argument of a server is written down")
	}
	for name, mode := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if len(f.Validated) != 1 || f.Validated[0] != path {
		t.Errorf("checked %q", f.Validated)
	}

	// An existing file is never overwritten, not even through a link.
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused := func() {
		t.Helper()
		if code := c.Run(t, "policy", "init"); code != 1 || !strings.Contains(c.Err.String(), "already exists; nothing was written") {
			t.Errorf("exit %d: %s", code, c.Err.String())
		}
	}
	refused()
	if text, _ := os.ReadFile(path); string(text) != "mine" {
		t.Errorf("written over: %s", text)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(t.TempDir(), "x")
	if err := os.Symlink(elsewhere, path); err != nil {
		t.Fatal(err)
	}
	refused()
	if _, err := os.Stat(elsewhere); err == nil {
		t.Error("written through a link")
	}
	if code := c.Run(t, "policy", "init", "--print"); code != 0 || !strings.HasPrefix(c.Out.String(), "# What agents may do.") {
		t.Errorf("exit %d: %s", code, c.Err.String())
	}
	named := filepath.Join(t.TempDir(), "sub", "mine.yaml")
	c.Env["THOUGHTGATE_CONFIG"] = named
	if code := c.Run(t, "policy", "init"); code != 0 {
		t.Errorf("exit %d: %s", code, c.Err.String())
	}
	if _, err := os.Stat(named); err != nil {
		t.Error(err)
	}
}

// TestStarterIsTheDefault checks that the written file has the effect of the built-in default,
// and that each comment with configuration can be uncommented.
func TestStarterIsTheDefault(t *testing.T) {
	_, c, _ := consoleToInit(t)
	if code := c.Run(t, "policy", "init", "--print"); code != 0 {
		t.Fatalf("exit %d: %s", code, c.Err.String())
	}
	text := c.Out.String()
	parse := func(text string) *config.Config {
		t.Helper()
		cfg, problems := config.Parse("/x/thoughtgate.yaml", []byte(text), func(string) string { return "" })
		if len(problems) > 0 {
			t.Fatalf("%v\n%s", problems, text)
		}
		return cfg
	}
	rules := func(c *config.Config) string {
		var all []string
		for _, r := range c.Governance.Rules {
			all = append(all, fmt.Sprint(r.Match, r.When, r.Source, r.Agent, r.Method, r.Action, r.Approval, r.Description))
		}
		return strings.Join(all, "\n")
	}
	got, want := parse(text), config.Default()
	if rules(got) != rules(want) || got.Governance.Defaults != want.Governance.Defaults || got.Profile != want.Profile || got.Pins != want.Pins ||
		!reflect.DeepEqual(got.Cedar, want.Cedar) || got.Audit != want.Audit {
		t.Errorf("the starter holds\n%s\nand the default\n%s", rules(got), rules(want))
	}
	var on []string
	for line := range strings.SplitSeq(text, "\n") {
		for _, mark := range []string{"    # - ", "#   - ", "# sources:", "# approval:", "#   me:", "#     ", "# cedar:", "# audit:"} {
			if strings.HasPrefix(line, mark) && !strings.HasPrefix(line, "    #   ") {
				line = strings.Replace(line, "# ", "", 1)
				break
			}
		}
		on = append(on, line)
	}
	all := parse(strings.Join(on, "\n"))
	if len(all.Governance.Rules) != len(want.Governance.Rules)+6 || len(all.Sources) != 4 || all.Approval["me"] == nil {
		t.Errorf("switched on, it holds %d rules, %d sources:\n%s", len(all.Governance.Rules), len(all.Sources), strings.Join(on, "\n"))
	}
}

// TestPolicyInitOfNothing checks that a first configuration is also written if nothing is
// found.
func TestPolicyInitOfNothing(t *testing.T) {
	c := newConsole(filepath.Join(consoletest.ShortDir(t), "control.sock"))
	home := t.TempDir()
	t.Chdir(home)
	c.Env["HOME"] = home
	if code := c.Run(t, "--no-start", "policy", "init", "--print"); code != 0 || !strings.Contains(c.Err.String(), "can't read the audit log") {
		t.Errorf("exit %d: %s", code, c.Err.String())
	}
	if _, problems := config.Parse("/x/thoughtgate.yaml", c.Out.Bytes(), func(string) string { return "" }); len(problems) > 0 {
		t.Errorf("%v\n%s", problems, c.Out.String())
	}
}

func TestPolicySchema(t *testing.T) {
	c := newConsole("")
	c.Beside(t, "#!/bin/sh\necho \"$@\"\n")
	for line, want := range map[string]string{"policy schema": "--schema config\n", "policy schema test": "--schema test\n", "policy schema project": "--schema project\n"} {
		if code := c.Run(t, strings.Fields(line)...); code != 0 || c.Out.String() != want {
			t.Errorf("exit %d: %s%s", code, c.Out.String(), c.Err.String())
		}
	}
	c.Beside(t, "#!/bin/sh\necho no schema >&2; exit 1\n")
	if code := c.Run(t, "policy", "schema"); code != 1 || !strings.Contains(c.Err.String(), "thoughtgated --schema: exit status 1: no schema") {
		t.Errorf("exit %d: %s", code, c.Err.String())
	}
}
