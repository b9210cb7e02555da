package main

import (
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
)

// TestSkew checks that the first command that reaches a daemon of another version reports that,
// once, with the command that fixes it.
func TestSkew(t *testing.T) {
	const says = `The daemon is v0.9\u{1b}[2J, tgctl dev; restart it: tgctl daemon restart`
	for _, line := range []string{"approvals", "ps", "status", "status --json", "tools", "sessions"} {
		f := consoletest.Start(t)
		f.Build = "v0.9\x1b[2J"
		f.Status = consoletest.Healthy()
		f.Status.Build = f.Build
		c := newConsole(f.Socket)
		if code := c.run(t, strings.Split(line, " ")...); code != 0 {
			t.Fatalf("tgctl %s: exit %d: %s", line, code, c.Err.String())
		}
		if got := strings.Count(strings.Join(strings.Fields(c.Out.String()+c.Err.String()), " "), says); got != 1 { // it may be on two lines
			t.Errorf("tgctl %s says %d times %q:\n%s%s", line, got, says, c.Out.String(), c.Err.String())
		}
	}
}

// A daemon of the same version is not mentioned.
func TestNoSkew(t *testing.T) {
	f := consoletest.Start(t)
	f.Build = ui.Release
	c := newConsole(f.Socket)
	if code := c.run(t, "ps"); code != 0 || strings.Contains(c.Err.String(), "tgctl daemon restart") {
		t.Errorf("exit %d: %s", code, c.Err.String())
	}
}
