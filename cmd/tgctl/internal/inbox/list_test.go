package inbox

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// newConsole returns a terminal of 80 columns whose tgctl has only these commands.
func newConsole(socket string) *consoletest.Console {
	return consoletest.New(socket, ApprovalsCommand, GrantsCommand, PresenceCommand)
}

func consoleWithQuestions(t *testing.T) (*consoletest.Daemon, *consoletest.Console) {
	f := consoletest.Start(t)
	f.Approvals = consoletest.Questions()
	return f, newConsole(f.Socket)
}

func TestApprovalsOnATerminal(t *testing.T) {
	for _, test := range []struct {
		golden string
		args   []string
	}{
		{"approvals", []string{"approvals"}},
		{"approvals-all", []string{"approvals", "list", "--all"}},
		{"approvals-show", []string{"approvals", "show", "a-3"}},
		{"approvals-show-long", []string{"approvals", "show", "A-2"}},
		{"approvals-show-hostile", []string{"approvals", "show", "A-10"}},
		{"approvals-show-decided", []string{"approvals", "show", "A-1"}},
		{"approve", []string{"approvals", "approve", "A-3", "--note", "fine"}},
		{"deny", []string{"approvals", "deny", "A-2", "A-10", "--reason", "no"}},
	} {
		t.Run(test.golden, func(t *testing.T) {
			_, c := consoleWithQuestions(t)
			if code := c.Run(t, test.args...); code != 0 {
				t.Fatalf("exit %d: %s", code, c.Err.String())
			}
			consoletest.MustFit(t, c.Out.String(), 80)
			consoletest.Golden(t, test.golden, c.Out.String()+"--- stderr\n"+c.Err.String())
		})
	}
}

// A question of another machine is seen to be one wherever it is shown, as is one that only a colleague
// can approve.
func TestApprovalsOfAFleet(t *testing.T) {
	for golden, args := range map[string][]string{"approvals-fleet": {"approvals"}, "approvals-show-foreign": {"approvals", "show", "A-21"}, "approvals-show-colleagues": {"approvals", "show", "A-22"}} {
		f := consoletest.Start(t)
		f.Approvals = consoletest.FleetQuestions()
		c := newConsole(f.Socket)
		if code := c.Run(t, args...); code != 0 {
			t.Fatalf("exit %d: %s", code, c.Err.String())
		}
		consoletest.MustFit(t, c.Out.String(), 80)
		consoletest.Golden(t, golden, c.Out.String())
	}
}

// Output to a pipe is not cut and has no control characters either.
func TestApprovalsInAPipe(t *testing.T) {
	_, c := consoleWithQuestions(t)
	if code := c.Pipe().Run(t, "approvals"); code != 0 {
		t.Fatalf("exit %d: %s", code, c.Err.String())
	}
	consoletest.Golden(t, "approvals-pipe", c.Out.String())
}

func TestApprovalsJSON(t *testing.T) {
	_, c := consoleWithQuestions(t)
	if code := c.Pipe().Run(t, "approvals", "--all", "--json"); code != 0 {
		t.Fatalf("exit %d: %s", code, c.Err.String())
	}
	lines := strings.Split(strings.TrimSpace(c.Out.String()), "\n")
	if len(lines) != 4 {
		t.Fatalf("got %d lines, want one for each of 4 questions", len(lines))
	}
	var second struct{ Arguments json.RawMessage }
	if err := json.Unmarshal([]byte(lines[1]), &second); err != nil {
		t.Fatal(err)
	}
	if want := string(consoletest.Questions()[1].GetArguments()); string(second.Arguments) != want {
		t.Errorf("arguments changed on the way:\n got %s\nwant %s", second.Arguments, want)
	}
}

// On a terminal, JSON has the same value without any control characters.
func TestApprovalsJSONOnATerminal(t *testing.T) {
	_, c := consoleWithQuestions(t)
	c.Run(t, "approvals", "--json")
	consoletest.Golden(t, "approvals-json", c.Out.String())
	onTerminal := strings.Split(strings.TrimSpace(c.Out.String()), "\n")
	c.Pipe().Run(t, "approvals", "--json")
	for i, line := range strings.Split(strings.TrimSpace(c.Out.String()), "\n") {
		var got, want any
		if err := json.Unmarshal([]byte(onTerminal[i]), &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(line), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("question %d differs (-pipe +terminal):\n%s", i, diff)
		}
		if strings.ContainsRune(onTerminal[i], '\u202e') || strings.ContainsRune(onTerminal[i], '\x1b') {
			t.Errorf("a character that a terminal obeys is on the terminal: %q", onTerminal[i])
		}
	}
}

func TestNoQuestions(t *testing.T) {
	f := consoletest.Start(t)
	c := newConsole(f.Socket)
	if code := c.Run(t, "approvals"); code != 0 || c.Out.Len() != 0 || !strings.Contains(c.Err.String(), "No question is waiting") {
		t.Errorf("exit %d, stdout %q, stderr %q", code, c.Out.String(), c.Err.String())
	}
}

// An answer carries the subject that was read, the note and the surface.
func TestDecisionsNameWhatWasShown(t *testing.T) {
	for _, test := range []struct {
		name    string
		args    []string
		pipe    bool
		answer  pb.Answer
		ids     []string
		note    string
		surface string
	}{
		{"approve", []string{"approve", "A-3", "--note", "ok"}, false, pb.Answer_ANSWER_APPROVE, []string{"A-3"}, "ok", "terminal"},
		{"in a script", []string{"approve", "A-3"}, true, pb.Answer_ANSWER_APPROVE, []string{"A-3"}, "", "script"},
		{"several, one twice", []string{"approve", "A-10", "a-3", "A-10"}, false, pb.Answer_ANSWER_APPROVE, []string{"A-10", "A-3"}, "", "terminal"},
		{"deny", []string{"deny", "A-2", "--reason", "no"}, false, pb.Answer_ANSWER_DENY, []string{"A-2"}, "no", "terminal"},
		{"deny a server's", []string{"deny", "--all-from", "github"}, false, pb.Answer_ANSWER_DENY, []string{"A-2"}, "", "terminal"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, c := consoleWithQuestions(t)
			if test.pipe {
				c.Pipe()
			}
			if code := c.Run(t, append([]string{"approvals"}, test.args...)...); code != 0 {
				t.Fatalf("exit %d: %s", code, c.Err.String())
			}
			var ids []string
			for _, d := range f.Decisions {
				ids = append(ids, d.GetId())
				if d.GetAnswer() != test.answer || d.GetNote() != test.note || d.GetSurface() != test.surface {
					t.Errorf("got decision %v", d)
				}
				for _, q := range consoletest.Questions() {
					if q.GetId() == d.GetId() && string(q.GetSubject()) != string(d.GetSubject()) {
						t.Errorf("%s was decided with subject %x", d.GetId(), d.GetSubject())
					}
				}
			}
			if diff := cmp.Diff(test.ids, ids); diff != "" {
				t.Errorf("decided (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecisionsThatFail(t *testing.T) {
	for _, test := range []struct {
		name    string
		args    []string
		err     error
		code    int
		says    []string
		decided int
	}{
		{"unknown", []string{"approve", "A-99"}, nil, 1, []string{"tgctl: there is no question A-99", "tgctl approvals"}, 0},
		{"decided already", []string{"approve", "A-1"}, nil, 1, []string{"A-1: already decided: denied 1 h ago"}, 0},
		{"one of two is unknown", []string{"deny", "A-99", "A-3"}, nil, 1, []string{"there is no question A-99"}, 1},
		{"by an agent", []string{"approve", "A-3"}, client.NewError(client.ReasonForbidden, "the caller descends from an agent"), 1,
			[]string{"the caller descends from an agent", "from another terminal"}, 1},
		{"somebody was faster", []string{"approve", "A-3"}, client.NewError(client.ReasonDecided, "it was rejected by ana"), 1,
			[]string{"A-3: it was rejected by ana"}, 1},
		{"another subject than was shown", []string{"approve", "A-3", "--subject", "deadbeef"}, nil, 1,
			[]string{"not the question that was shown", "tgctl approvals show A-3"}, 0},
		{"no subject", []string{"approve", "A-3", "--subject", "xyz"}, nil, 2, []string{"hexadecimal"}, 0},
		{"a subject for two", []string{"approve", "A-3", "A-2", "--subject", "deadbeef"}, nil, 2, []string{"one question"}, 0},
		{"nothing named", []string{"approve"}, nil, 2, []string{"ID is missing", "tgctl approvals approve --help"}, 0},
		{"ids and a server", []string{"deny", "A-2", "--all-from", "github"}, nil, 2, []string{"either ids of questions"}, 0},
		{"server without questions", []string{"deny", "--all-from", "gith*"}, nil, 0, []string{"No question of gith* is waiting"}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, c := consoleWithQuestions(t)
			f.DecideErr = test.err
			if code := c.Run(t, append([]string{"approvals"}, test.args...)...); code != test.code {
				t.Errorf("exit %d, want %d: %s", code, test.code, c.Err.String())
			}
			for _, want := range test.says {
				if !strings.Contains(c.Err.String(), want) {
					t.Errorf("stderr lacks %q:\n%s", want, c.Err.String())
				}
			}
			if len(f.Decisions) != test.decided {
				t.Errorf("%d decisions were sent, want %d", len(f.Decisions), test.decided)
			}
		})
	}
}

// A login is never approved, and nothing is edited or sent for that. What to do instead is said.
func TestApproveALogin(t *testing.T) {
	for _, args := range [][]string{{"approve", "A-3"}, {"approve", "A-3", "--edit"}, {"show", "A-3"}} {
		f, c := consoleWithQuestions(t)
		i := slices.IndexFunc(f.Approvals, func(q *pb.Approval) bool { return q.GetId() == "A-3" })
		f.Approvals[i].Method, f.Approvals[i].Server, f.Approvals[i].Level = "thoughtgate/login", "hub", approval.LevelPresence
		code := c.Run(t, append([]string{"approvals"}, args...)...)
		if isShown := args[0] == "show"; (code == 0) != isShown || len(f.Decisions) != 0 {
			t.Errorf("%q: exit %d, %d decisions were sent", args, code, len(f.Decisions))
		}
		if text := c.Err.String(); !strings.Contains(text, "tgctl login hub") || strings.Contains(text, "approvals approve") {
			t.Errorf("%q: stderr:\n%s", args, text)
		}
	}
}

func TestSubjectMustBeginAsShown(t *testing.T) {
	f, c := consoleWithQuestions(t)
	subject := fmt.Sprintf("%X", consoletest.Questions()[1].GetSubject()[:6])
	if code := c.Run(t, "approvals", "approve", "A-3", "--subject", subject); code != 0 || len(f.Decisions) != 1 {
		t.Errorf("exit %d, %d decisions: %s", code, len(f.Decisions), c.Err.String())
	}
}

// A terminal shows the beginning and says how much is missing. A pipe gets everything.
func TestShowOfVeryLongArguments(t *testing.T) {
	f, c := consoleWithQuestions(t)
	f.Approvals[1].Arguments = []byte(`{"name":"write_file","arguments":{"content":"` + strings.Repeat(`line\n`, 5000) + `","mode":"end"}}`)
	c.Run(t, "approvals", "show", "A-3")
	if !strings.Contains(c.Out.String(), "more lines; tgctl approvals show A-3 | less") {
		t.Errorf("nothing says that lines are missing:\n%.400s", c.Out.String())
	}
	if n := strings.Count(c.Out.String(), "\n"); n > showLines+30 {
		t.Errorf("%d lines went to the terminal", n)
	}
	c.Pipe().Run(t, "approvals", "show", "A-3")
	if n := strings.Count(c.Out.String(), `line\n`); n != 5000 || !strings.Contains(c.Out.String(), `"mode": "end"`) {
		t.Errorf("the pipe got %d of 5000 lines", n)
	}
}
