package daemon

import (
	"errors"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// newConsole returns a terminal of 80 columns whose tgctl has only these commands.
func newConsole(socket string) *consoletest.Console { return consoletest.New(socket, Command) }

func TestReload(t *testing.T) {
	f := consoletest.Start(t)
	f.Reload = &pb.ReloadResponse{Set: consoletest.InForce(), Warnings: []*pb.Diagnostic{{Severity: pb.Severity_SEVERITY_WARNING, Message: "a warning"}}}
	c := newConsole(f.Socket)
	want := "warning: a warning\nIn force: /home/ana/.config/thoughtgate/thoughtgate.yaml, profile production, 4 rules, 3 Cedar policies.\n"
	if code := c.Run(t, "daemon", "reload"); code != 0 || c.Err.String() != want {
		t.Errorf("exit %d, got %q, want %q", code, c.Err.String(), want)
	}

	path, problems := consoletest.BrokenConfig(t)
	f.ReloadErr = client.NewError(client.ReasonInvalid, "the configuration is not good", problems...)
	if code := c.Run(t, "daemon", "reload"); code != 1 {
		t.Errorf("exit %d, want 1", code)
	}
	for _, want := range []string{path + ":4:25: error: unknown key", "hint: did you mean", "tgctl: the configuration is not good\nThe previous configuration stays in force."} {
		if !strings.Contains(c.Err.String(), want) {
			t.Errorf("stderr lacks %q:\n%s", want, c.Err.String())
		}
	}

	f.ReloadErr = errors.New("out of luck")
	if code := c.Run(t, "daemon", "reload"); code != 1 || !strings.Contains(c.Err.String(), "out of luck") {
		t.Errorf("exit %d: %s", code, c.Err.String())
	}
}
