package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// brokenConfig returns the path of a configuration, and what is wrong with it.
func brokenConfig(t *testing.T) (string, []*pb.Diagnostic) {
	path := filepath.Join(t.TempDir(), "thoughtgate.yaml")
	content := "schema: 1\ngovernance:\n  rules:\n    - match: \"délété_*\"\tacton: approve # \x1b[2J " + strings.Repeat("long ", 30) + "\n"
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, []*pb.Diagnostic{
		{File: path, Line: 4, Column: 25, Severity: pb.Severity_SEVERITY_ERROR, Id: "V-006", Message: "unknown key \"acton\"", Hint: "did you mean \"action\"?"},
		{File: path, Line: 4, Column: 150, Severity: pb.Severity_SEVERITY_WARNING, Message: "this is far to the right"},
		{File: path, Line: 99, Column: 1, Severity: pb.Severity_SEVERITY_ERROR, Message: "a line that is not there"},
		{File: "/gone/p.cedar", Line: 1, Severity: pb.Severity_SEVERITY_ERROR, Message: "a file that is not there \x1b[2J"},
		{Severity: pb.Severity_SEVERITY_ERROR, Message: "no place at all"},
	}
}

func TestPolicyCheckFindsErrors(t *testing.T) {
	path, problems := brokenConfig(t)
	f := startFake(t)
	f.validate = &pb.ValidateResponse{Path: path, Problems: problems}
	c := newConsole(f.socket)
	if code := c.run(t, "policy", "check", path); code != ui.ExitCheck {
		t.Errorf("exit %d, want %d: %s", code, ui.ExitCheck, c.err.String())
	}
	mustFit(t, strings.ReplaceAll(c.out.String(), path, "FILE"), 80)
	golden(t, "policy-check", strings.ReplaceAll(c.out.String()+"--- stderr\n"+c.err.String(), path, "FILE"))
	if len(f.validated) != 1 || f.validated[0] != path {
		t.Errorf("checked %q", f.validated)
	}

	if code := c.run(t, "policy", "check", "--json", path); code != ui.ExitCheck {
		t.Errorf("--json: exit %d", code)
	}
	golden(t, "policy-check-json", strings.ReplaceAll(c.out.String(), path, "FILE"))
}

func TestPolicyCheckOfWhatIsGood(t *testing.T) {
	f := startFake(t)
	f.validate = &pb.ValidateResponse{Path: "/etc/t.yaml", Set: inForce(), Problems: []*pb.Diagnostic{
		{Severity: pb.Severity_SEVERITY_WARNING, Id: "V-007", Message: "no server \"gh\" has been seen"}}}
	c := newConsole(f.socket)
	if code := c.run(t, "policy", "check"); code != 0 {
		t.Errorf("exit %d: %s", code, c.err.String())
	}
	want := "warning: no server \"gh\" has been seen [V-007]\n/etc/t.yaml: ok: profile production, 4 rules, 3 Cedar policies; 1 warning\n"
	if c.out.String() != want {
		t.Errorf("got %q, want %q", c.out.String(), want)
	}
	if len(f.validated) != 1 || f.validated[0] != "" {
		t.Errorf("checked %q, want the daemon's own", f.validated)
	}
	f.validate.Path = ""
	if c.run(t, "policy", "check"); !strings.Contains(c.out.String(), "the built-in default: ok") {
		t.Errorf("got %q", c.out.String())
	}
}

// A relative path is relative to the caller, not to the daemon.
func TestPolicyCheckOfARelativePath(t *testing.T) {
	f := startFake(t)
	f.validate = &pb.ValidateResponse{}
	dir := t.TempDir()
	t.Chdir(dir)
	newConsole(f.socket).run(t, "policy", "check", "a.yaml", "b.yaml")
	if len(f.validated) != 2 || f.validated[0] != filepath.Join(dir, "a.yaml") {
		t.Errorf("checked %q", f.validated)
	}
}

// Without a daemon, the thoughtgated beside tgctl checks the file.
func TestPolicyCheckWithoutADaemon(t *testing.T) {
	for _, test := range []struct {
		name, script string
		code         int
		out, err     string
	}{
		{"fails", `echo cannot read it >&2; exit 1`, 1, "", ": cannot read it"},
		{"says something else", `echo hello`, 1, "", "thoughtgated --policies: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newConsole(filepath.Join(shortDir(t), "control.sock"))
			c.beside(t, "#!/bin/sh\n"+test.script+"\n")
			if code := c.run(t, "policy", "check", "/x/t.yaml"); code != test.code {
				t.Errorf("exit %d, want %d", code, test.code)
			}
			if c.out.String() != test.out || !strings.Contains(c.err.String(), test.err) {
				t.Errorf("stdout %q, stderr %q", c.out.String(), c.err.String())
			}
		})
	}
}

// beside puts a program called thoughtgated beside this tgctl.
func (c *console) beside(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, connect.DaemonName), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	c.app.Executable = func() (string, error) { return filepath.Join(dir, "tgctl"), nil }
}

func TestReload(t *testing.T) {
	f := startFake(t)
	f.reload = &pb.ReloadResponse{Set: inForce(), Warnings: []*pb.Diagnostic{{Severity: pb.Severity_SEVERITY_WARNING, Message: "a warning"}}}
	c := newConsole(f.socket)
	want := "warning: a warning\nIn force: /home/ana/.config/thoughtgate/thoughtgate.yaml, profile production, 4 rules, 3 Cedar policies.\n"
	if code := c.run(t, "daemon", "reload"); code != 0 || c.err.String() != want {
		t.Errorf("exit %d, got %q, want %q", code, c.err.String(), want)
	}

	path, problems := brokenConfig(t)
	f.reloadErr = client.NewError(client.ReasonInvalid, "the configuration is not good", problems...)
	if code := c.run(t, "daemon", "reload"); code != 1 {
		t.Errorf("exit %d, want 1", code)
	}
	for _, want := range []string{path + ":4:25: error: unknown key", "hint: did you mean", "tgctl: the configuration is not good\nThe previous configuration stays in force."} {
		if !strings.Contains(c.err.String(), want) {
			t.Errorf("stderr lacks %q:\n%s", want, c.err.String())
		}
	}

	f.reloadErr = errors.New("out of luck")
	if code := c.run(t, "daemon", "reload"); code != 1 || !strings.Contains(c.err.String(), "out of luck") {
		t.Errorf("exit %d: %s", code, c.err.String())
	}
}
