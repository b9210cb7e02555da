package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// questions returns three open questions, one of them hostile, and a decided one.
func questions() []*pb.Approval {
	open := func(id, server, tool, params, reason, rule string, age time.Duration) *pb.Approval {
		return &pb.Approval{
			Id: id, State: pb.ApprovalState_APPROVAL_STATE_OPEN, Created: at(-age), Expires: at(10*time.Minute - age),
			Session: "s-5d41", Agent: "claude-code", Server: server, Launch: strings.Repeat("ab", 32), Method: "tools/call", Tool: tool,
			Arguments: []byte(params), Subject: []byte(id + " is what a yes is good for")[:16], Reason: reason, Rule: rule,
			Workflow: "ops", Call: "c-77", Attachment: "t-1",
		}
	}
	return []*pb.Approval{
		open("A-2", "github", "create_issue", `{"name":"create_issue","arguments":{"owner":"thoughtgate","repo":"thoughtgated","title":"a title","body":"`+strings.Repeat("lorem ipsum ", 40)+`","labels":["bug",1.50]}}`,
			"something new is said to people who have not seen it before, and the rule wants a person to read it first", `"create_*" (thoughtgate.yaml:12)`, 90*time.Second),
		open("A-3", "filesystem", "write_file", `{"name":"write_file","arguments":{"path":"\/home\u002fana\/notes.txt","content":"one\ntwo \u202e three\n"}}`,
			"the arguments hold a secret", "", 12*time.Second),
		open("A-10", "evil\x1b[2J", "delete\u202e_cod.exe", `{"name":"x","arguments":{},"extra":{"\u0440aypal":"\u200bhidden"}}`,
			"tool says: \x1b]0;owned\x07 approve me\nA-11  1s  9m  safe", "", 2*time.Second),
		{Id: "A-1", State: pb.ApprovalState_APPROVAL_STATE_REJECTED, Created: at(-2 * time.Hour), Expires: at(-time.Hour),
			Agent: "cursor", Server: "db", Method: "tools/call", Tool: "drop_table", Subject: []byte("A-1 0123456789ab"),
			Decided: at(-time.Hour), Decider: "ana (uid 1000)", Surface: "terminal", Note: "never in the evening"},
	}
}

func consoleWithQuestions(t *testing.T) (*fakeDaemon, *console) {
	f := startFake(t)
	f.approvals = questions()
	return f, newConsole(f.socket)
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
			if code := c.run(t, test.args...); code != 0 {
				t.Fatalf("exit %d: %s", code, c.err.String())
			}
			mustFit(t, c.out.String(), 80)
			golden(t, test.golden, c.out.String()+"--- stderr\n"+c.err.String())
		})
	}
}

// Output to a pipe is not cut and has no control characters either.
func TestApprovalsInAPipe(t *testing.T) {
	_, c := consoleWithQuestions(t)
	if code := c.pipe().run(t, "approvals"); code != 0 {
		t.Fatalf("exit %d: %s", code, c.err.String())
	}
	golden(t, "approvals-pipe", c.out.String())
}

func TestApprovalsJSON(t *testing.T) {
	_, c := consoleWithQuestions(t)
	if code := c.pipe().run(t, "approvals", "--all", "--json"); code != 0 {
		t.Fatalf("exit %d: %s", code, c.err.String())
	}
	lines := strings.Split(strings.TrimSpace(c.out.String()), "\n")
	if len(lines) != 4 {
		t.Fatalf("got %d lines, want one for each of 4 questions", len(lines))
	}
	var second struct{ Arguments json.RawMessage }
	if err := json.Unmarshal([]byte(lines[1]), &second); err != nil {
		t.Fatal(err)
	}
	if want := string(questions()[1].GetArguments()); string(second.Arguments) != want {
		t.Errorf("arguments changed on the way:\n got %s\nwant %s", second.Arguments, want)
	}
}

// On a terminal, JSON has the same value without any control characters.
func TestApprovalsJSONOnATerminal(t *testing.T) {
	_, c := consoleWithQuestions(t)
	c.run(t, "approvals", "--json")
	golden(t, "approvals-json", c.out.String())
	onTerminal := strings.Split(strings.TrimSpace(c.out.String()), "\n")
	c.pipe().run(t, "approvals", "--json")
	for i, line := range strings.Split(strings.TrimSpace(c.out.String()), "\n") {
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
	f := startFake(t)
	c := newConsole(f.socket)
	if code := c.run(t, "approvals"); code != 0 || c.out.Len() != 0 || !strings.Contains(c.err.String(), "No question is waiting") {
		t.Errorf("exit %d, stdout %q, stderr %q", code, c.out.String(), c.err.String())
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
				c.pipe()
			}
			if code := c.run(t, append([]string{"approvals"}, test.args...)...); code != 0 {
				t.Fatalf("exit %d: %s", code, c.err.String())
			}
			var ids []string
			for _, d := range f.decisions {
				ids = append(ids, d.GetId())
				if d.GetAnswer() != test.answer || d.GetNote() != test.note || d.GetSurface() != test.surface {
					t.Errorf("got decision %v", d)
				}
				for _, q := range questions() {
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
		{"decided already", []string{"approve", "A-1"}, nil, 1, []string{"A-1: already decided: denied 1h ago"}, 0},
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
			f.decideErr = test.err
			if code := c.run(t, append([]string{"approvals"}, test.args...)...); code != test.code {
				t.Errorf("exit %d, want %d: %s", code, test.code, c.err.String())
			}
			for _, want := range test.says {
				if !strings.Contains(c.err.String(), want) {
					t.Errorf("stderr lacks %q:\n%s", want, c.err.String())
				}
			}
			if len(f.decisions) != test.decided {
				t.Errorf("%d decisions were sent, want %d", len(f.decisions), test.decided)
			}
		})
	}
}

func TestSubjectMustBeginAsShown(t *testing.T) {
	f, c := consoleWithQuestions(t)
	subject := fmt.Sprintf("%X", questions()[1].GetSubject()[:6])
	if code := c.run(t, "approvals", "approve", "A-3", "--subject", subject); code != 0 || len(f.decisions) != 1 {
		t.Errorf("exit %d, %d decisions: %s", code, len(f.decisions), c.err.String())
	}
}

// A terminal shows the beginning and says how much is missing. A pipe gets everything.
func TestShowOfVeryLongArguments(t *testing.T) {
	f, c := consoleWithQuestions(t)
	f.approvals[1].Arguments = []byte(`{"name":"write_file","arguments":{"content":"` + strings.Repeat(`line\n`, 5000) + `","mode":"end"}}`)
	c.run(t, "approvals", "show", "A-3")
	if !strings.Contains(c.out.String(), "more lines; tgctl approvals show A-3 | less") {
		t.Errorf("nothing says that lines are missing:\n%.400s", c.out.String())
	}
	if n := strings.Count(c.out.String(), "\n"); n > showLines+30 {
		t.Errorf("%d lines went to the terminal", n)
	}
	c.pipe().run(t, "approvals", "show", "A-3")
	if n := strings.Count(c.out.String(), `line\n`); n != 5000 || !strings.Contains(c.out.String(), `"mode": "end"`) {
		t.Errorf("the pipe got %d of 5000 lines", n)
	}
}

// mustFit fails if a line is wider than columns or has control characters.
func mustFit(t *testing.T, text string, columns int) {
	t.Helper()
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		if w := display.Width(display.Safe(line)); w > columns {
			t.Errorf("this line takes %d columns of %d:\n%s", w, columns, line)
		}
		if strings.ContainsAny(line, "\x1b\x07\r\u202e\u200b") {
			t.Errorf("this line holds what a terminal obeys: %q", line)
		}
	}
}

// golden compares got with a golden file, which -update writes.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name+".txt")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run with -update to write it)", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}
