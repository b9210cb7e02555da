package programs

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

func TestLogs(t *testing.T) {
	f := consoletest.Start(t)
	f.Processes, f.Ext.Logs = append(consoletest.RunningProcesses(), consoletest.KeptProcesses()...), consoletest.LogLines()
	c := newConsole(f.Socket)
	want := "11:59:57  ready\n11:59:58  warning: \\x1b[2J    x\n11:59:59  done\n"
	if code := c.Run(t, "logs", "scrubber"); code != 0 || c.Out.String() != want || c.Err.String() != "(4 lines are no longer kept)\n" {
		t.Errorf("exit %d: %q %q, want %q", code, c.Out.String(), c.Err.String(), want)
	}
	if code := c.Run(t, "logs", "scrubber", "--kind", "extension", "-n", "1"); code != 0 || c.Out.String() != "11:59:59  done\n" {
		t.Errorf("exit %d: %q %s", code, c.Out.String(), c.Err.String())
	}
	if code := c.Pipe().Run(t, "logs", "reviewer", "--id", "R-2", "--json"); code != 0 || strings.Count(c.Out.String(), "\n") != 3 ||
		!strings.HasPrefix(c.Out.String(), `{"number":3,"time":"2026-11-20T10:59:57Z","text":"ready","kind":"agent","name":"reviewer","id":"R-2"}`+"\n") || c.Err.Len() > 0 {
		t.Errorf("exit %d: %s %s", code, c.Out.String(), c.Err.String())
	}
	for i, want := range []*pb.LogsRequest{{Kind: "extension", Name: "scrubber"}, {Kind: "extension", Name: "scrubber", Last: 1}, {Kind: "agent", Name: "reviewer", Id: "R-2"}} {
		if !proto.Equal(f.Ext.Logged[i], want) {
			t.Errorf("asked for %v, want %v", f.Ext.Logged[i], want)
		}
	}
	f.Ext.Logs = nil
	if code := c.Run(t, "logs", "scrubber"); code != 0 || c.Out.Len() > 0 || c.Err.String() != "scrubber has written nothing.\n" {
		t.Errorf("exit %d: %q %q", code, c.Out.String(), c.Err.String())
	}
	if c.Run(t, "__complete", "logs", ""); !strings.HasPrefix(c.Out.String(), "everything\tbackend, running\n") || strings.Contains(c.Out.String(), "filesystem") {
		t.Errorf("completes to %q", c.Out.String())
	}
}

// An ambiguous name, or that of a server behind a shim, gets an error with a hint.
func TestLogsOfWhat(t *testing.T) {
	f := consoletest.Start(t)
	f.Processes = append(consoletest.RunningProcesses(), consoletest.KeptProcesses()...)
	f.Processes = append(f.Processes, &pb.Process{Kind: "extension", Name: "github", State: "failed", Command: []string{"./github"}},
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
		c := newConsole(f.Socket).Pipe()
		code := c.Run(t, strings.Fields(line)...)
		for _, want := range says {
			if code == 0 || !strings.Contains(c.Err.String(), want) {
				t.Errorf("tgctl %s: exit %d: %q, want %q", line, code, c.Err.String(), want)
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
			f := consoletest.Start(t)
			f.Processes, f.Ext.Logs = consoletest.KeptProcesses(), consoletest.LogLines()
			f.Ext.Ended, f.Ext.Following, f.Ext.Gone = make(chan struct{}), make(chan struct{}), test.gone
			c := newConsole(f.Socket)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				<-f.Ext.Following
				if test.name == "interrupted" {
					cancel()
				} else {
					close(f.Ext.Ended)
				}
			}()
			code := c.Execute(ctx, "logs", "-f", "scrubber")
			if code != test.code || !strings.Contains(c.Err.String(), test.says) || !f.Ext.Logged[0].GetFollow() {
				t.Errorf("exit %d: %s", code, c.Err.String())
			}
		})
	}
}

func TestRestart(t *testing.T) {
	f := consoletest.Start(t)
	f.Processes = consoletest.KeptProcesses()
	c := newConsole(f.Socket)
	if code := c.Run(t, "restart", "pathguard"); code != 0 || c.Out.String() != "restarted pathguard: running, pid 4020\n" {
		t.Errorf("exit %d: %q %s", code, c.Out.String(), c.Err.String())
	}
	if code := c.Run(t, "restart", "pathguard", "--json"); code != 0 || !strings.Contains(c.Out.String(), `"name":"pathguard","id":"","state":"running"`) {
		t.Errorf("exit %d: %q %s", code, c.Out.String(), c.Err.String())
	}
	f.Ext.Failure = "it has failed: exit status 1"
	if code := c.Run(t, "restart", "github"); code != ui.ExitFailed || !strings.Contains(c.Err.String(), "github did not start: it has failed") || !strings.Contains(c.Err.String(), "See: tgctl logs github") || c.Out.Len() > 0 {
		t.Errorf("exit %d: %q %s", code, c.Out.String(), c.Err.String())
	}
	f.Ext.Err = client.NewError(client.ReasonForbidden, "restarting: forbidden to an agent")
	if code := c.Run(t, "restart", "github"); code != ui.ExitFailed || !strings.Contains(c.Err.String(), "Use another terminal.") {
		t.Errorf("exit %d: %s", code, c.Err.String())
	}
}
