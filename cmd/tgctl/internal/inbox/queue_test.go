//gotest:plain one goroutine takes keys and draws, and takes five times as long under the race detector
package inbox

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/client/inbox"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// screenTest is a queue without a terminal and a daemon.
type screenTest struct {
	*queue
	now    time.Time
	asked  map[string]*pb.Approval // the daemon's questions
	wishes []action                // all wishes so far
	editor func(*pb.Approval) ([]byte, error)
}

// newScreen returns a queue of the given size, with the given questions open.
func newScreen(width, height int, asked ...*pb.Approval) *screenTest {
	s := &screenTest{now: consoletest.Noon, asked: map[string]*pb.Approval{}}
	s.editor = func(*pb.Approval) ([]byte, error) { return []byte(`{"repo":"mine"}`), nil }
	a := &app{newConsole("").App}
	a.Now = func() time.Time { return s.now }
	s.queue = &queue{app: a}
	s.say(tea.WindowSizeMsg{Width: width, Height: height})
	s.say(inbox.Event{Kind: inbox.Connected})
	for _, q := range asked {
		s.ask(q)
	}
	s.later(time.Second)
	return s
}

func (s *screenTest) later(d time.Duration) { s.now = s.now.Add(d) }

// say passes msg to the queue. If the queue wants to read a question, it is read.
func (s *screenTest) say(msg tea.Msg) {
	w := s.told(msg)
	s.wishes = append(s.wishes, w)
	if w.edit != nil {
		arguments, err := s.editor(w.edit)
		s.say(queueMsg(func(q *queue) action { return q.edited(w.edit, arguments, err) }))
	}
	if w.read == nil {
		return
	}
	if q := s.asked[w.read.id]; q != nil {
		s.load(w.read, proto.CloneOf(q), nil)
	} else {
		s.load(w.read, nil, client.NewError(client.ReasonNotFound, "there is no question "+w.read.id))
	}
}

// load passes a question that was read for d to the queue.
func (s *screenTest) load(d *detail, read *pb.Approval, err error) {
	s.say(queueMsg(func(q *queue) action { return q.loaded(d, read, err) }))
}

func (s *screenTest) ask(q *pb.Approval) {
	if was := s.asked[q.GetId()]; was != nil && !bytes.Equal(was.GetSubject(), q.GetSubject()) {
		s.say(inbox.Event{Kind: inbox.Ended, Question: &pb.Approval{Id: q.GetId()}})
	}
	s.asked[q.GetId()] = q
	s.say(inbox.Event{Kind: inbox.Open, Question: q})
}

// keys presses keys. Each word is one key, such as "a" or "enter".
func (s *screenTest) keys(words string) {
	for key := range strings.FieldsSeq(words) {
		msg := tea.KeyPressMsg{Code: rune(key[0]), Text: key}
		switch key {
		case "up":
			msg = tea.KeyPressMsg{Code: tea.KeyUp}
		case "down":
			msg = tea.KeyPressMsg{Code: tea.KeyDown}
		case "left":
			msg = tea.KeyPressMsg{Code: tea.KeyLeft}
		case "right":
			msg = tea.KeyPressMsg{Code: tea.KeyRight}
		case "enter":
			msg = tea.KeyPressMsg{Code: tea.KeyEnter}
		case "esc":
			msg = tea.KeyPressMsg{Code: tea.KeyEscape}
		case "space":
			msg = tea.KeyPressMsg{Code: tea.KeySpace, Text: " "}
		case "end":
			msg = tea.KeyPressMsg{Code: tea.KeyEnd}
		case "home":
			msg = tea.KeyPressMsg{Code: tea.KeyHome}
		case "tab":
			msg = tea.KeyPressMsg{Code: tea.KeyTab}
		case "backspace":
			msg = tea.KeyPressMsg{Code: tea.KeyBackspace}
		case "ctrl+c":
			msg = tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}
		}
		s.say(msg)
	}
}

// end ends a question as if somebody else had decided it.
func (s *screenTest) end(id string, state pb.ApprovalState, decider, note string) {
	q := proto.CloneOf(s.asked[id])
	q.State, q.Decider, q.Surface, q.Note, q.Arguments = state, decider, "", note, nil
	if decider != "" {
		q.Surface = "desktop"
	}
	s.asked[id] = q
	s.say(inbox.Event{Kind: inbox.Ended, Question: q})
}

// decisions returns the wished decisions as text.
func (s *screenTest) decisions() []string {
	var out []string
	for _, w := range s.wishes {
		if d := w.decide; d != nil {
			said := strings.TrimSpace(fmt.Sprintf("%s %s %x %s", d.GetAnswer(), d.GetId(), d.GetSubject()[:4], d.GetNote()))
			if d.GetEdit() != nil {
				said += " " + string(d.GetEdit())
			}
			out = append(out, said+grantText(d.GetGrant()))
		}
	}
	return out
}

// grantText formats the terms of a grant.
func grantText(g *pb.GrantTerms) string {
	if g == nil {
		return ""
	}
	words := []string{"", map[pb.GrantMatch]string{
		pb.GrantMatch_GRANT_MATCH_TOOL: "tool", pb.GrantMatch_GRANT_MATCH_ARGUMENTS: "args", pb.GrantMatch_GRANT_MATCH_SOME: "some",
	}[g.GetMatch()]}
	if len(g.GetArguments()) > 0 {
		words = append(words, strings.Join(g.GetArguments(), ","))
	}
	words = append(words, g.GetFor().AsDuration().String())
	if g.GetTimes() > 0 {
		words = append(words, fmt.Sprint(g.GetTimes()))
	}
	return strings.Join(append(words, strings.ToLower(strings.TrimPrefix(g.GetScope().String(), "GRANT_SCOPE_"))), " ")
}

// text returns the screen as text. Highlighted lines begin with a star.
func (s *screenTest) text() string {
	var b strings.Builder
	for _, line := range s.screen() {
		mark := " "
		if line.strong {
			mark = "*"
		}
		b.WriteString(strings.TrimRight(mark+"|"+string(line.text), " ") + "\n")
	}
	return b.String()
}

// openQuestions returns the open ones of questions.
func openQuestions() []*pb.Approval { return consoletest.Questions()[:3] }

// hugeQuestion has a megabyte of arguments, full of control characters.
func hugeQuestion() *pb.Approval {
	q := proto.CloneOf(openQuestions()[1])
	q.Id, q.Tool = "A-11", "write_"+strings.Repeat("very_", 60)+"long"
	q.Arguments = []byte(`{"name":"x","arguments":{"first":"日本語テキスト","content":"` + strings.Repeat(`\u001b[2J\u202e🙂क्षि words `, 40_000) + `","last":"the end"}}`)
	return q
}

func TestScreens(t *testing.T) {
	sizes := []struct {
		name          string
		width, height int
	}{{"80x24", 80, 24}, {"40x12", 40, 12}, {"40x10", 40, 10}, {"120x40", 120, 40}, {"160x50", 160, 50}}
	for _, test := range []struct {
		name  string
		asked []*pb.Approval
		play  func(*screenTest)
	}{
		{"empty", nil, nil},
		{"list", openQuestions(), func(s *screenTest) { s.keys("down") }},
		{"ended", openQuestions(), func(s *screenTest) {
			s.end("A-2", pb.ApprovalState_APPROVAL_STATE_REJECTED, "ana\u202e (uid 1000)", "not \x1b[2J now")
			s.end("A-10", pb.ApprovalState_APPROVAL_STATE_EXPIRED, "", "")
		}},
		{"offline", openQuestions(), func(s *screenTest) { s.say(inbox.Event{Kind: inbox.Lost}) }},
		{"detail", openQuestions(), func(s *screenTest) { s.keys("down enter") }},
		{"hostile", openQuestions(), func(s *screenTest) { s.keys("end enter") }},
		{"huge", []*pb.Approval{hugeQuestion()}, func(s *screenTest) { s.keys("enter space end") }},
		{"huge-list", []*pb.Approval{hugeQuestion()}, nil},
		{"approve", openQuestions(), func(s *screenTest) { s.keys("a") }},
		{"deny", openQuestions(), func(s *screenTest) {
			s.keys("d n o t")
			s.say(tea.PasteMsg{Content: "\x1b[2J\ny\u202e " + strings.Repeat("so ", 30) + "soon"})
		}},
		{"grant", openQuestions(), func(s *screenTest) { s.keys("g right down down space") }},
		{"grant-sure", openQuestions(), func(s *screenTest) { s.keys("g right down down space end right down enter") }},
		{"grant-hostile", openQuestions(), func(s *screenTest) { s.keys("end g right down space") }},
		{"edited", openQuestions(), func(s *screenTest) { s.keys("e") }},
		{"edited-approve", openQuestions(), func(s *screenTest) { s.keys("e space a") }},
		{"too-late", openQuestions(), func(s *screenTest) {
			s.keys("a")
			s.end("A-2", pb.ApprovalState_APPROVAL_STATE_WITHDRAWN, "", "the agent took the call back")
		}},
	} {
		for _, size := range sizes {
			if size.width > 80 && strings.HasPrefix(test.name, "huge") {
				continue // as on 80 columns, and slow
			}
			t.Run(test.name+"-"+size.name, func(t *testing.T) {
				s := newScreen(size.width, size.height, test.asked...)
				if test.play != nil {
					test.play(s)
				}
				mustFitScreen(t, s)
				consoletest.Golden(t, "watch-"+test.name+"-"+size.name, s.text())
			})
		}
	}
}

// mustFitScreen fails if a line is wider than the screen or contains control characters, or if
// there are too many lines.
func mustFitScreen(t interface{ Errorf(string, ...any) }, s *screenTest) {
	lines := s.screen()
	if len(lines) != s.height {
		t.Errorf("%d lines on a screen of %d", len(lines), s.height)
	}
	for _, line := range lines {
		text := string(line.text)
		if w := max(ansi.StringWidth(text), ansi.StringWidthWc(text), display.Width(line.text)); w > s.width {
			t.Errorf("this line takes %d columns of %d: %q", w, s.width, text)
		}
		if strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\u202e' || c == '\u200b' }) {
			t.Errorf("this line holds what a terminal obeys: %q", text)
		}
	}
}

// No line is wider than the screen, whatever the question and the screen.
func TestNoLineIsWiderThanTheScreen(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"क्षि", "日本", "🇩🇪🏳️‍🌈", "\x1b[31m", "\u202e", "a\u0301\u0302", "각", "\x00"}),
		rapid.StringN(30, 300, -1))
	rapid.Check(t, func(t *rapid.T) {
		s := newScreen(rapid.IntRange(1, 180).Draw(t, "width"), rapid.IntRange(1, 50).Draw(t, "height"))
		for i := range rapid.IntRange(0, 6).Draw(t, "questions") {
			q := proto.CloneOf(openQuestions()[i%3])
			q.Id, q.Agent, q.Server, q.Tool = fmt.Sprint("A-", i), text.Draw(t, "agent"), text.Draw(t, "server"), text.Draw(t, "tool")
			q.Reason, q.Rule = text.Draw(t, "reason"), text.Draw(t, "rule")
			if rapid.Bool().Draw(t, "raw") {
				q.Arguments = []byte(text.Draw(t, "arguments"))
			} else {
				q.Arguments = []byte(`{"arguments":{"a":[[[[` + consoletest.JSONText(text.Draw(t, "argument")) + `]]]]}}`)
			}
			s.ask(q)
		}
		mustFitScreen(t, s)
		s.later(time.Second)
		for _, key := range rapid.SliceOfN(rapid.SampledFrom(strings.Fields("up down left right tab enter esc a d g e y space end home x 7 A D S / ? B")), 0, 12).Draw(t, "keys") {
			s.keys(key)
			if s.detail != nil {
				s.say(queueMsg(func(q *queue) action { return q.setHistory(q.detail, &past{}) }))
			}
			mustFitScreen(t, s)
		}
		s.say(tea.WindowSizeMsg{Width: rapid.IntRange(1, 180).Draw(t, "new width"), Height: rapid.IntRange(1, 50).Draw(t, "new height")})
		mustFitScreen(t, s)
	})
}

// Paging through a question shows every character of it.
func TestNothingIsCutSilently(t *testing.T) {
	s := newScreen(50, 12, hugeQuestion())
	s.keys("enter")
	var shown strings.Builder
	for {
		lines := s.screen()
		at := s.detail.top
		for _, line := range lines[1 : 1+s.bodyHeight()] {
			shown.WriteString(strings.Trim(string(line.text), " │┊"))
		}
		s.scroll(s.bodyHeight())
		if s.detail.top-at < s.bodyHeight() {
			break
		}
	}
	s.keys("end")
	if n := strings.Count(shown.String(), `\u{1b}[2J`); n < 39_900 {
		t.Errorf("%d of 40,000 escapes were shown", n)
	}
	if last := s.text(); !strings.Contains(last, `"the end"`) || !strings.Contains(last, fmt.Sprintf(" of %s", display.Count(len(s.detail.body)))) {
		t.Errorf("the end is not shown:\n%s", last)
	}
}

func TestMemoryOfManyQuestions(t *testing.T) {
	const questions = 32
	s := newScreen(80, 24)
	before := heap()
	for i := range questions {
		q := hugeQuestion()
		q.Id, q.Tool, q.Reason = fmt.Sprint("A-", i+1), q.Tool+strings.Repeat("t", 100_000), strings.Repeat("why ", 100_000)
		s.say(inbox.Event{Kind: inbox.Open, Question: q})
	}
	if s.find(fmt.Sprint("A-", questions)) != questions-1 {
		t.Fatal("questions are missing")
	}
	if held := heap() - before; held > questions<<18 {
		t.Errorf("%d questions of a megabyte hold %d KiB", questions, held>>10)
	}
	runtime.KeepAlive(s)
}

// heap returns how many bytes are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC() // frees what the first moved out of pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
