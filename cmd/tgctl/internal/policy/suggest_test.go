package policy

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/policy"
	"github.com/thoughtgate/thoughtgated/daemon/rehearse"
	"github.com/thoughtgate/thoughtgated/internal/record"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// suggestFile is a configuration whose fourth and fifth rule ask about what is suggested below.
const suggestFile = `schema: 1
governance:
  rules:
    - {when: secret, action: deny}
    - match: "delete_*"
      action: deny
    - match: "write_*"
      action: approve
      approval: ops
    - {match: "*", action: approve, approval: board}
approval:
  ops: {destination: {type: local}}
  board: {destination: {type: local}}
`

const writeRule = `"write_*" (thoughtgate.yaml:7)`

// made is a call as a test records it, with the question about it and its answer.
type made struct {
	tool, args, agent, server, launch, rule string
	facts                                   []string
	decision                                func(*record.Record) // nil: nobody answers
}

// byPerson is an approval that counts.
func byPerson(r *record.Record) {
	r.Verdict, r.Surface, r.Level, r.Decider = "approved", "terminal", "watch", "pid 7 /usr/bin/tgctl on /dev/pts/3"
	r.Peer = &record.Peer{UID: 1000, PID: 7, Start: 1, Handle: true, Exe: "/usr/bin/tgctl", TTY: "/dev/pts/3"}
}

func but(change func(*record.Record)) func(*record.Record) {
	return func(r *record.Record) {
		byPerson(r)
		change(r)
	}
}

// logOf returns a log with calls, and the calls as a backtest reads them.
func logOf(calls ...made) (iter.Seq2[*pb.AuditRecord, error], []*rehearse.Recorded) {
	var records []record.Record
	var values [][]byte
	for i, m := range calls {
		r := record.Record{
			Time: consoletest.Noon.Add(time.Duration(i) * time.Second).UTC(), Kind: record.KindCall, Attachment: "t-1", Call: uint64(i + 1), ID: fmt.Sprint("c-", i), Agent: m.agent, Server: m.server, Launch: m.launch,
			Direction: "agent_to_server", Method: "tools/call", Tool: m.tool, MessageID: "1", Verdict: "hold", Gate: "ask", Rule: m.rule, Facts: m.facts, Profile: "production", Approval: fmt.Sprint("A-", i+1),
		}
		if r.Agent == "" {
			r.Agent = "claude-code"
		}
		if r.Server == "" {
			r.Server = "files"
		}
		if r.Rule == "" {
			r.Rule = writeRule
		}
		records = append(records, r)
		if m.args == "" {
			values = append(values, []byte(`{"values":1,"bytes":20,"hmac":"00"}`))
		} else {
			values = append(values, fmt.Appendf(nil, `{"values":1,"arguments":%s,"bytes":%d,"hmac":"00"}`, m.args, len(m.args)))
		}
		if m.decision != nil {
			d := r
			d.Kind, d.Rule = record.KindDecision, ""
			m.decision(&d)
			records, values = append(records, d), append(values, nil)
		}
	}
	lines := consoletest.Chained(records)
	var recorded []*rehearse.Recorded
	for i, line := range lines {
		line.Values = values[i]
		if records[i].Kind == record.KindCall {
			rec := &rehearse.Recorded{Record: records[i]}
			rec.Record.Seq = line.GetSeq()
			var v struct{ Arguments json.RawMessage }
			if json.Unmarshal(values[i], &v) == nil {
				rec.Values, rec.Whole = v.Arguments, v.Arguments != nil
			}
			recorded = append(recorded, rec)
		}
	}
	return func(yield func(*pb.AuditRecord, error) bool) {
		for _, line := range lines {
			if !yield(line, nil) {
				return
			}
		}
	}, recorded
}

// suggested returns what is suggested for calls, and why there is not more.
func suggested(t *testing.T, calls ...made) (all []*suggestion, why []string) {
	t.Helper()
	log, _ := logOf(calls...)
	questions, _, err := readAsked(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groupsOf(questions) {
		if len(g.counts) < suggestMin {
			continue
		}
		if u := g.unsuited(); u != "" {
			why = append(why, string(u))
			continue
		}
		some, u := g.suggestions(suggestMin, "/home/ann")
		all = append(all, some...)
		if u != "" {
			why = append(why, string(u))
		}
	}
	return all, why
}

func widthsOf(all []*suggestion) string {
	return strings.Join(ui.Map(all, func(s *suggestion) string { return fmt.Sprint(s.Width, " ", s.Covers) }), ", ")
}

func note(name string) string {
	return `{"path":"/home/ann/shop/notes/` + name + `.txt","content":"buy milk"}`
}

// write is a call that is approved.
func write(args string, change func(*made)) made {
	m := made{tool: "write_file", args: args, decision: byPerson}
	if change != nil {
		change(&m)
	}
	return m
}

// Only approvals count that a person gave, of what was asked, at a terminal as the kernel showed it, or with presence.
func TestWhichAnswersCount(t *testing.T) {
	for _, test := range []struct {
		name     string
		decision func(*record.Record)
		counts   bool
	}{
		{"terminal", byPerson, true},
		{"presence on a page", but(func(r *record.Record) { r.Surface, r.Level, r.Peer = "page", "presence", nil }), true},
		{"denied", but(func(r *record.Record) { r.Verdict = "rejected" }), false},
		{"expired", but(func(r *record.Record) { r.Verdict = "expired" }), false},
		{"a claim without a terminal", but(func(r *record.Record) { r.Peer.TTY = "" }), false},
		{"a claim without a process", but(func(r *record.Record) { r.Peer = nil }), false},
		{"script", but(func(r *record.Record) { r.Surface = "script" }), false},
		{"slack", but(func(r *record.Record) { r.Surface, r.Approver = "slack", "U1" }), false},
		{"phone", but(func(r *record.Record) { r.Surface = "phone" }), false},
		{"page", but(func(r *record.Record) { r.Surface = "page" }), false},
		{"desktop", but(func(r *record.Record) { r.Surface = "desktop" }), false},
		{"edited", but(func(r *record.Record) { r.Reason = "fine; with changed arguments, SHA-256 00" }), false},
		{"nobody", nil, false},
	} {
		log, _ := logOf(made{tool: "write_file", args: note("a"), decision: test.decision})
		all, _, err := readAsked(log)
		if err != nil || len(all) != 1 || all[0].counts != test.counts || all[0].calls != 1 || string(all[0].args) != note("a") {
			t.Errorf("%s: %+v, %v", test.name, all[0], err)
		}
	}
}

func TestWhatIsSuggested(t *testing.T) {
	same := write(note("a"), nil)
	three := []made{write(note("a"), nil), write(note("b"), nil), write(note("c"), nil)}
	with := func(change func(*made)) []made {
		all := slices.Clone(three)
		change(&all[2])
		return all
	}
	denied := func(args string) made {
		return made{tool: "write_file", args: args, decision: but(func(r *record.Record) { r.Verdict, r.Surface = "rejected", "script" })}
	}
	inFolder := func(folder string) []made {
		return ui.Map([]string{"a", "b", "c"}, func(name string) made { return write(`{"path":"`+folder+name+`"}`, nil) })
	}
	for _, test := range []struct {
		name      string
		calls     []made
		want, why string
	}{
		{"the same", []made{same, same, same}, "exact 3, tool 3", ""},
		{"of one folder", three, "folder 3, tool 3", ""},
		{"both", append(slices.Clone(three), same, same), "exact 3, folder 5, tool 5", ""},
		{"twice", []made{same, same}, "", ""},
		{"two of three by a person", with(func(m *made) { m.decision = nil }), "", ""},
		{"not recorded", with(func(m *made) { m.args = "" }), "tool 3", "arguments were not recorded"},
		{"once denied", append(slices.Clone(three), denied(note("x"))), "", "denied"},
		{"once denied, of unknown arguments", append(slices.Clone(three), denied("")), "", "denied"},
		{"denied with other arguments", append(slices.Clone(three), denied(`{"path":"/home/ann/shop/x","mode":"0777"}`)), "folder 3", ""},
		{"a fact", with(func(m *made) { m.facts = []string{"remote", "acts"} }), "", "the fact acts"},
		{"an unknown fact", with(func(m *made) { m.facts = []string{"explodes"} }), "", "the fact explodes"},
		{"behind an address", with(func(m *made) { m.facts = []string{"remote"} }), "folder 3, tool 3", ""},
		{"two programs", with(func(m *made) { m.launch = "ab" }), "", "different programs"},
		{"the agent's own tool", ui.Map([]made{same, same, same}, func(m made) made { m.server, m.tool = "agent", "write"; return m }), "exact 3", "its very arguments"},
		{"a name for no pattern", ui.Map(three, func(m made) made { m.tool = "write_{x}"; return m }), "", "no pattern"},
		{"home", inFolder("/home/ann/"), "tool 3", ""},
		{"of everybody", inFolder("/home/"), "tool 3", ""},
		{"hidden", inFolder("/home/ann/.config/x/"), "tool 3", ""},
		{"deep enough", inFolder("/home/ann/shop/"), "folder 3, tool 3", ""},
		{"relative", inFolder("notes/"), "tool 3", ""},
		{"upwards", inFolder("/home/ann/shop/notes/../"), "tool 3", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			all, why := suggested(t, test.calls...)
			if got := widthsOf(all); got != test.want || !strings.Contains(strings.Join(why, "; "), test.why) || test.why == "" && len(why) > 0 {
				t.Errorf("suggested %q, because %q; want %q, %q", got, why, test.want, test.why)
			}
		})
	}
}

// judged returns the verdicts of calls under a configuration with a suggestion.
func judged(t *testing.T, s *suggestion, calls ...made) string {
	t.Helper()
	dir := t.TempDir()
	s.asksIn("ops")
	text, err := insertAbove(strings.Split(suggestFile, "\n"), 7, s.YAML)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "thoughtgate.yaml")
	if err := writeBelow(dir, "thoughtgate.yaml", text); err != nil {
		t.Fatal(err)
	}
	if s.Cedar != "" {
		if err := writeBelow(dir, cedarFile, []byte(s.Cedar)); err != nil {
			t.Fatal(err)
		}
	}
	cfg, problems := config.Load(path, os.Getenv)
	if cfg == nil || len(problems) > 0 {
		t.Fatalf("%v\n%s", problems, text)
	}
	set, problems := policy.Load(cfg)
	if set == nil || len(problems) > 0 {
		t.Fatalf("%v\n%s\n%s", problems, text, s.Cedar)
	}
	var verdicts []string
	_, recorded := logOf(calls...)
	for _, r := range recorded {
		b := rehearse.NewBacktest(set.Partly())
		b.Add(t.Context(), r)
		verdict := "ask"
		for _, f := range b.Flips() {
			verdict = f.Kind.Would
		}
		for _, u := range b.Unknowns() {
			verdict = "unknown: " + u.Kind.Because
		}
		verdicts = append(verdicts, verdict)
	}
	return strings.Join(verdicts, ", ")
}

// Each suggestion is a rule that the configuration's reader takes. It forwards what it covers, and goes on to ask about, or to
// deny, all else: other arguments, other folders, other agents and servers, and above all what has a fact.
func TestSuggestionsDoWhatTheySay(t *testing.T) {
	covered := []made{write(note("a"), nil), write(note("b"), nil), write(note(`c \"*\" \\ é`), nil), write(note("a"), nil), write(note("a"), nil)}
	unanswered := write(`{"path":"/home/ann/shop/notes/a.txt","content":"","mode":1}`, func(m *made) { m.decision = nil })
	all, why := suggested(t, append(slices.Clone(covered), unanswered)...)
	if widthsOf(all) != "exact 3, folder 5, tool 5" {
		t.Fatalf("suggested %s, %q", widthsOf(all), why)
	}
	others := []made{
		write(note("d"), nil), // of the folder
		write(`{"path":"/home/ann/shop/notes/a.txt","content":"buy milk","mode":1}`, nil), // with one more argument
		write(`{"path":"/home/ann/shop/notes/../../x","content":""}`, nil),
		write(`{"path":"/home/ann/shop/notesx","content":""}`, nil),
		write(`{"content":""}`, nil),
		write(note("a"), func(m *made) { m.agent = "cursor" }),
		write(note("a"), func(m *made) { m.server = "other" }),
		write(note("a"), func(m *made) { m.tool = "write_other" }),
	}
	want := map[string]string{
		widthExact:  "ask, ask, ask, ask, ask, ask, ask, ask",
		widthFolder: "forward, forward, ask, ask, ask, ask, ask, ask",
		widthTool:   "forward, forward, forward, forward, forward, ask, ask, ask",
	}
	for _, s := range all {
		wanted := "forward, forward, forward, forward, forward"
		if s.Width == widthExact {
			wanted = "forward, ask, ask, forward, forward"
		}
		if got := judged(t, s, covered...); got != wanted {
			t.Errorf("%s: covered calls: %s, want %s", s.Width, got, wanted)
		}
		if got := judged(t, s, others...); got != want[s.Width] {
			t.Errorf("%s: other calls: %s, want %s\n%s\n%s", s.Width, got, want[s.Width], s.YAML, s.Cedar)
		}
		for _, fact := range factsThatAsk() {
			got := judged(t, s, write(note("a"), func(m *made) { m.facts = []string{fact} }))
			if want := map[bool]string{true: "deny", false: "ask"}[fact == "secret"]; got != want {
				t.Errorf("%s: with the fact %s: %s, want %s", s.Width, fact, got, want)
			}
		}
		if got := judged(t, s, write(note("a"), func(m *made) { m.facts = []string{"remote"} })); got != "forward" {
			t.Errorf("%s: behind an address: %s", s.Width, got)
		}
	}
}

// Every fact has a place in the table: those that rules can name, and those that docs/facts.md lists.
func TestEveryFactIsInTheTable(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/facts.md")
	if err != nil {
		t.Fatal(err)
	}
	known := config.Facts()
	for _, row := range regexp.MustCompile("(?m)^\\| (`[a-z-]+`(?:, `[a-z-]+`)*) \\|").FindAllStringSubmatch(string(page), -1) {
		for _, name := range strings.Split(row[1], ", ") {
			known = append(known, strings.Trim(name, "`"))
		}
	}
	known = ui.Unique(append(known, "undo", "no-undo"))
	if got := slices.Sorted(maps.Keys(suggestFacts)); !slices.Equal(got, known) {
		t.Errorf("the table has %q, the facts are %q", got, known)
	}
	if got := ui.Filter(known, mayBeForwarded); !slices.Equal(got, []string{"remote"}) {
		t.Errorf("may be forwarded: %q", got)
	}
}

// A suggestion that changes other verdicts, or does less than it says, is of no use.
func TestUselessSuggestions(t *testing.T) {
	flip := func(tool, was, would string, calls uint64) *pb.BacktestEvent {
		return &pb.BacktestEvent{Event: &pb.BacktestEvent_Flip{Flip: &pb.BacktestFlip{Server: "files", Method: "tools/call", Subject: tool, Was: was, Would: would, Calls: calls, First: 3, Last: 9}}}
	}
	for _, test := range []struct {
		name  string
		flips []*pb.BacktestEvent
		why   string
	}{
		{"as it says", []*pb.BacktestEvent{flip("write_file", "ask", "forward", 4)}, ""},
		{"another tool", []*pb.BacktestEvent{flip("write_file", "ask", "forward", 4), flip("read_file", "ask", "forward", 1)}, "other calls: files read_file from ask to forward"},
		{"a denied call", []*pb.BacktestEvent{flip("write_file", "deny", "forward", 4)}, "from deny to forward"},
		{"tighter", []*pb.BacktestEvent{flip("write_file", "ask", "deny", 4)}, "from ask to deny"},
		{"less", []*pb.BacktestEvent{flip("write_file", "ask", "forward", 2)}, "2 of the 3 calls"},
	} {
		b := &Backtested{summary: &pb.BacktestSummary{Calls: 9}}
		for _, e := range test.flips {
			b.Add(e)
		}
		s := &suggestion{Server: "files", Tool: "write_file", Covers: 3}
		if why := string(s.judge(b)); (why == "") != (test.why == "") || !strings.Contains(why, test.why) {
			t.Errorf("%s: %q, want %q", test.name, why, test.why)
		}
	}
}

// Without a file of the person's, or with one that is not in force, nothing is suggested.
func TestSuggestNeedsAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "thoughtgate.yaml")
	for _, test := range []struct {
		set  *pb.PolicySet
		says string
	}{
		{&pb.PolicySet{}, "no configuration file is in force"},
		{&pb.PolicySet{Source: path, Files: []*pb.PolicyFile{{Path: path, Changed: true}}}, "has changed since it was loaded"},
		{&pb.PolicySet{Source: path, Files: []*pb.PolicyFile{{Path: path}}}, "read " + path},
	} {
		daemon := consoletest.Start(t)
		daemon.Set = test.set
		c := consoletest.New(daemon.Socket, Command)
		if code := c.Run(t, "policy", "suggest"); code != ui.ExitFailed || !strings.Contains(c.Err.String(), test.says) {
			t.Errorf("exit %d, said %q; want %q", code, c.Err.String(), test.says)
		}
	}
	for _, rules := range []string{"rules: [{match: a, action: approve}]", "-", ""} {
		if _, err := insertAbove([]string{rules}, 1, "  - match: b\n"); err == nil {
			t.Errorf("put above %q", rules)
		}
	}
}

func TestIsNarrow(t *testing.T) {
	for folder, want := range map[string]bool{
		"/": false, "/srv": false, "/srv/home": false, "/srv/home/ann": false, "/srv/home/ann/shop": true, "/srv/home/annex": true,
		"/srv/home/ann/.ssh": false, "/srv/home/ann/.config/x": false, "/srv/home/ben": true,
	} {
		if got := isNarrow(folder, "/srv/home/ann/"); got != want {
			t.Errorf("%s: %t", folder, got)
		}
	}
	if isNarrow("/srv/home/x", "/srv/home/x/y/z") {
		t.Error("a folder above the home folder is narrow")
	}
}

// Only the ten tools approved most often are looked at, and what was not is said; with --json each tool with its reason.
func TestSuggestSaysWhatItLeftOut(t *testing.T) {
	f := consoletest.Start(t)
	path := filepath.Join(t.TempDir(), "thoughtgate.yaml")
	if err := os.WriteFile(path, []byte(suggestFile), 0o600); err != nil {
		t.Fatal(err)
	}
	f.Set = &pb.PolicySet{Source: path, Detail: &pb.PolicyDetail{}}
	var calls []made
	for n := range 12 {
		for range suggestMin {
			calls = append(calls, made{tool: fmt.Sprint("write_", n), args: "{}", facts: []string{"sends"}, decision: byPerson})
		}
	}
	log, _ := logOf(calls...)
	for r := range log {
		f.Records = append(f.Records, r)
	}
	c := newConsole(f.Socket)
	c.App.Now = func() time.Time { return consoletest.Noon.Add(time.Hour) }
	code := c.Run(t, "policy", "suggest")
	said := strings.Join(strings.Fields(c.Err.String()), " ")
	if code != 0 || strings.Count(said, "Nothing more is suggested for") != maxSuggestedTools || !strings.Contains(said, "2 more tools were approved 3 times or more and not looked at") {
		t.Errorf("exit %d: %s", code, said)
	}
	code = c.Run(t, "policy", "suggest", "--json")
	lines := strings.Split(strings.TrimSpace(c.Out.String()), "\n")
	if code != 0 || len(lines) != 12 || !strings.Contains(lines[0], `"reason":"calls have the fact sends`) || !strings.Contains(lines[11], `"reason":"not looked at`) {
		t.Errorf("exit %d: %s", code, c.Out.String())
	}
}
