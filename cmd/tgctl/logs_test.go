package main

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

func TestLogs(t *testing.T) {
	f := startFake(t)
	f.processes, f.ext.logs = append(runningProcesses(), keptProcesses()...), logLines()
	c := newConsole(f.socket)
	want := "11:59:57  ready\n11:59:58  warning: \\x1b[2J    x\n11:59:59  done\n"
	if code := c.run(t, "logs", "scrubber"); code != 0 || c.out.String() != want || c.err.String() != "(4 lines are no longer kept)\n" {
		t.Errorf("exit %d: %q %q, want %q", code, c.out.String(), c.err.String(), want)
	}
	if code := c.run(t, "ext", "logs", "scrubber", "-n", "1"); code != 0 || c.out.String() != "11:59:59  done\n" {
		t.Errorf("exit %d: %q %s", code, c.out.String(), c.err.String())
	}
	if code := c.pipe().run(t, "logs", "reviewer", "--id", "R-2", "--json"); code != 0 || strings.Count(c.out.String(), "\n") != 3 ||
		!strings.HasPrefix(c.out.String(), `{"number":3,"time":"2026-11-20T10:59:57Z","text":"ready","kind":"agent","name":"reviewer","id":"R-2"}`+"\n") || c.err.Len() > 0 {
		t.Errorf("exit %d: %s %s", code, c.out.String(), c.err.String())
	}
	for i, want := range []*pb.LogsRequest{{Kind: "extension", Name: "scrubber"}, {Kind: "extension", Name: "scrubber", Last: 1}, {Kind: "agent", Name: "reviewer", Id: "R-2"}} {
		if !proto.Equal(f.ext.logged[i], want) {
			t.Errorf("asked for %v, want %v", f.ext.logged[i], want)
		}
	}
	f.ext.logs = nil
	if code := c.run(t, "logs", "scrubber"); code != 0 || c.out.Len() > 0 || c.err.String() != "scrubber has written nothing.\n" {
		t.Errorf("exit %d: %q %q", code, c.out.String(), c.err.String())
	}
	if c.run(t, "__complete", "logs", ""); !strings.HasPrefix(c.out.String(), "everything\tbackend, running\n") || strings.Contains(c.out.String(), "filesystem") {
		t.Errorf("completes to %q", c.out.String())
	}
}

// An ambiguous name, or that of a server behind a shim, gets an error with a hint.
func TestLogsOfWhat(t *testing.T) {
	f := startFake(t)
	f.processes = append(runningProcesses(), keptProcesses()...)
	f.processes = append(f.processes, &pb.Process{Kind: "extension", Name: "github", State: "failed", Command: []string{"./github"}},
		&pb.Process{Kind: "backend", Name: "everything", Id: "2", State: "running", Command: []string{"npx"}})
	for line, says := range map[string][]string{
		"logs nobody":                      {"nobody: the daemon runs no program of that name", "List the programs: tgctl ps"},
		"logs filesystem":                  {"the agent, not the daemon, runs the server filesystem behind tg-shim", "goes to claude-code", "`claude --debug`"},
		"restart filesystem":               {"the agent, not the daemon, runs the server filesystem behind tg-shim", "which also starts and ends it"},
		"logs github":                      {"github is ambiguous: it matches 2", "--kind backend  restarting, 3 clients, npx -y @modelcontextprotocol/server-everything", "--kind extension  failed, ./github"},
		"restart everything":               {"everything is ambiguous: it matches 2", "--kind backend --id 2  running, 0 clients, npx"},
		"restart reviewer":                 {"reviewer is a headless agent, which can't be restarted", "tgctl run reviewer -- PROMPT"},
		"restart scrubber --kind backend":  {"scrubber: the daemon runs no program of that name"},
		"logs reviewer --id R-3":           {"reviewer: the daemon runs no program of that name"},
		"logs scrubber --kind=agent -f -n": {"flag needs an argument"},
	} {
		c := newConsole(f.socket).pipe()
		code := c.run(t, strings.Fields(line)...)
		for _, want := range says {
			if code == 0 || !strings.Contains(c.err.String(), want) {
				t.Errorf("tgctl %s: exit %d: %q, want %q", line, code, c.err.String(), want)
			}
		}
	}
}

// A follower learns why there will be no more lines. An interrupt is no error.
func TestLogsFollow(t *testing.T) {
	for _, test := range []struct {
		name string
		gone error
		code int
		says string
	}{
		{"the daemon ends", client.NewError(client.ReasonNotRunning, "the daemon is ending"), ui.ExitNotRunning, "the daemon has ended, and scrubber with it"},
		{"it was removed", client.NewError(client.ReasonNotFound, "the daemon keeps no extension"), ui.ExitFailed, "scrubber has ended"},
		{"it is over", nil, ui.ExitOK, ""},
		{"interrupted", nil, ui.ExitOK, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := startFake(t)
			f.processes, f.ext.logs = keptProcesses(), logLines()
			f.ext.ended, f.ext.following, f.ext.gone = make(chan struct{}), make(chan struct{}), test.gone
			c := newConsole(f.socket)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				<-f.ext.following
				if test.name == "interrupted" {
					cancel()
				} else {
					close(f.ext.ended)
				}
			}()
			code := c.app.run(ctx, []string{"logs", "-f", "scrubber"})
			if code != test.code || !strings.Contains(c.err.String(), test.says) || !f.ext.logged[0].GetFollow() {
				t.Errorf("exit %d: %s", code, c.err.String())
			}
		})
	}
}

func TestRestart(t *testing.T) {
	f := startFake(t)
	f.processes = keptProcesses()
	c := newConsole(f.socket)
	if code := c.run(t, "restart", "pathguard"); code != 0 || c.out.String() != "restarted pathguard: running, pid 4020\n" {
		t.Errorf("exit %d: %q %s", code, c.out.String(), c.err.String())
	}
	if code := c.run(t, "restart", "pathguard", "--json"); code != 0 || !strings.Contains(c.out.String(), `"name":"pathguard","id":"","state":"running"`) {
		t.Errorf("exit %d: %q %s", code, c.out.String(), c.err.String())
	}
	f.ext.failure = "it has failed: exit status 1"
	if code := c.run(t, "restart", "github"); code != ui.ExitFailed || !strings.Contains(c.err.String(), "github did not start: it has failed") || !strings.Contains(c.err.String(), "See: tgctl logs github") || c.out.Len() > 0 {
		t.Errorf("exit %d: %q %s", code, c.out.String(), c.err.String())
	}
	f.ext.err = client.NewError(client.ReasonForbidden, "restarting: forbidden to an agent")
	if code := c.run(t, "restart", "github"); code != ui.ExitFailed || !strings.Contains(c.err.String(), "Use another terminal.") {
		t.Errorf("exit %d: %s", code, c.err.String())
	}
}
