package inbox

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"google.golang.org/protobuf/proto"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/client/inbox"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

const (
	rejected = pb.ApprovalState_APPROVAL_STATE_REJECTED
	expired  = pb.ApprovalState_APPROVAL_STATE_EXPIRED
)

// TestKeys checks what keys do with in the list.
func TestKeys(t *testing.T) {
	yes3, yes2 := "ANSWER_APPROVE A-3 412d3320", "ANSWER_APPROVE A-2 412d3220"
	for _, test := range []struct {
		name string
		play func(*screenTest)
		want []string // decisions
		says string   // on the screen afterwards
	}{
		{"approve from the list", func(s *screenTest) { s.keys("down a y") }, []string{yes3}, "sending the answer"},
		{"approve what is shown", func(s *screenTest) { s.keys("enter a Y") }, []string{yes2}, "sending the answer"},
		{"enter is no yes", func(s *screenTest) { s.keys("a enter enter") }, nil, "3 questions wait"},
		{"n is no yes", func(s *screenTest) { s.keys("a n") }, nil, "esc back"},
		{"a twice is no yes", func(s *screenTest) { s.keys("a a y a esc") }, []string{}, "esc back"},
		{"y alone is nothing", func(s *screenTest) { s.keys("y enter y") }, nil, "esc back"},
		{"deny without a reason", func(s *screenTest) { s.keys("d enter") }, []string{"ANSWER_DENY A-2 412d3220"}, "sending the answer"},
		{"deny with a reason", func(s *screenTest) { s.keys("down d n o x backspace space w a y enter") }, []string{"ANSWER_DENY A-3 412d3320 no way"}, ""},
		{"deny not", func(s *screenTest) { s.keys("d n o esc") }, nil, "esc back"},
		{"a reason has q, a and y in it", func(s *screenTest) { s.keys("d q a y enter") }, []string{"ANSWER_DENY A-2 412d3220 qay"}, ""},
		{"keys while the answer is on its way", func(s *screenTest) { s.keys("a y y a d q enter") }, []string{yes2}, "sending the answer"},
		{"pasted text is no key", func(s *screenTest) {
			s.say(tea.PasteMsg{Content: "a\ny\n"})
			s.keys("a")
			s.say(tea.PasteMsg{Content: "y"})
		}, nil, "Approve A-2 412d3220? y/N"},
		{"pasted reason", func(s *screenTest) {
			s.keys("d")
			s.say(tea.PasteMsg{Content: "one\ntwo"})
			s.keys("enter")
		}, []string{"ANSWER_DENY A-2 412d3220 one two"}, ""},
		{"a long reason ends somewhere", func(s *screenTest) {
			s.keys("d")
			s.say(tea.PasteMsg{Content: strings.Repeat("é", 2000)})
			s.keys("enter")
		}, []string{"ANSWER_DENY A-2 412d3220 " + strings.Repeat("é", 500)}, ""},

		// An event does not change the meaning of a key.
		{"the selected one ends", func(s *screenTest) {
			s.end("A-2", rejected, "ana", "")
			s.keys("a y")
		}, nil, "press a again"},
		{"and half a second later", func(s *screenTest) {
			s.end("A-2", rejected, "ana", "")
			s.later(settling)
			s.keys("a y")
		}, []string{yes3}, ""},
		{"or after a key", func(s *screenTest) {
			s.end("A-2", rejected, "ana", "")
			s.keys("down up a y")
		}, []string{yes3}, ""},
		{"another one ends", func(s *screenTest) {
			s.keys("down")
			s.end("A-2", rejected, "ana", "")
			s.keys("a y")
		}, []string{yes3}, ""},
		{"one comes", func(s *screenTest) {
			q := proto.CloneOf(s.asked["A-10"])
			q.Id = "A-11"
			s.ask(q)
			s.keys("a y")
		}, []string{yes2}, ""},
		{"the first one comes", func(s *screenTest) {
			for _, id := range []string{"A-2", "A-3", "A-10"} {
				s.end(id, expired, "", "")
			}
			s.later(time.Minute)
			s.keys("a y")
			q := proto.CloneOf(openQuestions()[0])
			q.Id = "A-11"
			s.ask(q)
			s.keys("a y")
		}, nil, "press a again"},
		{"it ends while it is asked about", func(s *screenTest) {
			s.keys("a")
			s.end("A-2", rejected, "ana", "no")
			s.keys("y")
			s.keys("a y d enter")
		}, nil, "A-2 denied by you (desktop): no"},
		{"it ends while the reason is typed", func(s *screenTest) {
			s.keys("d n")
			s.end("A-2", expired, "", "")
			s.keys("q a y")
			s.keys("enter")
		}, nil, "A-2 expired"},
		{"it is another one under the cursor", func(s *screenTest) {
			q := proto.CloneOf(s.asked["A-2"])
			q.Subject = []byte("another one")
			s.ask(q)
			s.keys("a y")
		}, nil, "press a again"},
		{"it is another one while it is shown", func(s *screenTest) {
			s.keys("enter")
			q := proto.CloneOf(s.asked["A-2"])
			q.Subject = []byte("another one")
			s.ask(q)
			s.keys("a y d enter")
		}, nil, ""},
		{"it has ended before it was read", func(s *screenTest) {
			s.asked["A-2"].State = expired
			s.keys("a y")
		}, nil, "A-2 expired"},
		{"it is not there when it is read", func(s *screenTest) {
			delete(s.asked, "A-2")
			s.keys("a y")
		}, nil, "there is no question A-2"},

		// Without a daemon nothing can be answered; once it is back everything works again.
		{"no daemon", func(s *screenTest) {
			s.say(inbox.Event{Kind: inbox.Lost})
			s.keys("a y d enter")
		}, nil, "Not connected"},
		{"no daemon, in the middle", func(s *screenTest) {
			s.keys("a")
			s.say(inbox.Event{Kind: inbox.Lost})
			s.keys("y")
		}, nil, "Not connected"},
		{"a daemon again", func(s *screenTest) {
			s.keys("down enter")
			s.say(inbox.Event{Kind: inbox.Lost})
			s.say(inbox.Event{Kind: inbox.Connected})
			for _, id := range []string{"A-2", "A-3", "A-10"} {
				s.ask(s.asked[id])
			}
			s.later(settling)
			s.keys("a y")
		}, []string{yes3}, ""},
		{"a daemon again, the selection is where it was", func(s *screenTest) {
			s.keys("down")
			s.say(inbox.Event{Kind: inbox.Lost})
			s.say(inbox.Event{Kind: inbox.Connected})
			for _, id := range []string{"A-2", "A-3", "A-10"} {
				s.ask(s.asked[id])
			}
			s.keys("a y")
			s.later(settling)
			s.keys("a y")
		}, []string{yes3}, ""},
		{"a daemon again, which has ended it meanwhile", func(s *screenTest) {
			s.keys("a")
			s.say(inbox.Event{Kind: inbox.Lost})
			s.asked["A-2"].State = expired
			s.say(inbox.Event{Kind: inbox.Connected})
			s.keys("y a y")
		}, nil, "A-2 expired"},

		{"a screen without room", func(s *screenTest) {
			s.say(tea.WindowSizeMsg{Width: 20, Height: 5})
			s.keys("a y d enter")
		}, nil, "too small"},
		{"a screen that loses its room", func(s *screenTest) {
			s.keys("a")
			s.say(tea.WindowSizeMsg{Width: 80, Height: 5})
			s.keys("y")
		}, nil, "too small"},

		// The terms of a grant have the values of the command line.
		{"a grant", func(s *screenTest) { s.keys("g enter y") }, []string{yes2 + " args 1h0m0s session"}, "sending the answer"},
		{"enter is no yes to a grant", func(s *screenTest) { s.keys("g enter enter n esc") }, nil, "esc back"},
		{"a grant of anything", func(s *screenTest) { s.keys("enter g left down right down right right down left enter Y") }, []string{yes2 + " tool 8h0m0s 2 always"}, ""},
		{"a grant for some arguments", func(s *screenTest) { s.keys("g right down space down down space enter y") }, []string{yes2 + " some owner,title 1h0m0s session"}, ""},
		{"for no argument", func(s *screenTest) { s.keys("g right enter y") }, nil, "select at least one argument"},
		{"a time that is typed", func(s *screenTest) { s.keys("g down backspace backspace 4 5 m x enter y") }, []string{yes2 + " args 45m0s session"}, ""},
		{"a number that is typed", func(s *screenTest) { s.keys("g down down 1 2 q backspace 7 enter y") }, []string{yes2 + " args 1h0m0s 17 session"}, ""},
		{"a time that is too long", func(s *screenTest) { s.keys("g down backspace backspace 3 1 d enter y") }, nil, "at most 30d"},
		{"no time", func(s *screenTest) { s.keys("g down backspace backspace enter y") }, nil, "--for: enter a time"},
		{"a grant that is not wanted", func(s *screenTest) { s.keys("g down esc a y") }, []string{yes2}, ""},
		{"more than is on the screen is not granted unread", func(s *screenTest) {
			q := proto.CloneOf(s.asked["A-2"])
			var members []string
			for i := range 60 {
				members = append(members, fmt.Sprintf(`"%s%d":1`, strings.Repeat("long", 10), i))
			}
			q.Arguments = []byte(`{"arguments":{` + strings.Join(members, ",") + "}}")
			s.asked["A-2"] = q
			s.keys("g g right" + strings.Repeat(" down space", 60) + " enter y y esc down up")
			s.keys("enter" + strings.Repeat(" space", 80))
		}, nil, "and grant this? y/N"},
		{"it ends while the grant is shaped", func(s *screenTest) {
			s.keys("g enter")
			s.end("A-2", expired, "", "")
			s.keys("y a y")
		}, nil, "A-2 expired"},
		{"pasted text is no grant", func(s *screenTest) {
			s.keys("g enter")
			s.say(tea.PasteMsg{Content: "y"})
		}, nil, "and grant this? y/N"},

		// Edited arguments are shown before they are approved.
		{"other arguments", func(s *screenTest) { s.keys("e a y") }, []string{yes2 + ` {"repo":"mine"}`}, "sending the answer"},
		{"written twice", func(s *screenTest) { s.keys("enter e e a y") }, []string{yes2 + ` {"repo":"mine"}`}, ""},
		{"not approved yet", func(s *screenTest) { s.keys("e y enter") }, nil, ""},
		{"dropped", func(s *screenTest) { s.keys("e esc a y") }, []string{yes2}, ""},
		{"a no sends nothing", func(s *screenTest) { s.keys("e d enter") }, []string{"ANSWER_DENY A-2 412d3220"}, ""},
		{"and no grant", func(s *screenTest) { s.keys("e g enter y") }, nil, "esc discards yours"},
		{"nothing was written", func(s *screenTest) {
			s.editor = func(*pb.Approval) ([]byte, error) { return nil, errors.New("the arguments were not changed") }
			s.keys("e a y")
		}, []string{yes2}, ""},
		{"it ends while the editor runs", func(s *screenTest) {
			s.editor = func(*pb.Approval) ([]byte, error) { s.end("A-2", expired, "", ""); return []byte(`{}`), nil }
			s.keys("e a y")
		}, nil, "A-2 expired"},
		{"the daemon goes and comes while the editor runs", func(s *screenTest) {
			s.editor = func(*pb.Approval) ([]byte, error) {
				s.say(inbox.Event{Kind: inbox.Lost})
				s.say(inbox.Event{Kind: inbox.Connected})
				return []byte(`{"repo":"mine"}`), nil
			}
			s.keys("e a y")
		}, []string{yes2 + ` {"repo":"mine"}`}, ""},
		{"it is another one while the editor runs", func(s *screenTest) {
			s.editor = func(*pb.Approval) ([]byte, error) {
				q := proto.CloneOf(s.asked["A-2"])
				q.Subject = []byte("another one")
				s.ask(q)
				return []byte(`{}`), nil
			}
			s.keys("e a y")
		}, nil, "A-2 is no longer known to the daemon"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScreen(80, 40, openQuestions()...) // all of a question has been shown at once
			test.play(s)
			if got := s.decisions(); !slices.Equal(got, test.want) {
				t.Errorf("answers %q, want %q\n%s", got, test.want, s.text())
			}
			if !strings.Contains(s.text(), test.says) {
				t.Errorf("the screen lacks %q:\n%s", test.says, s.text())
			}
		})
	}
}

// keysTest is keys that are pressed, what is answered then, and what the screen says.
type keysTest struct {
	keys string
	want []string
	says string
}

// play presses the keys on a screen with q alone, checks what comes of it, and returns the words on
// the screen.
func (k keysTest) play(t *testing.T, width int, q *pb.Approval) string {
	t.Helper()
	s := newScreen(width, 40, q)
	s.keys(k.keys)
	if got := s.decisions(); !slices.Equal(got, k.want) {
		t.Errorf("%q: answers %q, want %q", k.keys, got, k.want)
	}
	shown := strings.Join(strings.Fields(strings.ReplaceAll(s.text(), "|", " ")), " ")
	if !strings.Contains(shown, k.says) {
		t.Errorf("%q, %d columns: the screen lacks %q:\n%s", k.keys, width, k.says, s.text())
	}
	return shown
}

// TestKeysOfAQuestionThatNeedsPresence checks that a question that needs a secret cannot be
// approved on the screen, which says where it can be. Denying needs no secret.
func TestKeysOfAQuestionThatNeedsPresence(t *testing.T) {
	for _, test := range []keysTest{
		{"a", nil, "tgctl approvals approve A-2"},
		{"enter a", nil, "Needs your passphrase. In a shell:"},
		{"a y y a n", nil, "e edit esc"},
		{"enter a y", nil, "e edit esc"},
		{"g", nil, "tgctl approvals approve A-2"},
		{"e", nil, "tgctl approvals approve A-2"},
		{"enter g y", nil, "e edit esc"},
		{"enter", nil, "needs your passphrase or a code (presence)"},
		{"d enter", []string{"ANSWER_DENY A-2 412d3220"}, "sending the answer"},
	} {
		for _, width := range []int{40, 80} {
			q := proto.CloneOf(openQuestions()[0])
			q.Level = approval.LevelPresence
			test.play(t, width, q)
		}
	}
}

// TestKeysOfAnotherMachine checks that a question of another machine of the fleet can be approved as it
// is or denied, and neither edited nor made a grant: what is signed is about this one call.
func TestKeysOfAnotherMachine(t *testing.T) {
	for _, test := range []keysTest{
		{"enter", nil, "d deny esc"},
		{"g", nil, "d deny esc"},
		{"e", nil, "d deny esc"},
		{"enter g y", nil, "d deny esc"},
		{"d enter", []string{"ANSWER_DENY A-2 412d3220"}, "sending the answer"},
		{"enter space space space a y", []string{"ANSWER_APPROVE A-2 412d3220"}, "sending the answer"},
	} {
		for _, width := range []int{40, 80} {
			q := proto.CloneOf(openQuestions()[0])
			q.Device = "U" + strings.Repeat("B", 55)
			test.play(t, width, q)
		}
	}
}

// TestKeysOfALogin checks that a question for a login cannot be approved on the screen, which says how to log in.
func TestKeysOfALogin(t *testing.T) {
	for _, test := range []keysTest{
		{"", nil, "d deny"},
		{"a", nil, "Nobody can approve this. In a shell: tgctl login hub"},
		{"a y y a n", nil, "d deny esc"},
		{"enter a y", nil, "d deny esc"},
		{"g", nil, "tgctl login hub"},
		{"e", nil, "tgctl login hub"},
		{"d enter", []string{"ANSWER_DENY A-2 412d3220"}, "sending the answer"},
	} {
		for _, width := range []int{40, 80} {
			q := proto.CloneOf(openQuestions()[0])
			q.Method, q.Tool, q.Server = "thoughtgate/login", "", "hub"
			q.Level = approval.LevelPresence // a secret does not help
			if shown := test.play(t, width, q); strings.Contains(shown, "a approve") || strings.Contains(shown, "g grant") {
				t.Errorf("%q, %d columns: the screen offers an approval: %s", test.keys, width, shown)
			}
		}
	}
}

// TestAnswered checks what the screen shows after an answer.
func TestAnswered(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		says []string
	}{
		{"taken", nil, []string{"2 questions wait", "approved A-2: create_issue on github"}},
		{"somebody was faster", client.NewError(client.ReasonDecided, "it was rejected by ana"), []string{"A-2: it was rejected by ana", "esc back"}},
		{"refused", client.NewError(client.ReasonForbidden, "you descend from an agent"), []string{"A-2: you descend from an agent", "esc back"}},
		{"unknown", client.ErrNotRunning, []string{"A-2: no answer from the daemon; check whether it is still listed"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScreen(120, 40, openQuestions()...)
			s.keys("a y")
			decision := s.wishes[len(s.wishes)-1].decide
			s.say(queueMsg(func(q *queue) action { return q.handleDecided(decision, nil, test.err) }))
			for _, want := range test.says {
				if !strings.Contains(s.text(), want) {
					t.Errorf("the screen lacks %q:\n%s", want, s.text())
				}
			}
			s.keys("a y") // at once, so it is not meant for what is selected now
			if got := s.decisions(); test.err == nil && len(got) != 1 {
				t.Errorf("answers %q", got)
			}
		})
	}
}

// A question that the person left before it was read is not shown when it arrives.
func TestLateReading(t *testing.T) {
	s := newScreen(80, 24, openQuestions()...)
	s.keys("enter")
	left := s.detail
	s.keys("esc down enter")
	s.load(left, s.asked["A-2"], nil)
	s.say(queueMsg(func(q *queue) action { return q.setHistory(left, &past{}) }))
	if approval.ShortSubject(s.detail.question.GetSubject()) != "412d3320" || s.detail.past != nil {
		t.Errorf("shown is %s", s.detail.question.GetId())
	}
}

func TestQuit(t *testing.T) {
	for _, test := range []struct {
		keys string
		quit bool
	}{{"q", true}, {"ctrl+c", true}, {"enter ctrl+c", true}, {"d ctrl+c", true}, {"a y ctrl+c", true}, {"enter q", false}, {"d q", false}, {"enter q q", true}} {
		s := newScreen(80, 24, openQuestions()...)
		s.keys(test.keys)
		if got := s.wishes[len(s.wishes)-1].quit; got != test.quit {
			t.Errorf("%s: quit %v", test.keys, got)
		}
	}
}
