package main

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
)

// sayBuild makes the fake daemon report its build, as the real one does.
func (f *fakeDaemon) sayBuild() grpc.ServerOption {
	return grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		if f.build != "" {
			if err := grpc.SetHeader(ctx, metadata.Pairs(client.BuildHeader, f.build)); err != nil {
				return nil, err
			}
		}
		return handle(ctx, req)
	})
}

// TestSkew checks that the first command that reaches a daemon of another version reports that,
// once, with the command that fixes it.
func TestSkew(t *testing.T) {
	const says = `thoughtgated is v0.9\u{1b}[2J, tgctl dev: tgctl daemon restart`
	for _, line := range []string{"approvals", "ps", "status", "status --json", "tools", "sessions"} {
		f := startFake(t)
		f.build = "v0.9\x1b[2J"
		f.status = healthy()
		f.status.Build = f.build
		c := newConsole(f.socket)
		if code := c.run(t, strings.Split(line, " ")...); code != 0 {
			t.Fatalf("tgctl %s: exit %d: %s", line, code, c.err.String())
		}
		if got := strings.Count(c.out.String()+c.err.String(), says); got != 1 {
			t.Errorf("tgctl %s says %d times %q:\n%s%s", line, got, says, c.out.String(), c.err.String())
		}
	}
}

// A daemon of the same version is not mentioned.
func TestNoSkew(t *testing.T) {
	f := startFake(t)
	f.build = ui.Release
	c := newConsole(f.socket)
	if code := c.run(t, "ps"); code != 0 || strings.Contains(c.err.String(), "tgctl daemon restart") {
		t.Errorf("exit %d: %s", code, c.err.String())
	}
}
