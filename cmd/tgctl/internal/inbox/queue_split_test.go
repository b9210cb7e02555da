package inbox

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"google.golang.org/protobuf/proto"

	"github.com/thoughtgate/thoughtgated/client/inbox"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// questionLike returns an open question with another id and tool.
func questionLike(id, server, tool string) *pb.Approval {
	q := proto.CloneOf(openQuestions()[1])
	q.Id, q.Server, q.Tool, q.Subject = id, server, tool, []byte(id+" is what a yes is about")
	q.Arguments = []byte(`{"name":"` + tool + `","arguments":{"path":"/tmp/` + strings.ToLower(id) + `"}}`)
	return q
}

// From 100 columns on the selected question stands beside the list, and keys still mean the same.
func TestSplitScreen(t *testing.T) {
	yes2 := "ANSWER_APPROVE A-2 412d3220"
	for _, test := range []struct {
		name string
		play func(*screenTest)
		want []string
		says []string
	}{
		{"the selected one is shown", func(s *screenTest) { s.keys("down") }, nil, []string{"> A-3 ", "forwards exactly this call to filesystem, once", `two \u{202e} three`}},
		{"approve", func(s *screenTest) { s.keys("a y") }, []string{yes2}, []string{"sending the answer"}},
		{"no is back in the question, then in the list", func(s *screenTest) { s.keys("a n esc down a") }, nil, []string{"Approve A-3"}},
		{"deny", func(s *screenTest) { s.keys("down d n o enter") }, []string{"ANSWER_DENY A-3 412d3320 no"}, nil},
		{"it ends under the cursor", func(s *screenTest) {
			s.end("A-2", rejected, "ana", "")
			s.keys("a y")
		}, nil, []string{"press a again", "forwards exactly this call to filesystem"}},
		{"it ends while it has the keys", func(s *screenTest) {
			s.keys("enter")
			s.end("A-2", rejected, "ana", "")
			s.keys("a y d enter")
		}, nil, []string{"A-2 denied by you (desktop)", "> A-3 "}},
		{"another one with its id", func(s *screenTest) {
			q := proto.CloneOf(s.asked["A-2"])
			q.Subject, q.Tool = []byte("another one"), "other_tool"
			s.ask(q)
			s.keys("a y")
		}, nil, []string{"press a again"}},
		{"new ones don't move the cursor", func(s *screenTest) {
			s.keys("down")
			for i := range 20 {
				s.ask(questionLike(fmt.Sprint("A-", 20+i), "files", "write_file"))
			}
			s.keys("a y")
		}, []string{"ANSWER_APPROVE A-3 412d3320"}, nil},
		{"a terminal that becomes narrow", func(s *screenTest) { s.say(tea.WindowSizeMsg{Width: 80, Height: 40}); s.keys("down") }, nil, []string{"AGENT       SERVER"}},
		{"and in a question", func(s *screenTest) { s.keys("enter"); s.say(tea.WindowSizeMsg{Width: 80, Height: 40}) }, nil, []string{"esc back"}},
		{"no daemon", func(s *screenTest) { s.say(inbox.Event{Kind: inbox.Lost}); s.keys("a y") }, nil, []string{"Not connected"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScreen(120, 40, openQuestions()...)
			test.play(s)
			mustFitScreen(t, s)
			if got := s.decisions(); !slices.Equal(got, test.want) {
				t.Errorf("answers %q, want %q\n%s", got, test.want, s.text())
			}
			for _, want := range test.says {
				if !strings.Contains(s.text(), want) {
					t.Errorf("the screen lacks %q:\n%s", want, s.text())
				}
			}
		})
	}
}

// What must be read was on the screen before it can be approved: a shows the next part instead, however
// often it is pressed. A denial needs no reading.
func TestUnreadIsNotApproved(t *testing.T) {
	long := questionLike("A-11", "files", "write_file")
	long.Arguments = []byte(`{"name":"write_file","arguments":{"content":"` + strings.Repeat(`\u001b[2J words `, 1000) + `"}}`)
	for _, size := range []struct{ width, height int }{{80, 24}, {120, 24}, {40, 12}} {
		s := newScreen(size.width, size.height, long)
		s.keys("a y")
		if got := s.decisions(); len(got) > 0 || !strings.Contains(s.text(), "to read before an approval") && size.width > 40 {
			t.Fatalf("%dx%d: answers %q\n%s", size.width, size.height, got, s.text())
		}
		s.keys("end a y g y") // the end alone is not all
		if got := s.decisions(); len(got) > 0 {
			t.Fatalf("%dx%d: answers %q after the end was shown", size.width, size.height, got)
		}
		presses := 0
		for s.detail.ask != askYes && presses < 100_000 {
			s.keys("a")
			presses++
		}
		if seen := s.detail.countSeen(); seen < s.detail.must || (presses+3)*size.height < s.detail.must { // its beginning and its end were shown before
			t.Errorf("%dx%d: asked after %d presses, %d of %d lines", size.width, size.height, presses, seen, s.detail.must)
		}
		s.say(tea.WindowSizeMsg{Width: size.width - 2, Height: size.height}) // the lines are other ones
		s.keys("n a")
		if s.detail.ask == askYes {
			t.Errorf("%dx%d: what was laid out anew counts as read", size.width, size.height)
		}
		s.keys("d enter")
		if got := s.decisions(); len(got) != 1 || !strings.HasPrefix(got[0], "ANSWER_DENY A-11") {
			t.Errorf("%dx%d: answers %q", size.width, size.height, got)
		}
	}
}

// Marked questions are answered together. What was not shown in full, or needs a secret, is not approved
// with the others.
func TestMarked(t *testing.T) {
	proof := questionLike("A-5", "bank", "pay")
	proof.Level = approval.LevelPresence
	all := []*pb.Approval{questionLike("A-1", "files", "write_file"), questionLike("A-2", "files", "delete_file"), questionLike("A-3", "git", "push"), hugeQuestion(), proof}
	for _, test := range []struct {
		name  string
		width int
		keys  string
		want  []string
		says  string
	}{
		{"nothing is marked", 120, "A y D enter", nil, "nothing is marked"},
		{"both were shown beside the list", 120, "space space A y", []string{"A-1", "A-2"}, ""},
		{"y alone approves", 120, "space space A enter", nil, "2 marked"},
		{"one was never shown", 80, "space space A y", nil, "A-1 has not been shown in full"},
		{"both were opened", 80, "enter esc space enter esc space A y", []string{"A-1", "A-2"}, ""},
		{"one is too long to have been shown", 120, "space down down space A y", nil, "A-11 has not been shown in full"},
		{"one needs a secret", 120, "end space home space A y", nil, "A-5 needs your passphrase"},
		{"marked and unmarked", 120, "space up space A y", nil, "nothing is marked"},
		{"esc unmarks", 120, "space space esc D enter", nil, "nothing is marked"},
		{"deny needs no reading", 80, "end space up space D n o enter", []string{"A-11 no", "A-5 no"}, ""},
		{"deny not", 80, "space D n o esc", nil, "1 marked"},
		{"all of a server", 80, "down S enter", []string{"A-1", "A-2"}, ""},
		{"all of a server, not", 80, "S esc", nil, "5 questions wait"},
		{"a filter hides, and marks stay", 120, "space / g i t enter D enter", []string{"A-1"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScreen(test.width, 40, all...)
			s.keys(test.keys)
			mustFitScreen(t, s)
			var got []string
			for _, w := range s.wishes {
				for _, d := range w.decideAll {
					got = append(got, strings.TrimSpace(d.GetId()+" "+d.GetNote()))
					if !slices.Equal(d.GetSubject(), s.asked[d.GetId()].GetSubject()) {
						t.Errorf("%s is answered with the subject %x", d.GetId(), d.GetSubject())
					}
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, test.want) {
				t.Errorf("answers %q, want %q\n%s", got, test.want, s.text())
			}
			if !strings.Contains(s.text(), test.says) {
				t.Errorf("the screen lacks %q:\n%s", test.says, s.text())
			}
		})
	}
}

// What ends, or becomes another question, while several are confirmed is not answered with them.
func TestMarkedThatEnd(t *testing.T) {
	s := newScreen(120, 40, questionLike("A-1", "files", "a"), questionLike("A-2", "files", "b"), questionLike("A-3", "files", "c"))
	s.keys("space space space A")
	s.end("A-1", rejected, "ana", "")
	other := questionLike("A-2", "files", "b")
	other.Subject = []byte("another one")
	s.ask(other)
	s.keys("y")
	all := s.wishes[len(s.wishes)-1].decideAll
	if len(all) != 1 || all[0].GetId() != "A-3" {
		t.Errorf("answers %v", all)
	}
}

// Rows whose agent waits no longer come last and say so; the third line of the others says what makes the
// call dangerous.
func TestMovedOn(t *testing.T) {
	s := newScreen(96, 40, openQuestions()...)
	gone := proto.CloneOf(s.asked["A-2"])
	gone.Parked, gone.Waiting = true, 0
	s.ask(gone)
	risky := questionLike("A-12", "shell", "shell")
	risky.Facts = []string{"outside (path)", "destroys: deletes 3 files (command)"}
	s.ask(risky)
	text := s.text()
	order := []string{" A-3 ", " A-10 ", " A-12 ", "destroys: deletes 3 files (command); outside: leads out of the project (path)", "> A-2 ", "agent moved on; takes effect if it repeats"}
	for i, at := 0, 0; i < len(order); i++ {
		next := strings.Index(text[at:], order[i])
		if next < 0 {
			t.Fatalf("%q is not there, or not after %q:\n%s", order[i], order[max(0, i-1)], text)
		}
		at += next
	}
	back := proto.CloneOf(gone)
	back.Waiting = 1
	s.ask(back)
	if got := s.rows[len(s.rows)-1].ID; got != "A-2" || s.rows[len(s.rows)-1].MovedOn || s.selected != "A-2" {
		t.Errorf("the last row is %s, selected is %s", got, s.selected)
	}
}

// A question whose agent moved on is selected by itself only while there is no other, and stays so once a
// key was pressed.
func TestMovedOnIsNotSelected(t *testing.T) {
	gone := questionLike("A-1", "files", "write_file")
	gone.Parked, gone.Waiting = true, 0
	for keys, want := range map[string]string{"": "A-2", "?": "A-1"} {
		s := newScreen(120, 40, gone)
		if s.selected != "A-1" {
			t.Errorf("alone: %q is selected", s.selected)
		}
		s.keys(keys)
		for _, id := range []string{"A-2", "A-3"} {
			s.ask(questionLike(id, "files", "read_file"))
		}
		if s.selected != want {
			t.Errorf("after %q %s is selected, want %s", keys, s.selected, want)
		}
	}
}

// The filter lists what has a text anywhere; new questions obey it, and the cursor stays.
func TestFilter(t *testing.T) {
	s := newScreen(80, 40, openQuestions()...)
	s.keys("/ n o t e s")
	if got := s.text(); !strings.Contains(got, "> A-3 ") || strings.Contains(got, "A-10") || !strings.Contains(got, "3 questions wait, 1 matches") {
		t.Errorf("shown is\n%s", got)
	}
	s.keys("q") // still a letter
	if !strings.Contains(s.text(), "None matches") {
		t.Errorf("shown is\n%s", s.text())
	}
	s.keys("backspace enter")
	s.ask(questionLike("A-11", "files", "read_plan"))
	s.ask(questionLike("A-12", "files", "take_NOTES"))
	if got := s.text(); strings.Contains(got, "A-11") || !strings.Contains(got, "A-12") || s.selected != "A-3" {
		t.Errorf("shown is\n%s", got)
	}
	s.end("A-3", expired, "", "")
	s.end("A-12", expired, "", "")
	s.later(time.Second)
	s.keys("a y")
	if got := s.decisions(); len(got) > 0 || s.selected != "" {
		t.Errorf("answers %q, selected %q", got, s.selected)
	}
	s.keys("esc")
	if !strings.Contains(s.text(), "A-11") {
		t.Errorf("shown is\n%s", s.text())
	}
}

// The bell rings for what is new, at most once a second, and only on request.
func TestBell(t *testing.T) {
	s := newScreen(80, 24, openQuestions()...)
	rings := func() int {
		n := 0
		for _, w := range s.wishes {
			if w.ring {
				n++
			}
		}
		return n
	}
	ask := func(id string) {
		q := questionLike(id, "files", "x")
		q.Created = consoletest.At(time.Hour)
		s.ask(q)
	}
	ask("A-20")
	s.keys("B")
	s.started = s.now
	s.say(inbox.Event{Kind: inbox.Connected})
	s.ask(s.asked["A-20"]) // listed again
	s.ask(questionLike("A-21", "files", "x"))
	if n := rings(); n != 0 {
		t.Errorf("it rang %d times", n)
	}
	ask("A-22")
	ask("A-23")
	s.later(bellPause)
	ask("A-24")
	if n := rings(); n != 2 {
		t.Errorf("it rang %d times", n)
	}
}

// The keys are explained on request, also where they need more lines than the screen has.
func TestHelpScreen(t *testing.T) {
	for _, height := range []int{40, 10} {
		s := newScreen(80, height, openQuestions()...)
		s.keys("?")
		if !strings.Contains(s.text(), "select a question") {
			t.Errorf("shown is\n%s", s.text())
		}
		s.keys("end")
		mustFitScreen(t, s)
		if height < 20 && !strings.Contains(s.text(), "  q              quit") {
			t.Errorf("the end is not shown:\n%s", s.text())
		}
		s.keys("a")
		if s.help || s.detail != nil {
			t.Error("a key leaves the help and does nothing else")
		}
	}
}

// usedTime returns how long this process has used a processor.
func usedTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano())
}

// 500 questions wait and 50 come each second: the cursor stays, and each event takes little time.
func TestManyQuestions(t *testing.T) {
	s := newScreen(160, 50)
	for i := range 500 {
		s.ask(questionLike(fmt.Sprint("A-", i+1), "files", "write_file"))
	}
	s.keys(strings.Repeat("down ", 20))
	const seconds = 10
	began := usedTime(t)
	for i := range seconds * 50 {
		s.ask(questionLike(fmt.Sprint("A-", 501+i), "files", "write_file"))
		s.end(fmt.Sprint("A-", i+100), expired, "", "")
		s.later(20 * time.Millisecond)
		s.screen()
		if s.selected != "A-21" || !strings.Contains(s.text(), "> A-21 ") || s.detail.id != "A-21" {
			t.Fatalf("after %d events the cursor is on %s:\n%s", i, s.selected, s.text())
		}
	}
	if took := usedTime(t) - began; took > seconds*time.Second/2 {
		t.Errorf("%d seconds of events took %v of a processor", seconds, took)
	}
	s.keys("a y")
	if got := s.decisions(); len(got) != 1 || !strings.HasPrefix(got[0], "ANSWER_APPROVE A-21 ") {
		t.Errorf("answers %q", got)
	}
}
