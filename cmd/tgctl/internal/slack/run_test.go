package slack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/slack/fakeslack"
	"github.com/thoughtgate/thoughtgated/internal/test/golden"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

func TestAQuestionFromAskedToApproved(t *testing.T) {
	h := newFixture(t)
	h.gate.set("A-1", nil) // before the surface watches
	h.gate.set("A-2", func(q *pb.Approval) { q.Workflow = "local" })
	h.start()
	m := h.message("A-1", "[Approve]\n[Deny]")
	if b := m.Button("approve"); b.Value != "A-1 "+subjectOf("A-1") || !strings.Contains(b.Confirm, "write_file") {
		t.Errorf("the button is %+v", b)
	}
	h.press(fakeslack.Press{User: "U0ANN", Action: "approve", Message: m})
	m = h.message("A-1", "*Approved* by <@U0ANN> on Slack, <!date^")
	if m.Button("approve") != nil || m.Button("deny") != nil || strings.Contains(m.Shown(), "milk") {
		t.Errorf("after the answer there stands\n%s", m.Shown())
	}
	h.gate.mu.Lock()
	d := h.gate.decisions[0]
	h.gate.mu.Unlock()
	if d.GetAnswer() != pb.Answer_ANSWER_APPROVE || d.GetApprover() != "U0ANN" || d.GetSurface() != "slack" {
		t.Errorf("decided %v", d)
	}
	if n := len(h.slack.Messages()); n != 1 {
		t.Errorf("%d messages stand there:\n%s", n, h.shown())
	}
	// An ended question is forgotten.
	h.until("an empty memory", func() bool {
		text, err := os.ReadFile(filepath.Join(h.state, fakeslack.Team+"-"+fakeslack.Bot+".json"))
		return err == nil && !strings.Contains(string(text), "A-1")
	})
}

// When a question is decided elsewhere, its message says how it ended and has no buttons.
func TestEndsElsewhere(t *testing.T) {
	h := newFixture(t)
	h.start()
	for _, test := range []struct {
		id, want string
		end      func(*pb.Approval)
	}{
		{"A-1", "*Denied* by `the user (terminal pts/4)`", func(q *pb.Approval) {
			q.State, q.Decider, q.Surface = rejected, "pid 9 tgctl on /dev/pts/4", "terminal"
		}},
		{"A-2", "*Expired*", func(q *pb.Approval) { q.State = expired }},
		{"A-3", "*Withdrawn*", func(q *pb.Approval) { q.State = pb.ApprovalState_APPROVAL_STATE_WITHDRAWN }},
		{"A-4", "the answer is kept until <!date^", func(q *pb.Approval) {
			q.State, q.Good = approved, timestamppb.New(time.Now().Add(time.Hour))
		}},
	} {
		h.gate.set(test.id, nil)
		h.message(test.id, "[Deny]")
		h.gate.set(test.id, test.end)
		if m := h.message(test.id, test.want); m.Button("deny") != nil {
			t.Errorf("%s has buttons still:\n%s", test.id, m.Shown())
		}
	}
	// A denial replaces the approval that waits for the agent; the message is updated.
	h.gate.set("A-4", func(q *pb.Approval) { q.State, q.Good, q.Decided = rejected, nil, timestamppb.Now() })
	h.message("A-4", "*Denied*")
}

// After a restart nothing is posted twice, and questions that ended meanwhile are updated.
func TestRestart(t *testing.T) {
	h := newFixture(t)
	h.start()
	for _, id := range []string{"A-1", "A-2", "A-3"} {
		h.gate.set(id, nil)
		h.message(id, "[Approve]")
	}
	h.end()
	h.gate.set("A-2", func(q *pb.Approval) { q.State = expired })
	h.gate.mu.Lock()
	delete(h.gate.questions, "A-3") // a daemon that lost its state
	h.gate.mu.Unlock()
	h.gate.set("A-4", nil)
	h.start()
	h.message("A-4", "[Approve]")
	h.message("A-2", "*Expired*")
	h.message("A-3", "*Ended.*")
	if n := len(h.slack.Messages()); n != 4 {
		t.Errorf("%d messages stand there:\n%s", n, h.shown())
	}
	first := h.message("A-1", "[Approve]")
	if first.Versions != 1 {
		t.Errorf("A-1 was sent %d times", first.Versions)
	}
	h.press(fakeslack.Press{User: "U0BEN", Action: "approve", Message: first})
	h.message("A-1", "*Approved* by <@U0BEN>")
}

// A reused id with another subject is another question.
func TestAnIDThatComesAgain(t *testing.T) {
	h := newFixture(t)
	h.gate.set("A-1", nil)
	h.start()
	h.message("A-1", "[Approve]")
	h.gate.set("A-1", func(q *pb.Approval) { q.Subject = asked("another").Subject })
	h.message("A-1", "*Ended.*")
	h.message("A-1", subjectOf("another"))
}

// If the reply to a post is lost, the next message says that it may be a duplicate. Presses
// count only on the message that is remembered.
func TestAnAnswerOfSlackThatIsLost(t *testing.T) {
	h := newFixture(t)
	h.slack.Drop("chat.postMessage", 1)
	h.gate.set("A-1", nil)
	h.start()
	second := h.message("A-1", "may be a duplicate")
	first := h.slack.Messages()[0]
	h.press(fakeslack.Press{User: "U0ANN", Action: "approve", Message: first})
	h.whispered("U0ANN", "the message is unknown")
	if got := h.states(); got != "A-1 waiting" {
		t.Errorf("now %s", got)
	}
	h.press(fakeslack.Press{User: "U0ANN", Action: "approve", Message: second})
	h.message("A-1", "*Approved*")
	// A press on the other message now updates that too.
	h.press(fakeslack.Press{User: "U0BEN", Action: "deny", Message: first})
	h.whispered("U0BEN", "it came too late: A-1 is approved")
	h.until("no buttons", func() bool { return !strings.Contains(h.shown(), "[") })
}

// A process that is killed while posting leaves a record of it.
func TestKilledWhilePosting(t *testing.T) {
	h := newFixture(t)
	h.gate.set("A-1", nil)
	m, err := remember(h.state, fakeslack.Team+"-"+fakeslack.Bot)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.keep([]message{{ID: "A-1", Subject: subjectOf("A-1"), Workflow: "ops", Asked: "ops"}}); err != nil {
		t.Fatal(err)
	}
	m.close()
	h.start()
	h.message("A-1", "may be a duplicate")
}

// A deleted message is posted again when it would be updated.
func TestAMessageTakenAway(t *testing.T) {
	h := newFixture(t)
	h.gate.set("A-1", nil)
	h.start()
	h.slack.Delete(h.message("A-1", "[Approve]"))
	h.gate.set("A-1", func(q *pb.Approval) { q.Facts = append(q.Facts, "acts") })
	h.message("A-1", "acts")
	h.slack.Delete(h.message("A-1", "acts"))
	h.gate.set("A-1", func(q *pb.Approval) { q.State = expired })
	h.gate.set("A-2", nil)
	h.message("A-2", "[Approve]")
	if strings.Contains(h.shown(), "A-1") {
		t.Errorf("what has ended was posted again:\n%s", h.shown())
	}
}

// If there are many questions at once, they are posted as a thread, and only its head mentions
// people.
func TestABurst(t *testing.T) {
	h := newFixture(t)
	for i := range 12 {
		h.gate.set(fmt.Sprintf("A-%d", i+1), func(q *pb.Approval) {
			q.Created = timestamppb.New(q.Created.AsTime().Add(time.Duration(i) * time.Second))
		})
	}
	// The first post is delayed until all of them are there.
	h.slack.Limit("chat.postMessage", 1, 1)
	h.start()
	h.until("every question", func() bool { return len(h.slack.Messages()) >= 13 })
	var roots, ids []string
	mentions := 0
	for _, m := range h.slack.Messages() {
		if m.Thread == "" {
			roots = append(roots, strings.TrimSpace(strings.Split(m.Shown(), "\n")[0]))
		} else {
			ids = append(ids, strings.TrimPrefix(strings.Split(m.Shown(), "\n")[0], "Question "))
		}
		if strings.Contains(m.Shown(), "<!here>") {
			mentions++
		}
	}
	if len(h.slack.Messages()) > 14 || mentions > 2 || len(ids) < 11 {
		t.Errorf("channel %q, thread %q, %d mentions", roots, ids, mentions)
	}
	last := h.message("A-12", "[Approve]")
	h.press(fakeslack.Press{User: "U0EVE", Action: "approve", Message: last})
	h.until("a word in the thread", func() bool {
		return slices.ContainsFunc(h.slack.Ephemerals(), func(e fakeslack.Ephemeral) bool { return e.User == "U0EVE" && e.Thread == last.Thread })
	})
}

// Slack's rate limit is obeyed, and messages to a channel keep the minimum interval.
func TestPace(t *testing.T) {
	h := newFixture(t)
	h.every = 300 * time.Millisecond
	h.slack.Limit("chat.postMessage", 1, 2)
	began := time.Now()
	for i := range 3 {
		h.gate.set(fmt.Sprintf("A-%d", i+1), nil)
	}
	h.start()
	h.until("three messages", func() bool { return len(h.slack.Messages()) == 3 })
	all := h.slack.Messages()
	if waited := all[0].Posted.Sub(began); waited < 2*time.Second {
		t.Errorf("the first message was posted after %v, and Slack had said 1 s twice", waited)
	}
	for i := 1; i < len(all); i++ {
		if d := all[i].Posted.Sub(all[i-1].Posted); d < h.every {
			t.Errorf("%v between two messages, want %v", d, h.every)
		}
	}
}

// A message whose content Slack refuses is sent without the values, and then cannot be
// approved.
func TestAMessageThatIsNotTaken(t *testing.T) {
	h := newFixture(t)
	h.slack.Fail("chat.postMessage", "invalid_blocks", 1)
	h.gate.set("A-1", nil)
	h.start()
	m := h.message("A-1", "Slack did not accept them")
	if m.Button("approve") != nil || m.Button("deny") == nil {
		t.Errorf("it has the wrong buttons:\n%s", m.Shown())
	}
}

func TestErrorsThatPass(t *testing.T) {
	for _, test := range []struct{ code, want string }{
		{"channel_not_found", "the channel does not exist"},
		{"not_in_channel", "/invite"},
		{"missing_scope", "lacks a scope, chat:write"},
		{"is_archived", "is archived"},
		{"internal_error", "internal_error"},
	} {
		t.Run(test.code, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t)
			h.slack.Fail("chat.postMessage", test.code, 1)
			h.gate.set("A-1", nil)
			h.start()
			h.message("A-1", "[Approve]") // once the cause is fixed
			if !slices.ContainsFunc(h.lines(), func(line string) bool { return strings.Contains(line, test.want) }) {
				t.Errorf("%q is not said:\n%s", test.want, strings.Join(h.lines(), "\n"))
			}
		})
	}
}

func TestErrorsThatLast(t *testing.T) {
	for _, test := range []struct {
		name, want string
		change     func(*fixture)
	}{
		{"no workflow", "no workflow in force asks on Slack", func(h *fixture) { h.gate.flows = nil }},
		{"bot token unknown", "invalid_auth", func(h *fixture) { h.env["SLACK_BOT_TOKEN"] = "xoxb-another" }},
		{"app token unknown", "invalid_auth", func(h *fixture) { h.env["SLACK_APP_TOKEN"] = "xapp-another" }},
		{"no token", "the bot token is missing", func(h *fixture) { delete(h.env, "SLACK_BOT_TOKEN") }},
		{"tokens exchanged", "it must begin with xoxb-", func(h *fixture) { h.env["SLACK_BOT_TOKEN"] = fakeslack.AppToken }},
		{"scope of the app token", "lacks a scope", func(h *fixture) { h.slack.Fail("apps.connections.open", "missing_scope", 9) }},
		{"revoked while it asks", "the token was revoked", func(h *fixture) {
			h.slack.Fail("chat.postMessage", "token_revoked", 9)
			h.gate.set("A-1", nil)
		}},
		{"plain http", "plain http is allowed only on this machine", func(h *fixture) { h.env[apiVariable] = "http://slack.example/api/" }},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newFixture(t)
			test.change(h)
			err := Run(h.ctx, h.options())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want %q", err, test.want)
			}
			var p *Problem
			if test.name != "plain http" && (!errors.As(err, &p) || p.Hint == "") {
				t.Errorf("%v says nothing of what to do", err)
			}
			for _, secret := range []string{"xoxb-another", "xapp-another", fakeslack.AppToken} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("the error holds a token: %v", err)
				}
			}
		})
	}
}

// Two processes would post everything twice.
func TestOneProcessAnApp(t *testing.T) {
	h := newFixture(t)
	h.start()
	if err := Run(h.ctx, h.options()); err == nil || !strings.Contains(err.Error(), "another `tgctl slack`") {
		t.Errorf("got %v", err)
	}
}

func TestTheDaemonGoesAndComes(t *testing.T) {
	h := newFixture(t)
	h.gate.set("A-1", nil)
	h.start()
	m := h.message("A-1", "[Approve]")
	h.gate.goAway(true)
	h.press(fakeslack.Press{User: "U0ANN", Action: "approve", Message: m})
	h.whispered("U0ANN", "ThoughtGate is not running")
	h.gate.goAway(false)
	h.gate.set("A-2", nil)
	h.message("A-2", "[Approve]")
	h.press(fakeslack.Press{User: "U0ANN", Action: "approve", Message: m})
	h.message("A-1", "*Approved*")
}

func TestCheck(t *testing.T) {
	h := newFixture(t)
	if err := Check(h.ctx, h.options()); err != nil {
		t.Fatal(err)
	}
	if len(h.slack.Messages()) != 0 || h.slack.Calls("chat.delete") != 1 || h.slack.Calls("apps.connections.open") != 1 {
		t.Errorf("it left %s", h.shown())
	}
	golden.Compare(t, filepath.Join("testdata", "check.txt"), strings.Join(h.lines(), "\n")+"\n")
	h.gate.flows[0].Slack.Channel = fakeslack.Private
	err := Check(h.ctx, h.options())
	var p *Problem
	if !errors.As(err, &p) || !strings.Contains(p.Hint, "/invite") {
		t.Errorf("got %v", err)
	}
}

// Workflows added by a reload are asked for. An approver who was removed can no longer answer.
func TestReload(t *testing.T) {
	h := newFixture(t)
	h.gate.set("A-1", nil)
	h.start()
	m := h.message("A-1", "[Approve]")
	h.gate.mu.Lock()
	ops := h.gate.flows[0]
	h.gate.flows = []*pb.PolicyWorkflow{
		{Name: "ops", Require: "any", Surfaces: ops.Surfaces, Slack: &pb.SlackDestination{Channel: "ops", BotToken: "SLACK_BOT_TOKEN", AppToken: "SLACK_APP_TOKEN", Approvers: []string{"U0BEN"}}},
		{Name: "board", Require: "any", Surfaces: ops.Surfaces, Slack: &pb.SlackDestination{Channel: "#ops", BotToken: "SLACK_BOT_TOKEN", AppToken: "SLACK_APP_TOKEN", Approvers: []string{"U0BEN"}}},
	}
	h.gate.mu.Unlock()
	h.press(fakeslack.Press{User: "U0ANN", Action: "approve", Message: m})
	h.whispered("U0ANN", "not an approver")
	h.gate.set("A-2", func(q *pb.Approval) { q.Workflow = "board" })
	h.message("A-2", "[Approve]")
}

// When stopped while posting, it still waits for Slack's reply.
func TestStoppedWhilePosting(t *testing.T) {
	h := newFixture(t)
	h.gate.set("A-1", nil)
	h.start()
	h.message("A-1", "[Approve]")
	h.gate.set("A-2", nil)
	h.end()
	posted := len(h.slack.Messages())
	h.start()
	h.message("A-2", "[Approve]")
	if n := len(h.slack.Messages()); n != 2 {
		t.Errorf("%d messages stand there, %d before the restart:\n%s", n, posted, h.shown())
	}
}

func TestSleepEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if sleep(ctx, time.Hour) == nil || sleep(ctx, 0) == nil {
		t.Error("it slept in spite of its context")
	}
}

// Long values are read before they are shown. A question whose values cannot be read cannot be
// approved.
func TestLongValues(t *testing.T) {
	h := newFixture(t)
	long := func(q *pb.Approval) {
		q.Arguments = []byte(`{"content":"` + strings.Repeat(" ", 5000) + `the end"}`)
	}
	h.gate.set("A-1", long)
	h.start()
	m := h.message("A-1", "the end")
	if m.Button("approve") == nil || strings.Contains(m.Shown(), `short"`) {
		t.Errorf("there stands\n%s", m.Shown())
	}
	h.gate.mu.Lock()
	h.gate.unread = client.ErrChanged
	h.gate.mu.Unlock()
	h.gate.set("A-1", func(q *pb.Approval) { q.Reason = "another reason" }) // the values read before are still valid
	h.gate.set("A-2", long)
	m = h.message("A-2", "they could not be read")
	if m.Button("approve") != nil || m.Button("deny") == nil || strings.Contains(m.Shown(), `short"`) {
		t.Errorf("there stands\n%s", m.Shown())
	}
	if m = h.message("A-1", "another reason"); m.Button("approve") == nil || !strings.Contains(m.Shown(), "the end") {
		t.Errorf("told of again there stands\n%s", m.Shown())
	}
}
