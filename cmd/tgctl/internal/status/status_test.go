package status

import (
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// newConsole returns a terminal of 80 columns whose tgctl has only these commands.
func newConsole(socket string) *consoletest.Console {
	return consoletest.New(socket, Command, SessionsCommand, MetricsCommand)
}

func troubled() *pb.StatusResponse {
	s := consoletest.Healthy()
	s.Set, s.Activated = consoletest.InForce(), true
	s.ReloadFailure, s.ReloadFailed = "thoughtgate.yaml:12:9: unknown key \"acton\"\x1b[2J", consoletest.At(-5*time.Minute)
	s.Sessions, s.Attachments, s.Pending, s.HeldDefinitions = 1, 3, 2, 1
	s.Kept = []*pb.KindCount{{Kind: "backend", All: 1}, {Kind: "extension", All: 4, Failed: 2, Unwell: 1}, {Kind: "later", All: 1}, {Kind: "agent", All: 2}}
	s.AuditFailure = "write audit log: no space left on device"
	s.Warnings = []string{"the development profile is in force: nothing is refused"}
	s.Projects = []*pb.ProjectFile{
		{Path: "/home/ana/shop/.thoughtgate.yaml", Digest: strings.Repeat("c3", 32), Rules: 3},
		{Path: "/home/ana/evil\x1b[2J/.thoughtgate.yaml", Problems: []*pb.Diagnostic{
			{File: "/home/ana/evil\x1b[2J/.thoughtgate.yaml", Line: 2, Column: 1, Severity: pb.Severity_SEVERITY_ERROR, Message: "the file may not say \"profile\""}}},
	}
	return s
}

// unseenSessions returns a session whose agent has run no hook, and an ended one whose agent has
// used tools that no hook reported.
func unseenSessions() []*pb.Session {
	open := consoletest.OpenSessions()[0]
	open.HooksSilent = true
	return []*pb.Session{open, {Spec: &pb.SessionSpec{Id: "8d5e957f297893487bd98fa830fa6413", Agent: "claude-code", Project: "/home/ana/shop"},
		Opened: consoletest.At(-time.Hour), Ended: consoletest.At(-time.Minute), Unseen: []*pb.Unseen{
			{Agent: "claude-code", At: consoletest.At(-time.Minute), Count: 2, Calls: []string{"npm test", "ls\x1b[2J"}, Text: "2 shell calls the gate never saw: `npm test`, `ls\x1b[2J`"},
			{Agent: "claude-code", At: consoletest.At(-time.Minute), Text: "transcript not found: calls that no hook reported would not be seen"},
		}}}
}

func TestOnATerminal(t *testing.T) {
	for _, test := range []struct {
		golden string
		args   []string
		fill   func(*consoletest.Daemon)
	}{
		{"status", []string{"status"}, func(f *consoletest.Daemon) { f.Status = consoletest.Healthy() }},
		{"status-calls", []string{"status"}, func(f *consoletest.Daemon) { f.Status, f.Records = consoletest.Healthy(), consoletest.Recorded() }},
		{"status-troubled", []string{"status"}, func(f *consoletest.Daemon) { f.Status = troubled() }},
		{"status-fleet", []string{"status"}, func(f *consoletest.Daemon) {
			f.Status = consoletest.Healthy()
			f.Status.Set.Fleet = "full"
			f.Status.Fleet = &pb.FleetState{
				Device: "UABC", Fleet: "acme", Group: "dev", Mode: pb.FleetMode_FLEET_MODE_FULL, BundleVersion: 7, Freshness: pb.FleetFreshness_FLEET_FRESHNESS_EXPIRED,
				Confirmed: consoletest.At(-31 * 24 * time.Hour), Failure: "verify the timestamp: it has version 3, and version 4 was verified before\x1b[2J",
			}
		}},
		{"status-json", []string{"status", "--json"}, func(f *consoletest.Daemon) { f.Status = troubled() }},
		{"sessions", []string{"sessions"}, func(f *consoletest.Daemon) { f.Sessions = consoletest.OpenSessions() }},
		{"sessions-json", []string{"sessions", "--json"}, func(f *consoletest.Daemon) { f.Sessions = consoletest.OpenSessions() }},
		{"sessions-protected", []string{"sessions"}, func(f *consoletest.Daemon) {
			f.Sessions = []*pb.Session{{Spec: &pb.SessionSpec{Id: "8d5e957f297893487bd98fa830fa6413", Agent: "claude-code", Project: "/home/ana/shop"},
				Opened: consoletest.At(-time.Minute), Pid: 4005, Attached: 2, Protection: strings.Repeat("1a57", 8)}}
		}},
		{"sessions-unseen", []string{"sessions"}, func(f *consoletest.Daemon) { f.Sessions = unseenSessions() }},
		{"status-unseen", []string{"status"}, func(f *consoletest.Daemon) {
			f.Status, f.Sessions = consoletest.Healthy(), unseenSessions()
			f.Status.Unseen = f.Sessions[1].GetUnseen()
			for _, agent := range []string{"claude-code", "codex"} { // of the former it is said once
				f.Status.Unseen = append([]*pb.Unseen{{Agent: agent, At: consoletest.At(-time.Hour), Text: f.Sessions[1].GetUnseen()[1].GetText()}}, f.Status.Unseen...)
			}
		}},
		{"sessions-none", []string{"sessions"}, func(*consoletest.Daemon) {}},
		{"metrics", []string{"metrics"}, func(*consoletest.Daemon) {}},
		{"metrics-json", []string{"metrics", "--json"}, func(*consoletest.Daemon) {}},
	} {
		t.Run(test.golden, func(t *testing.T) {
			f := consoletest.Start(t)
			test.fill(f)
			c := newConsole(f.Socket)
			c.LooksLike(t, test.golden, test.args...)
			if strings.Contains(c.Out.String(), "secret") {
				t.Errorf("a journal is shown:\n%s", c.Out.String())
			}
		})
	}
}

// Without a daemon, status reports that, exits 3 and starts none.
func TestStatusWithoutADaemon(t *testing.T) {
	c := newConsole(consoletest.ShortDir(t) + "/control.sock")
	if code := c.Run(t, "status"); code != ui.ExitNotRunning || !strings.Contains(c.Err.String(), "thoughtgated is not running") || c.Out.Len() > 0 {
		t.Errorf("exit %d, stdout %q, stderr %q", code, c.Out.String(), c.Err.String())
	}
	if code := c.Run(t, "status", "--json"); code != ui.ExitNotRunning || !strings.Contains(c.Out.String(), `"running":false,"folder_problems":[],"agents":[],"protections":[],"calls":null}`) || c.Err.Len() > 0 {
		t.Errorf("exit %d, stdout %q, stderr %q", code, c.Out.String(), c.Err.String())
	}
}
