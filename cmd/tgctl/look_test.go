package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
)

// inForce returns a rule set of which one file has changed on disk.
func inForce() *pb.PolicySet {
	return &pb.PolicySet{
		Source: "/home/ana/.config/thoughtgate/thoughtgate.yaml", Digest: strings.Repeat("0f", 32), Profile: "production", Rules: 4, Policies: 3, Checked: 2,
		Files: []*pb.PolicyFile{
			{Path: "/home/ana/.config/thoughtgate/thoughtgate.yaml", Digest: strings.Repeat("a1", 32)},
			{Path: "/home/ana/.config/thoughtgate/policies/db.cedar", Digest: strings.Repeat("b2", 32), Changed: true},
		},
		Since: at(-3 * time.Hour), By: "ana (uid 1000)",
		Waiting: []*pb.WaitingPolicy{{Policy: "small-payments", File: "policies/bank.cedar", Line: 3, Tools: []string{"bank/pay", "bank/transfer"}}},
		Refused: []*pb.RefusedTool{{Tool: "fs/read_many", Policy: "no-etc", File: "policies/fs.cedar", Line: 4, Column: 56, Reason: "in a call of fs/read_many: expected String, found Set<String> (context.arguments.path is a set)"}},
	}
}

// inDetail returns inForce with all details.
func inDetail() *pb.PolicySet {
	set := inForce()
	set.Files[1].Loaded = []byte("permit (principal,\taction, resource);\r\n// \x1b[2J\n")
	const file = "/home/ana/.config/thoughtgate/thoughtgate.yaml"
	cited := func(kind, name, does, says string, line uint32) *pb.Citation {
		return &pb.Citation{Kind: kind, Name: name, Does: does, Says: says, File: file, Line: line, Column: 7}
	}
	set.Detail = &pb.PolicyDetail{
		Sources: []*pb.PolicyEntry{
			{Cited: cited("source", "files*", "allowlist", "only as */mcp-files *; tools read_* list_*", 3)},
			{Cited: cited("source", "shell", "hide", "", 4)},
		},
		Rules: []*pb.PolicyEntry{
			{Cited: cited("rule", `"delete_*"`, "approve", "it deletes", 8), Sources: []string{"github", "prod-*"}, Agents: []string{"cursor"}, Methods: []string{"tools/call"}, Workflow: "ops"},
			{Cited: cited("rule", `"*" when planted or outside`, "deny", "", 9)},
			{Cited: &pb.Citation{Kind: "default", Name: "defaults.action", Does: "forward"}},
			{Cited: &pb.Citation{Kind: "default", Name: "defaults.asks", Does: "approve"}, Workflow: "default"},
		},
		Policies: []*pb.PolicyEntry{
			{Cited: &pb.Citation{Kind: "forbid", Name: "no-force", File: "/home/ana/.config/thoughtgate/policies/db.cedar", Line: 1, Column: 1, Does: "forbid", Says: "history stays"}},
			{Cited: &pb.Citation{Kind: "permit", Name: "small", File: "/home/ana/.config/thoughtgate/policies/db.cedar", Line: 9, Column: 1, Does: "ask"}, Workflow: "ops"},
		},
		Workflows: []*pb.PolicyWorkflow{
			{Name: "default", Asks: "local", Timeout: durationpb.New(10 * time.Minute), Require: "any", Surfaces: []string{"terminal", "script"}},
			{Name: "ops", File: file, Line: 12, Asks: "slack", Timeout: durationpb.New(time.Hour), Require: "presence", Surfaces: []string{"slack"}, Redact: []string{"password", "auth.token"},
				Slack: &pb.SlackDestination{Channel: "C0123ABCD", BotToken: "SLACK_BOT_TOKEN", AppToken: "SLACK_APP_TOKEN", Approvers: []string{"U0123ABCD", "U0456EFGH"}}},
		},
	}
	return set
}

func healthy() *pb.StatusResponse {
	return &pb.StatusResponse{
		Build: "v0.1.0", Protocol: 1, Pid: 4711, Started: at(-26 * time.Hour), ControlSocket: "/run/user/1000/thoughtgate/control.sock",
		ShimSocket: "/run/user/1000/thoughtgate/shim.sock", Set: &pb.PolicySet{Profile: "production", Rules: 9},
		AuditDir: "/home/ana/.local/state/thoughtgate/audit", AuditSeq: 1204,
	}
}

func troubled() *pb.StatusResponse {
	s := healthy()
	s.Set, s.Activated = inForce(), true
	s.ReloadFailure, s.ReloadFailed = "thoughtgate.yaml:12:9: unknown key \"acton\"\x1b[2J", at(-5*time.Minute)
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

func runningProcesses() []*pb.Process {
	return []*pb.Process{
		{Attachment: "t-1", Server: "filesystem", Launch: strings.Repeat("ab", 32), Session: "s-5d41", Agent: "claude-code", Profile: "production",
			Command: []string{"npx", "-y", "@modelcontextprotocol/server-filesystem", "/home/ana/my documents", ""}, ShimPid: 4001, ServerPid: 4002,
			Since: at(-90 * time.Minute), Judged: 12345, Denied: 3, Pending: 1, Unanswered: 2, UnansweredSince: at(-7 * time.Minute), Build: "v0.1.0",
			Kind: "server", Name: "filesystem", Id: "t-1", State: "running", Pid: 4002, Memory: 81_200_000},
		{Attachment: "t-2", Server: "evil\x1b[2J\u202e", Profile: "development", Command: []string{"sh", "-c", "echo 'x'; \x1b[2J"}, ShimPid: 4003,
			Since: at(-5 * time.Second), Kind: "server", Name: "evil\x1b[2J\u202e", Id: "t-2", State: "starting"},
	}
}

// keptProcesses returns programs of each kind that the daemon runs, in each state.
func keptProcesses() []*pb.Process {
	node := []string{"npx", "-y", "@modelcontextprotocol/server-everything"}
	return []*pb.Process{
		{Kind: "backend", Name: "everything", State: "running", Pid: 4010, Memory: 96_400_000, SharedTwice: true, Clients: 20, Since: at(-26 * time.Hour), StateSince: at(-26 * time.Hour), Command: node, Budget: 3},
		{Kind: "client", Name: "everything", Server: "everything", Agent: "cursor", Session: "s-5d41", Profile: "production", State: "running", ShimPid: 4015, Since: at(-time.Hour), Judged: 7, Build: "v0.1.0"},
		{Kind: "backend", Name: "github", State: "restarting", Restarts: 2, Clients: 3, Since: at(-time.Hour), StateSince: at(-time.Second), Next: at(2100 * time.Millisecond),
			Error: "backend \"github\" ended: exit status 1; it last said: token expired\x1b[2J", Command: node, Budget: 1},
		{Kind: "backend", Name: "idle", Id: "1", State: "running", Pid: 4011, Clients: 1, Since: at(-time.Minute), StateSince: at(-time.Minute), Command: node},
		{Kind: "backend", Name: "idle", Id: "2", State: "stopped", Command: node, StateSince: at(-time.Minute)},
		{Kind: "extension", Name: "pathguard", State: "failed", Restarts: 3, Since: at(-time.Minute), StateSince: at(-time.Second), Error: "extension \"pathguard\": it does not speak version 1 of the protocol", Command: []string{"python3", "pathguard.py"}},
		{Kind: "extension", Name: "quota", State: "starting", Pid: 4013, Since: at(0), StateSince: at(0), Command: []string{"./quota"}},
		{Kind: "extension", Name: "scrubber", State: "degraded", Pid: 4012, Memory: 12_400_000, Clients: 1, Since: at(-time.Hour), StateSince: at(-time.Second), Error: "it does not pass its health check: no answer in 5s", Command: []string{"./scrubber"}},
		{Kind: "agent", Name: "reviewer", Id: "R-2", State: "failed", Since: at(-time.Minute), StateSince: at(-time.Second), Error: "agent \"reviewer\" ended: exit status 2", Command: []string{"claude-code-acp"}},
		{Kind: "agent", Name: "fixer", Id: "R-3", State: "running", Pid: 4014, Memory: 310_000_000, Clients: 1, Since: at(-time.Minute), StateSince: at(-time.Minute), Command: []string{"opencode", "acp"},
			Attachment: "t-3", Agent: "fixer", Session: "s-7e21", Profile: "production", Judged: 12, Denied: 1, Pending: 1},
	}
}

func openSessions() []*pb.Session {
	return []*pb.Session{
		{Spec: &pb.SessionSpec{Id: "5d41402abc4b2a76b9719d911017c592", Agent: "claude-code", Command: []string{"claude"}, Project: "/home/ana/a project",
			Profile: pb.Profile_PROFILE_DEVELOPMENT, Files: []*pb.ConfigFile{{Path: "/home/ana/.claude.json", Journal: []byte("secret")}}}, Opened: at(-time.Hour), Pid: 4000, Attached: 2},
		{Spec: &pb.SessionSpec{Id: "7d793037a0760186574b0282f2f435e7", Agent: "custom", Project: "/srv"}, Opened: at(-50 * time.Hour), Orphaned: true,
			Problem: "/srv/mcp.json: it was changed by somebody else\x1b[2J"},
	}
}

func TestLookOnATerminal(t *testing.T) {
	for _, test := range []struct {
		golden string
		args   []string
		fill   func(*fakeDaemon)
	}{
		{"status", []string{"status"}, func(f *fakeDaemon) { f.status = healthy() }},
		{"status-troubled", []string{"status"}, func(f *fakeDaemon) { f.status = troubled() }},
		{"status-json", []string{"status", "--json"}, func(f *fakeDaemon) { f.status = troubled() }},
		{"ps", []string{"ps"}, func(f *fakeDaemon) { f.processes = runningProcesses() }},
		{"ps-json", []string{"ps", "--json"}, func(f *fakeDaemon) { f.processes = runningProcesses() }},
		{"ps-kept", []string{"ps"}, func(f *fakeDaemon) { f.processes = append(runningProcesses()[:1], keptProcesses()...) }},
		{"ps-kept-wide", []string{"ps", "--wide"}, func(f *fakeDaemon) { f.processes = append(runningProcesses()[:1], keptProcesses()...) }},
		{"ps-kept-json", []string{"ps", "--json"}, func(f *fakeDaemon) { f.processes = keptProcesses() }},
		{"ps-none", []string{"ps"}, func(*fakeDaemon) {}},
		{"sessions", []string{"sessions"}, func(f *fakeDaemon) { f.sessions = openSessions() }},
		{"sessions-json", []string{"sessions", "--json"}, func(f *fakeDaemon) { f.sessions = openSessions() }},
		{"sessions-protected", []string{"sessions"}, func(f *fakeDaemon) {
			f.sessions = []*pb.Session{{Spec: &pb.SessionSpec{Id: "8d5e957f297893487bd98fa830fa6413", Agent: "claude-code", Project: "/home/ana/shop"},
				Opened: at(-time.Minute), Pid: 4005, Attached: 2, Protection: strings.Repeat("1a57", 8)}}
		}},
		{"sessions-none", []string{"sessions"}, func(*fakeDaemon) {}},
		{"metrics", []string{"metrics"}, func(*fakeDaemon) {}},
		{"metrics-json", []string{"metrics", "--json"}, func(*fakeDaemon) {}},
		{"policy-show", []string{"policy", "show"}, func(f *fakeDaemon) { f.set = inDetail() }},
		{"policy-show-default", []string{"policy", "show"}, func(f *fakeDaemon) { f.set = &pb.PolicySet{Profile: "production", Rules: 9} }},
		{"policy-show-json", []string{"policy", "show", "--json"}, func(f *fakeDaemon) { f.set = inDetail() }},
	} {
		t.Run(test.golden, func(t *testing.T) {
			was := ui.Release
			ui.Release = "v0.1.0"
			defer func() { ui.Release = was }()
			f := startFake(t)
			test.fill(f)
			c := newConsole(f.socket)
			if code := c.run(t, test.args...); code != 0 {
				t.Fatalf("exit %d: %s", code, c.err.String())
			}
			if !strings.Contains(test.golden, "json") && !strings.Contains(test.golden, "wide") {
				mustFit(t, c.out.String(), 80)
			} else if strings.Contains(c.out.String(), "secret") {
				t.Errorf("a journal is shown:\n%s", c.out.String())
			}
			golden(t, test.golden, c.out.String()+"--- stderr\n"+c.err.String())
		})
	}
}

// Without a daemon, status reports that, exits 3 and starts none.
func TestStatusWithoutADaemon(t *testing.T) {
	c := newConsole(shortDir(t) + "/control.sock")
	if code := c.run(t, "status"); code != ui.ExitNotRunning || !strings.Contains(c.err.String(), "thoughtgated is not running") || c.out.Len() > 0 {
		t.Errorf("exit %d, stdout %q, stderr %q", code, c.out.String(), c.err.String())
	}
	if code := c.run(t, "status", "--json"); code != ui.ExitNotRunning || !strings.Contains(c.out.String(), `"running":false,"folder_problems":[],"agents":[],"protections":[]}`) || c.err.Len() > 0 {
		t.Errorf("exit %d, stdout %q, stderr %q", code, c.out.String(), c.err.String())
	}
}

func TestVersion(t *testing.T) {
	was := ui.Release
	ui.Release = "v0.1.0"
	defer func() { ui.Release = was }()
	c := newConsole("")
	if code := c.run(t, "version"); code != 0 || !strings.HasPrefix(c.out.String(), "tgctl v0.1.0 (go") {
		t.Errorf("exit %d: %q", code, c.out.String())
	}
	if code := c.run(t, "--version"); code != 0 || !strings.HasPrefix(c.out.String(), "tgctl v0.1.0 (go") {
		t.Errorf("exit %d: %q", code, c.out.String())
	}
	var v versionJSON
	if code := c.run(t, "version", "--json"); code != 0 || json.Unmarshal(c.out.Bytes(), &v) != nil || v.Version != "v0.1.0" {
		t.Errorf("exit %d: %q", code, c.out.String())
	}
}

// A response may be as large as the API allows.
func TestLargeAnswer(t *testing.T) {
	f := startFake(t)
	f.approvals = questions()[:1]
	f.approvals[0].Arguments = []byte(`{"name":"x","arguments":{"content":"` + strings.Repeat("x", 10<<20) + `"}}`)
	c := newConsole(f.socket).pipe()
	if code := c.run(t, "approvals", "--json"); code != 0 || c.out.Len() < 10<<20 {
		t.Errorf("exit %d, %d bytes: %.200s", code, c.out.Len(), c.err.String())
	}
	if n := proto.Size(f.approvals[0]); n < 10<<20 {
		t.Errorf("the answer had only %d bytes", n)
	}
}
