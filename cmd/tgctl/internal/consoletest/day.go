package consoletest

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/thoughtgate/thoughtgated/internal/record"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Day fills a daemon with what it has at noon of an ordinary day, for pictures.
func Day(d *Daemon) {
	d.Status = Healthy()
	d.Status.Set = dayPolicy()
	d.Status.Sessions, d.Status.Attachments, d.Status.Pending = 2, 5, 4
	d.Set = dayPolicy()
	d.Approvals, d.Records, d.Grants, d.Sessions, d.Processes = DayQuestions(), Chained(dayRecords()), dayGrants(), daySessions(), dayProcesses()
	d.Servers, d.Pins = dayServers(), dayPins()
	d.Copies = []*pb.Copy{
		{Id: "A-8", Root: "/home/ana/shop", Files: 3, Bytes: 48_200, Made: At(-40 * time.Second), Names: []string{"build/notes.md", "notes/ideas.md", "notes/plan.md"}},
		{Id: "A-2", Root: "/home/ana/blog", Files: 1, Bytes: 2_300, Made: At(-26 * time.Hour), Names: []string{"drafts/autumn.md"}},
	}
	d.Plan = &pb.UndoPlan{Copy: &pb.Copy{Id: "A-8", Copy: "20261120T110000-01234567", Root: "/home/ana/shop", Files: 3, Made: At(-40 * time.Second)},
		Write: []string{"build/notes.md", "notes/ideas.md"}, Writes: 2, Replace: []string{"notes/plan.md"}, Replaces: 1, Digest: "d"}
	d.Explain = func(*pb.ExplainRequest) (*pb.Explanation, error) { return dayExplanation(), nil }
	d.Test = dayTest
	d.Backtest, d.Later = dayBacktest(), dayGoesOn()
	d.Validate = &pb.ValidateResponse{Path: dayConfig, Set: dayPolicy()}
}

const dayConfig = "/home/ana/.config/thoughtgate/thoughtgate.yaml"

// DayQuestions returns what waits: a call that destroys, one that reorders its text, and one whose agent waits no
// longer.
func DayQuestions() []*pb.Approval {
	ask := func(id, server, tool, arguments, reason, rule string, age time.Duration, facts ...string) *pb.Approval {
		return &pb.Approval{
			Id: id, State: pb.ApprovalState_APPROVAL_STATE_OPEN, Created: At(-age), Expires: At(10*time.Minute - age),
			Session: "s-5d41", Agent: "claude-code", Server: server, Launch: strings.Repeat("ab", 32), Method: "tools/call", Tool: tool, Call: "c-77", Attachment: "t-1",
			Arguments: []byte(`{"name":"` + tool + `","arguments":` + arguments + `}`), Subject: []byte(strings.Repeat("\x7f\x2c"+id, 4)),
			Reason: reason, Rule: rule + " (thoughtgate.yaml:10)", Facts: facts, Workflow: "default",
		}
	}
	left := ask("A-6", "mail", "send_mail", `{"to":"team@example.org","subject":"Notes"}`, "it sends something", `"send_*"`, 7*time.Minute, "sends")
	left.Parked = true
	return []*pb.Approval{
		left,
		ask("A-7", "github", "delete_branch", `{"owner":"ana","repo":"shop","branch":"feature/old-checkout"}`, "deleting cannot be undone", `"delete_*"`, 91*time.Second, "acts"),
		ask("A-8", "agent", "shell", `{"command":"rm -rf build notes && git clean -fdx","cwd":"/home/ana/shop"}`, "it destroys what can't be brought back", `"*" when destroys`, 48*time.Second,
			"destroys: deletes 214 files, 3 of them in no commit (command)", "undo: a copy of 3 files will be kept; to bring them back: tgctl undo A-8"),
		ask("A-9", "files", "write_file", `{"path":"/home/ana/shop/.env","content":"KEY=abc\u202e\n"}`, "it accesses credentials", `"*" when secret-place`, 12*time.Second, "secret-place (path)"),
	}
}

// dayLog writes the records of calls.
type dayLog struct {
	records []record.Record
	call    uint64
}

// dayCall is what is called, and what a gate has said of it.
type dayCall struct{ agent, session, server, tool, rule, reason, approval string }

// add adds a record of a call, so long before noon.
func (l *dayLog) add(kind record.Kind, c dayCall, ago time.Duration, verdict string) *record.Record {
	l.records = append(l.records, record.Record{
		Kind: kind, Agent: c.agent, Session: c.session, Server: c.server, Launch: strings.Repeat("ab", 32), Direction: "agent_to_server", Method: "tools/call", Tool: c.tool, Verdict: verdict,
		Gate: "rule", Rule: c.rule, Reason: c.reason, Approval: c.approval, Profile: "production", Digest: strings.Repeat("7f2c", 16), Set: strings.Repeat("0f", 32), LatencyUS: 85,
		Attachment: "t-" + c.server, Call: l.call, MessageID: fmt.Sprint(l.call), ID: fmt.Sprint("c-", l.call), Time: Noon.Add(-ago),
	})
	return &l.records[len(l.records)-1]
}

// forwarded adds a call that nobody was asked about.
func (l *dayLog) forwarded(c dayCall, ago time.Duration, outcome string) {
	l.call += 2
	l.add(record.KindCall, c, ago, "forward")
	l.add(record.KindOutcome, c, ago-time.Second, outcome)
}

// asked adds a call that was held until a person answered.
func (l *dayLog) asked(c dayCall, ago, waited time.Duration, answer, surface string) {
	l.call += 2
	l.add(record.KindCall, c, ago, "hold")
	d := l.add(record.KindDecision, c, ago-waited, answer)
	d.Decider, d.Surface, d.LatencyUS = "ana (uid 1000)", surface, waited.Microseconds()
	d.Peer = &record.Peer{UID: 1000, PID: 4711, Start: 98231, Handle: true, Exe: "/usr/bin/tgctl", TTY: "/dev/pts/3", Foreground: "4711 /usr/bin/tgctl", Above: []string{"4700 /usr/bin/bash", "1 (systemd)"}}
	if answer != "approved" {
		l.add(record.KindCall, c, ago-waited, "deny")
		return
	}
	l.add(record.KindCall, c, ago-waited, "forward")
	l.add(record.KindOutcome, c, ago-waited-time.Second, "ok")
}

// dayRecords returns a log of nine hours, in which two agents work.
func dayRecords() []record.Record {
	claude := func(server, tool string) dayCall {
		return dayCall{agent: "claude-code", session: "s-5d41", server: server, tool: tool}
	}
	query := dayCall{agent: "codex", session: "s-7d79", server: "postgres", tool: "query"}
	usual := []dayCall{claude("files", "read_file"), claude("agent", "shell"), query, claude("github", "list_issues"), claude("files", "write_file")}
	because := func(c dayCall, approval, rule, reason string) dayCall {
		c.approval, c.rule, c.reason = approval, rule, reason
		return c
	}
	l := &dayLog{records: []record.Record{
		{Kind: record.KindLog, Log: "5f3a", Time: Noon.Add(-26 * time.Hour)},
		{Kind: record.KindSession, Agent: "claude-code", Session: "s-5d41", Verdict: "opened", Time: Noon.Add(-9 * time.Hour)},
	}}
	for _, c := range []dayCall{usual[0], usual[3], query} {
		l.records = append(l.records, record.Record{Kind: record.KindAttach, Verdict: "attached", Attachment: "t-" + c.server, Agent: c.agent, Session: c.session, Server: c.server, Time: Noon.Add(-9 * time.Hour)})
	}
	for hour, busy := range []int{3, 6, 9, 4, 0, 8, 11, 7, 5} {
		for i := range busy {
			outcome := "ok"
			if (hour+i)%13 == 7 {
				outcome = "tool_error"
			}
			l.forwarded(usual[(hour+i)%len(usual)], time.Duration(9-hour)*time.Hour-time.Duration(i+1)*5*time.Minute, outcome)
		}
		if hour == 3 {
			l.asked(because(usual[4], "A-3", `"*" when secret-place (thoughtgate.yaml:9)`, "it accesses credentials"), 5*time.Hour+10*time.Minute, 95*time.Second, "rejected", "desktop")
		}
	}
	branch := claude("github", "delete_branch")
	l.asked(because(usual[1], "A-4", `"*" when destroys (thoughtgate.yaml:8)`, "it destroys what can't be brought back"), 14*time.Minute, 31*time.Second, "approved", "terminal")
	l.call += 2
	query.tool = "execute"
	l.add(record.KindCall, because(query, "", `"execute" (thoughtgate.yaml:12)`, "writing to the shop's database is not allowed"), 9*time.Minute, "deny")
	l.asked(because(branch, "A-5", `"delete_*" (thoughtgate.yaml:10)`, "deleting cannot be undone"), 6*time.Minute, 12*time.Second, "approved", "terminal")
	l.call += 2
	l.add(record.KindCall, because(branch, "A-7", `"delete_*" (thoughtgate.yaml:10)`, "deleting cannot be undone"), 91*time.Second, "hold").Facts = []string{"acts"}
	return l.records
}

// dayGoesOn returns the records of an answer to a question that waits at noon.
func dayGoesOn() []*pb.AuditRecord {
	l := &dayLog{records: dayRecords()}
	from, last := len(l.records), l.records[len(l.records)-1]
	l.call = last.Call
	c := dayCall{agent: last.Agent, session: last.Session, server: last.Server, tool: last.Tool, rule: last.Rule, reason: last.Reason, approval: last.Approval}
	l.add(record.KindDecision, c, 2*time.Second, "rejected")
	l.add(record.KindCall, c, 2*time.Second, "deny")
	return Chained(l.records)[from:]
}

func dayGrants() []*pb.Grant {
	return []*pb.Grant{
		{Id: "G-3", Agent: "claude-code", Server: "github", Method: "tools/call", Tool: "create_issue", Created: At(-time.Hour), Expires: At(time.Hour), Times: 5, Used: 2, Session: "s-5d41",
			Match: pb.GrantMatch_GRANT_MATCH_TOOL, Surface: "terminal"},
		{Id: "G-4", Agent: "claude-code", Server: "agent", Method: "tools/call", Tool: "shell", Created: At(-20 * time.Minute), Expires: At(100 * time.Minute), Used: 4, Session: "s-5d41", Surface: "terminal",
			Match: pb.GrantMatch_GRANT_MATCH_VERB, Grain: &pb.Grain{Program: "git", Verb: "push", Folder: "/home/ana/shop"}},
	}
}

func daySessions() []*pb.Session {
	return []*pb.Session{
		{Spec: &pb.SessionSpec{Id: "5d41402abc4b2a76b9719d911017c592", Agent: "claude-code", Command: []string{"claude"}, Project: "/home/ana/shop", Profile: pb.Profile_PROFILE_PRODUCTION},
			Opened: At(-9 * time.Hour), Pid: 4000, Attached: 3, Protection: strings.Repeat("1a57", 8)},
		{Spec: &pb.SessionSpec{Id: "7d793037a0760186574b0282f2f435e7", Agent: "codex", Command: []string{"codex"}, Project: "/home/ana/blog", Profile: pb.Profile_PROFILE_PRODUCTION},
			Opened: At(-50 * time.Minute), Pid: 4100, Attached: 2},
	}
}

func dayProcesses() []*pb.Process {
	server := func(id, name, session, agent string, pid int32, judged, denied uint64, memory uint64, command ...string) *pb.Process {
		return &pb.Process{Kind: "server", Name: name, Id: id, Server: name, Session: session, Agent: agent, Profile: "production", State: "running", Attachment: id, Command: command,
			ShimPid: pid - 1, ServerPid: pid, Pid: pid, Since: At(-50 * time.Minute), StateSince: At(-50 * time.Minute), Judged: judged, Denied: denied, Memory: memory, Build: "v0.1.0"}
	}
	github := server("t-3", "github", "s-5d41", "claude-code", 4006, 61, 1, 74_100_000, "npx", "-y", "@modelcontextprotocol/server-github")
	github.Pending = 1
	return []*pb.Process{
		server("t-0", "files", "s-5d41", "claude-code", 4002, 212, 0, 81_200_000, "npx", "-y", "@modelcontextprotocol/server-filesystem", "/home/ana/shop"),
		github,
		server("t-2", "postgres", "s-7d79", "codex", 4102, 38, 2, 68_000_000, "npx", "-y", "@modelcontextprotocol/server-postgres", "postgres:///shop"),
		{Kind: "extension", Name: "scrubber", State: "running", Pid: 4012, Memory: 12_400_000, Clients: 5, Since: At(-9 * time.Hour), StateSince: At(-9 * time.Hour), Command: []string{"./scrubber"}},
	}
}

func dayServers() []*pb.Server {
	launch := strings.Repeat(launchOne, 8)
	return []*pb.Server{
		{Id: "files", Launch: launch, Command: []string{"npx", "-y", "@modelcontextprotocol/server-filesystem", "/home/ana/shop"}, First: At(-26 * time.Hour), Seen: At(-time.Minute), Pins: 3},
		{Id: "github", Launch: launch, Command: []string{"npx", "-y", "@modelcontextprotocol/server-github"}, First: At(-26 * time.Hour), Seen: At(-time.Minute), Pins: 2, Waiting: 1},
	}
}

func dayPins() []*pb.Pin {
	pin := func(server, name string) *pb.Pin {
		return &pb.Pin{Ref: &pb.PinRef{Server: server, Launch: strings.Repeat(launchOne, 8), Kind: pb.PinKind_PIN_KIND_TOOL, Name: name}, Accepted: Digest(0xa1), Since: At(-26 * time.Hour)}
	}
	changed := pin("github", "delete_branch")
	changed.Reason, changed.Held, changed.Waiting, changed.Noticed = pb.PinReason_PIN_REASON_CHANGED, true, Digest(0xb2), At(-3*time.Minute)
	return []*pb.Pin{pin("files", "list_directory"), pin("files", "read_file"), pin("files", "write_file"), pin("github", "create_issue"), changed}
}

func dayPolicy() *pb.PolicySet {
	cited := func(kind, name, does, says string, line uint32) *pb.Citation {
		return &pb.Citation{Kind: kind, Name: name, Does: does, Says: says, File: dayConfig, Line: line, Column: 7}
	}
	return &pb.PolicySet{
		Source: dayConfig, Digest: strings.Repeat("0f", 32), Profile: "production", Rules: 4, Files: []*pb.PolicyFile{{Path: dayConfig, Digest: strings.Repeat("a1", 32)}},
		Since: At(-9 * time.Hour), By: "ana (uid 1000)",
		Detail: &pb.PolicyDetail{
			Rules: []*pb.PolicyEntry{
				{Cited: cited("rule", `"*" when destroys`, "approve", "it destroys what can't be brought back", 8), Undo: true},
				{Cited: cited("rule", `"*" when secret-place`, "approve", "it accesses credentials", 9)},
				{Cited: cited("rule", `"delete_*"`, "approve", "deleting cannot be undone", 10)},
				{Cited: cited("rule", `"execute"`, "deny", "writing to the shop's database is not allowed", 12), Sources: []string{"postgres"}},
				{Cited: &pb.Citation{Kind: "default", Name: "defaults.action", Does: "forward"}},
			},
			Workflows: []*pb.PolicyWorkflow{{Name: "default", Asks: "local", Timeout: durationpb.New(10 * time.Minute), Require: "any", Surfaces: []string{"terminal", "desktop", "page"}}},
		},
	}
}

func dayExplanation() *pb.Explanation {
	return &pb.Explanation{
		Verdict: "ask", Gate: "rule", Rule: `"*" when destroys (thoughtgate.yaml:8)`, Profile: "production", Reason: "it destroys what can't be brought back", Set: strings.Repeat("0f", 32),
		Workflow: "default", Timeout: durationpb.New(10 * time.Minute), Surfaces: []string{"terminal", "desktop", "page"},
		Facts: []*pb.CallFact{{Name: "destroys", Member: "command", Detail: "deletes 214 files, 3 of them in no commit"}},
		Cited: []*pb.Citation{{Kind: "rule", Name: `"*" when destroys`, File: dayConfig, Line: 8, Column: 7, Does: "approve", Says: "it destroys what can't be brought back"}},
		Near:  []*pb.NearRule{{Rule: &pb.Citation{Kind: "rule", Name: `"execute"`, File: dayConfig, Line: 12, Column: 7, Does: "deny"}, Because: "its source is postgres, the call's is agent"}},
		Changes: []*pb.PolicyChange{
			{Change: `without the rule "*" when destroys (thoughtgate.yaml:8)`, Verdict: "forward", By: "defaults.action"},
			{Change: "the call without the fact destroys", Alternative: true, Verdict: "forward"},
		},
	}
}

func dayTest(*pb.TestPoliciesRequest) *pb.TestPoliciesResponse {
	return &pb.TestPoliciesResponse{Files: []*pb.TestFileResult{{Path: "/home/ana/shop/shop.test.yaml", Results: []*pb.TestResult{
		{Name: "reading is forwarded", Line: 3, Got: &pb.Explanation{Verdict: "forward"}},
		{Name: "deleting a branch is asked about", Line: 7, Got: &pb.Explanation{Verdict: "ask"}},
		{Name: "the database is not written to", Line: 11, Got: dayExplanation(), Differences: []*pb.TestDifference{{What: "verdict", Want: "deny", Got: "ask"}}},
	}}}}
}

func dayBacktest() []*pb.BacktestEvent {
	flip := func(f *pb.BacktestFlip) *pb.BacktestEvent {
		return &pb.BacktestEvent{Event: &pb.BacktestEvent_Flip{Flip: f}}
	}
	tried := dayPolicy()
	tried.Source = "/home/ana/shop/new.yaml"
	return []*pb.BacktestEvent{
		{Event: &pb.BacktestEvent_Set{Set: &pb.BacktestSet{Set: tried}}},
		flip(&pb.BacktestFlip{Server: "github", Method: "tools/call", Subject: "delete_branch", Was: "ask", Would: "forward", Loosens: true, WasBy: `"delete_*" (thoughtgate.yaml:10)`, WouldBy: "defaults.action", Calls: 6, First: 14, Last: 139}),
		flip(&pb.BacktestFlip{Server: "postgres", Method: "tools/call", Subject: "query", Was: "forward", Would: "deny", WouldBy: `"query" (new.yaml:4)`, Reason: "only the replica may be read", Calls: 38, First: 7, Last: 131}),
		{Event: &pb.BacktestEvent_Summary{Summary: &pb.BacktestSummary{Calls: 412, Same: 368, Tighter: 38, Looser: 6, First: At(-7 * 24 * time.Hour), Last: At(-time.Minute)}}},
	}
}

// LongQuestion returns a question that no screen shows whole.
func LongQuestion() *pb.Approval {
	q := DayQuestions()[1]
	q.Id, q.Tool, q.Subject, q.Created, q.Expires = "A-10", "create_issue", []byte("what an issue says "), At(-5*time.Second), At(10*time.Minute-5*time.Second)
	q.Reason, q.Rule, q.Facts = "others read it at once", `"create_*" (thoughtgate.yaml:11)`, []string{"sends"}
	q.Arguments = []byte(`{"name":"create_issue","arguments":{"owner":"ana","repo":"shop","title":"The cart forgets its discount","body":"` +
		strings.Repeat(`Steps to repeat it:\n1. Put three mugs into the cart.\n2. Enter the code AUTUMN.\n3. Reload the page.\n\nThe discount is gone, and the sum is that of three mugs.\n\n`, 12) + `"}}`)
	return q
}
