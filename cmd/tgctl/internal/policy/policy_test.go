package policy

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// newConsole returns a terminal of 80 columns whose tgctl has only these commands.
func newConsole(socket string) *consoletest.Console { return consoletest.New(socket, Command) }

func TestPolicyCheckFindsErrors(t *testing.T) {
	path, problems := consoletest.BrokenConfig(t)
	f := consoletest.Start(t)
	f.Validate = &pb.ValidateResponse{Path: path, Problems: problems}
	c := newConsole(f.Socket)
	if code := c.Run(t, "policy", "check", path); code != ui.ExitCheck {
		t.Errorf("exit %d, want %d: %s", code, ui.ExitCheck, c.Err.String())
	}
	consoletest.MustFit(t, strings.ReplaceAll(c.Out.String(), path, "FILE"), 80)
	consoletest.Golden(t, "policy-check", strings.ReplaceAll(c.Out.String()+"--- stderr\n"+c.Err.String(), path, "FILE"))
	if len(f.Validated) != 1 || f.Validated[0] != path {
		t.Errorf("checked %q", f.Validated)
	}

	if code := c.Run(t, "policy", "check", "--json", path); code != ui.ExitCheck {
		t.Errorf("--json: exit %d", code)
	}
	consoletest.Golden(t, "policy-check-json", strings.ReplaceAll(c.Out.String(), path, "FILE"))
}

func TestPolicyCheckOfWhatIsGood(t *testing.T) {
	f := consoletest.Start(t)
	f.Validate = &pb.ValidateResponse{Path: "/etc/t.yaml", Set: consoletest.InForce(), Problems: []*pb.Diagnostic{
		{Severity: pb.Severity_SEVERITY_WARNING, Id: "V-007", Message: "no server \"gh\" has been seen"}}}
	c := newConsole(f.Socket)
	if code := c.Run(t, "policy", "check"); code != 0 {
		t.Errorf("exit %d: %s", code, c.Err.String())
	}
	want := "warning: no server \"gh\" has been seen [V-007]\n/etc/t.yaml: ok: profile production, 4 rules, 3 Cedar policies; 1 warning\n"
	if c.Out.String() != want {
		t.Errorf("got %q, want %q", c.Out.String(), want)
	}
	if len(f.Validated) != 1 || f.Validated[0] != "" {
		t.Errorf("checked %q, want the daemon's own", f.Validated)
	}
	f.Validate.Path = ""
	if c.Run(t, "policy", "check"); !strings.Contains(c.Out.String(), "the built-in default: ok") {
		t.Errorf("got %q", c.Out.String())
	}
}

// A relative path is relative to the caller, not to the daemon.
func TestPolicyCheckOfARelativePath(t *testing.T) {
	f := consoletest.Start(t)
	f.Validate = &pb.ValidateResponse{}
	dir := t.TempDir()
	t.Chdir(dir)
	newConsole(f.Socket).Run(t, "policy", "check", "a.yaml", "b.yaml")
	if len(f.Validated) != 2 || f.Validated[0] != filepath.Join(dir, "a.yaml") {
		t.Errorf("checked %q", f.Validated)
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
			c := newConsole(filepath.Join(consoletest.ShortDir(t), "control.sock"))
			c.Beside(t, "#!/bin/sh\n"+test.script+"\n")
			if code := c.Run(t, "policy", "check", "/x/t.yaml"); code != test.code {
				t.Errorf("exit %d, want %d", code, test.code)
			}
			if c.Out.String() != test.out || !strings.Contains(c.Err.String(), test.err) {
				t.Errorf("stdout %q, stderr %q", c.Out.String(), c.Err.String())
			}
		})
	}
}
