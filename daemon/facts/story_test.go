package facts_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/facts"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/policy"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// A story is a session in a readable file: the calls of an agent, the messages of servers, and
// the questions to a person under the built-in default.
//
//	# a comment
//	mail.search {"query": "rent"}       the agent calls a tool of the server mail
//	  From: Ann <ann@acme.io>           what it answers, indented by two blanks
//	  ...
//	? planted eve@evil.io by web        under a call: a person is asked, and of the
//	?= eve@evil.io was named by ...     facts this is one; the words of the question
//	mail lists search send! read        what tools/list says; ! marks one that destroys
//	mail fails no such message          the answer to the last call is an error
//	mail says notifications/message {"data": "..."}      anything else that passes
//	mail asks sampling/createMessage {"messages": [...]}
//	mail answers prompts/get {"messages": [...]}         a result for that method
//
// Each call without a ? is forwarded without a question. A person who is asked approves.
type story struct {
	t         *testing.T
	file      string
	gate      *gate.Gate
	shims     map[string]*gate.Attachment
	toolDeeds chan gate.Verdict
	seq       uint64
	facts     *facts.Finder

	questions []*gate.Question // all questions
	asked     *gate.Question   // by the last call
	pending   string           // the server whose answer is being parsed
	answer    []string
	expected  []string
	line      int // of the last call
}

func playStory(t *testing.T, file string) *story {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := newStory(t, file)
	for i, line := range strings.Split(string(text), "\n") {
		if answer, ok := strings.CutPrefix(line, "  "); ok && s.pending != "" {
			s.answer = append(s.answer, answer)
			continue
		}
		if line == "" && s.answer != nil {
			s.answer = append(s.answer, "")
			continue
		}
		if expected, ok := strings.CutPrefix(line, "?"); ok {
			s.expected = append(s.expected, expected)
			continue
		}
		s.finish()
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			s.line = i + 1
			s.step(line)
		}
	}
	s.finish()
	return s
}

func newStory(t *testing.T, file string) *story {
	t.Helper()
	set, problems := policy.Load(config.Default())
	if set == nil {
		t.Fatal(problems)
	}
	s := &story{t: t, file: file, shims: map[string]*gate.Attachment{}, toolDeeds: make(chan gate.Verdict, 16)}
	s.facts = facts.New(facts.Options{Home: "/home/u"})
	s.gate = &gate.Gate{Policy: func() gate.Policy { return set }, Facts: s.facts, Approver: s, Recorder: s, Logger: slog.New(slog.DiscardHandler)}
	return s
}

func (s *story) failf(format string, args ...any) {
	s.t.Helper()
	s.t.Errorf("%s:%d: %s", s.file, s.line, fmt.Sprintf(format, args...))
}

// Record discards the record.
func (s *story) Record(context.Context, *record.Record, []byte, []string) error { return nil }

// Ask approves at once.
func (s *story) Ask(_ context.Context, q *gate.Question) (gate.Held, error) {
	s.questions = append(s.questions, q)
	s.asked = q
	return yes{q.Call.Extent}, nil
}

type yes struct{ shown gate.Extent }

func (yes) ID() string { return "A-1" }
func (y yes) Wait(context.Context) (gate.Answer, error) {
	return gate.Answer{ID: "A-1", Approved: true, State: "approved", Extent: y.shown}, nil
}

func (s *story) shim(server string) *gate.Attachment {
	a := s.shims[server]
	if a == nil {
		a = s.gate.Attach(s.t.Context(), gate.Shim{
			Attachment: "attachment-" + server, Session: "story", Agent: "custom", Project: "/home/u/project", Server: server,
		}, nil)
		a.Bind(func(v gate.Verdict) { s.toolDeeds <- v })
		s.shims[server] = a
	}
	return a
}

func (s *story) step(line string) {
	first, rest, _ := strings.Cut(line, " ")
	if server, tool, ok := strings.Cut(first, "."); ok {
		s.call(server, tool, rest)
		return
	}
	verb, rest, _ := strings.Cut(rest, " ")
	method, body, _ := strings.Cut(rest, " ")
	switch verb {
	case "lists":
		s.lists(first, strings.Fields(rest))
	case "fails":
		s.shim(first).ObserveMessage(wire.FromServer, "tools/call", object(`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":%s}}`, rest), 0)
	case "says":
		s.shim(first).ObserveMessage(wire.FromServer, method, []byte(fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s}`, method, body)), 0)
	case "answers":
		s.shim(first).ObserveMessage(wire.FromServer, method, []byte(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":%s}`, body)), 0)
	case "asks":
		s.submit(first, wire.FromServer, []byte(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, body)), "")
	default:
		s.failf("no such step: %s", line)
	}
}

// object inserts text as a JSON string into a line.
func object(format, text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return []byte(fmt.Sprintf(format, quoted))
}

func (s *story) call(server, tool, args string) {
	if args == "" {
		args = "{}"
	}
	if !json.Valid([]byte(args)) {
		s.failf("no JSON: %s", args)
	}
	s.asked = nil
	s.submit(server, wire.FromAgent, []byte(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, args)), "")
	s.pending = server
}

// submit has a line judged and waits for the verdict, which must be forward.
func (s *story) submit(server string, side wire.Side, line []byte, answers string) gate.Verdict {
	s.seq++
	s.shim(server).Submit(gate.Submission{Seq: s.seq, Side: side, Line: line, Answers: answers})
	v := <-s.toolDeeds
	for v.Move == gate.Ask {
		v = <-s.toolDeeds
	}
	if v.Move != gate.Forward {
		s.failf("refused: %s", v.Reason)
	}
	return v
}

func (s *story) lists(server string, names []string) {
	var tools []map[string]any
	for _, name := range names {
		plain := strings.TrimSuffix(name, "!")
		tool := map[string]any{"name": plain, "description": "Does " + plain + "."}
		if plain != name {
			tool["annotations"] = map[string]any{"destructiveHint": true}
		}
		tools = append(tools, tool)
	}
	result, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "result": map[string]any{"tools": tools}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.submit(server, wire.FromServer, result, "tools/list")
}

// finish checks the last call and has its server answer.
func (s *story) finish() {
	if s.pending == "" {
		return
	}
	s.check()
	if s.answer != nil {
		text := strings.Join(s.answer, "\n")
		s.shim(s.pending).ObserveMessage(wire.FromServer, "tools/call", object(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":%s}]}}`, text), 0)
	}
	s.pending, s.answer, s.expected = "", nil, nil
}

// check compares the questions with those in the story.
func (s *story) check() {
	if s.asked == nil {
		if len(s.expected) > 0 {
			s.failf("nobody is asked, want %q", s.expected)
		}
		return
	}
	var got []string
	for _, f := range s.asked.Facts {
		text := f.Name
		if f.Place != "" {
			text += " " + f.Place
		}
		if f.By != "" {
			text += " by " + f.By
		}
		got = append(got, text)
	}
	if len(s.expected) == 0 {
		s.failf("a person is asked: %s %q", s.asked.Ruling.Reason, got)
	}
	for _, want := range s.expected {
		if words, ok := strings.CutPrefix(want, "= "); ok {
			if s.asked.Ruling.Reason != words {
				s.failf("the question\n says %s\n want %s", s.asked.Ruling.Reason, words)
			}
		} else if !slices.Contains(got, strings.TrimSpace(want)) {
			s.failf("got %q, want %s", got, want)
		}
	}
}

func stories(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err == nil && len(files) == 0 {
		err = errors.New("no stories: " + pattern)
	}
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// Attacks through what agents read: each must cause a question at the step that does harm, with a
// reason that explains it.
func TestAttacks(t *testing.T) {
	for _, file := range stories(t, "testdata/attacks/*.txt") {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			if s := playStory(t, file); len(s.questions) == 0 {
				t.Error("nobody was asked anything")
			}
		})
	}
}

// A developer's day: twenty sessions with several servers each. In all of them together, a person
// is asked at most twice, apart from calls that act or that send to a new place.
func TestOrdinaryDay(t *testing.T) {
	files := stories(t, "testdata/days/*.txt")
	if len(files) < 20 {
		t.Errorf("%d sessions, want 20", len(files))
	}
	calls, needless := 0, 0
	for _, file := range files {
		s := playStory(t, file)
		calls += int(s.seq)
		if len(s.shims) < 2 {
			t.Errorf("%s has one server only", file)
		}
		for _, q := range s.questions {
			if !slices.ContainsFunc(q.Facts, func(f gate.Fact) bool { return f.Name == gate.FactActs || f.Name == gate.FactNewPlace }) {
				needless++
				t.Logf("%s: %s/%s: %s", file, q.Call.Server, q.Call.Subject, q.Ruling.Reason)
			}
		}
	}
	if needless > 2 {
		t.Errorf("a person is asked %d times without need in %d calls, want 2 at most", needless, calls)
	}
	if calls < 200 {
		t.Errorf("%d calls are no day", calls)
	}
}

// The page about facts shows the built-in default as it is.
func TestPageShowsTheDefault(t *testing.T) {
	page, err := os.ReadFile("../../docs/facts.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```yaml\n")
	block, _, _ = strings.Cut(block, "```")
	shown, problems := config.Parse("docs/facts.md", []byte(block), os.Getenv)
	if shown == nil || len(problems) > 0 {
		t.Fatal(problems)
	}
	builtIn := config.Default()
	if got, want := describe(shown), describe(builtIn); got != want {
		t.Errorf("the page says\n%s\nand what holds is\n%s", got, want)
	}
}

func describe(c *config.Config) string {
	out := fmt.Sprintf("%s %s %s\n", c.Governance.Defaults.Action, c.Governance.Defaults.Asks, c.Pins.Mode)
	for _, r := range c.Governance.Rules {
		out += fmt.Sprintf("%s %s %v %s %s\n", r.Match, r.Action, r.When, r.Approval, r.Description)
	}
	return out
}
