package slack

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/slack/fakeslack"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// patience is the timeout for everything that a test waits for.
const patience = 60 * time.Second

// gate is a fake daemon that holds questions.
type gate struct {
	mu        sync.Mutex
	flows     []*pb.PolicyWorkflow
	questions map[string]*pb.Approval
	watchers  map[chan *pb.Approval]bool
	decisions []*pb.Decision
	refused   []string // users who were refused as approvers
	away      bool
	slow      chan struct{} // if not nil, answers are decided when it is closed
	unread    error         // error of reading a question
}

func (g *gate) PolicySet(context.Context) (*pb.PolicySet, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.away {
		return nil, client.ErrNotRunning
	}
	return &pb.PolicySet{Detail: &pb.PolicyDetail{Workflows: g.flows}}, nil
}

func (g *gate) Status(context.Context) (*pb.StatusResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.away {
		return nil, client.ErrNotRunning
	}
	return &pb.StatusResponse{}, nil
}

func (g *gate) GetApproval(_ context.Context, id string) (*pb.Approval, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := g.questions[id]
	switch {
	case g.away:
		return nil, client.ErrNotRunning
	case g.unread != nil:
		return nil, g.unread
	case q == nil:
		return nil, client.ErrNotFound
	}
	return copied(q), nil
}

func copied(q *pb.Approval) *pb.Approval {
	return &pb.Approval{
		Id: q.Id, State: q.State, Created: q.Created, Expires: q.Expires, Agent: q.Agent, Session: q.Session, Server: q.Server, Method: q.Method,
		Tool: q.Tool, Arguments: q.Arguments, Subject: q.Subject, Reason: q.Reason, Rule: q.Rule, Workflow: q.Workflow, Facts: q.Facts,
		Decided: q.Decided, Decider: q.Decider, Surface: q.Surface, Note: q.Note, Approver: q.Approver, Good: q.Good, Spent: q.Spent,
	}
}

func (g *gate) WatchApprovals(ctx context.Context) iter.Seq2[*pb.ApprovalEvent, error] {
	return func(yield func(*pb.ApprovalEvent, error) bool) {
		g.mu.Lock()
		ch := make(chan *pb.Approval, 1000)
		away := g.away
		for _, q := range g.questions {
			if q.State == open {
				ch <- told(q)
			}
		}
		g.watchers[ch] = true
		g.mu.Unlock()
		defer func() {
			g.mu.Lock()
			delete(g.watchers, ch)
			g.mu.Unlock()
		}()
		if away {
			yield(nil, client.ErrNotRunning)
			return
		}
		for {
			select {
			case q, ok := <-ch:
				if !ok {
					yield(nil, client.ErrNotRunning)
					return
				}
				if !yield(&pb.ApprovalEvent{Approval: q}, nil) {
					return
				}
			case <-ctx.Done():
				yield(nil, ctx.Err())
				return
			}
		}
	}
}

const (
	open     = pb.ApprovalState_APPROVAL_STATE_OPEN
	approved = pb.ApprovalState_APPROVAL_STATE_APPROVED
	rejected = pb.ApprovalState_APPROVAL_STATE_REJECTED
	expired  = pb.ApprovalState_APPROVAL_STATE_EXPIRED
)

func (g *gate) Decide(_ context.Context, d *pb.Decision) (*pb.Decided, error) {
	if g.slow != nil {
		<-g.slow
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	q := g.questions[d.GetId()]
	switch {
	case g.away:
		return nil, client.ErrNotRunning
	case q == nil:
		return nil, client.ErrNotFound
	case !bytes.Equal(q.Subject, d.GetSubject()):
		return nil, client.ErrChanged
	case d.GetSurface() != "slack" || !slices.Contains(g.approvers(q.GetWorkflow()), d.GetApprover()):
		g.refused = append(g.refused, d.GetApprover())
		return nil, client.ErrForbidden
	case q.State != open:
		return nil, client.ErrDecided
	}
	g.decisions = append(g.decisions, d)
	q.State = rejected
	if d.GetAnswer() == pb.Answer_ANSWER_APPROVE {
		q.State = approved
	}
	q.Note, q.Approver, q.Surface, q.Decider = d.GetNote(), d.GetApprover(), d.GetSurface(), "pid 7 /usr/bin/tgctl"
	g.end(q)
	return &pb.Decided{Approval: copied(q)}, nil
}

func (g *gate) approvers(workflow string) []string {
	for _, w := range g.flows {
		if w.GetName() == workflow {
			return w.GetSlack().GetApprovers()
		}
	}
	return nil
}

// end ends q and notifies the watchers. g.mu must be held.
func (g *gate) end(q *pb.Approval) {
	q.Decided, q.Arguments = timestamppb.New(time.Date(2026, 11, 20, 11, 5, 0, 0, time.UTC)), nil
	g.tell(q)
}

func (g *gate) tell(q *pb.Approval) {
	for ch := range g.watchers {
		ch <- told(q)
	}
}

// told returns q as watchers see it: without the values if they are long.
func told(q *pb.Approval) *pb.Approval {
	q = copied(q)
	if n := len(q.GetArguments()); n > 4<<10 {
		q.Arguments, q.ArgumentsBytes = []byte(`{"short":"yes"}`), uint64(n)
	}
	return q
}

// set creates the question id, or changes it.
func (g *gate) set(id string, change func(*pb.Approval)) *pb.Approval {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := g.questions[id]
	if q == nil {
		q = asked(id)
		g.questions[id] = q
	}
	if change != nil {
		change(q)
	}
	if q.State != open && q.Decided == nil {
		g.end(q)
	} else {
		g.tell(q)
	}
	return copied(q)
}

// asked returns an open question.
func asked(id string) *pb.Approval {
	subject := sha256.Sum256([]byte(id))
	return &pb.Approval{
		Id: id, State: open, Created: timestamppb.New(time.Date(2026, 11, 20, 11, 0, 0, 0, time.UTC)),
		Expires: timestamppb.New(time.Date(2026, 11, 20, 11, 10, 0, 0, time.UTC)), Agent: "claude-code", Session: "s-5d41", Server: "files",
		Method: "tools/call", Tool: "write_file", Arguments: []byte(`{"path":"/home/ann/list.txt","content":"buy <milk> & bread"}`),
		Subject: subject[:], Reason: "it changes a file", Rule: `"write_*" (thoughtgate.yaml:7)`, Workflow: "ops", Facts: []string{"sends: its name says so"},
	}
}

// goAway makes the daemon unreachable, or reachable again.
func (g *gate) goAway(away bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.away = away
	if away {
		for ch := range g.watchers {
			close(ch)
		}
		clear(g.watchers)
	}
}

// sheet lays out a question like tgctl, but shorter.
func sheet(q *pb.Approval) Sheet {
	s := Sheet{Call: display.Name(q.GetTool()), Values: q.GetArguments(), Rows: []Row{
		{"server", display.Name(q.GetServer())}, {"agent", display.Name(q.GetAgent())}, {"because", display.Text(q.GetReason())}, {"asked by", display.Text(q.GetRule())},
	}}
	for _, f := range q.GetFacts() {
		s.Rows = append(s.Rows, Row{"fact", display.Text(f)})
	}
	return s
}

// fixture is a fake Slack, a gate, and a running surface between them.
type fixture struct {
	*testing.T
	ctx   context.Context
	slack *fakeslack.Server
	gate  *gate
	env   map[string]string
	state string
	every time.Duration

	stop func()
	done chan error

	mu   sync.Mutex
	said []string
}

func newFixture(t *testing.T) *fixture {
	ctx, cancel := context.WithTimeout(context.Background(), patience) // outlives the test, so that the cleanup can stop things in order
	h := &fixture{T: t, ctx: ctx, slack: fakeslack.New(), state: filepath.Join(t.TempDir(), "slack"), every: time.Millisecond}
	h.gate = &gate{questions: map[string]*pb.Approval{}, watchers: map[chan *pb.Approval]bool{}}
	h.gate.flows = []*pb.PolicyWorkflow{
		{Name: "ops", Require: "any", Surfaces: []string{"terminal", "slack"}, Slack: &pb.SlackDestination{
			Channel: "ops", BotToken: "SLACK_BOT_TOKEN", AppToken: "SLACK_APP_TOKEN", Mention: []string{"here", "S0OPS"}, Approvers: []string{"U0ANN", "U0BEN"},
		}},
		{Name: "local", Require: "any"},
	}
	h.env = map[string]string{"SLACK_BOT_TOKEN": fakeslack.BotToken, "SLACK_APP_TOKEN": fakeslack.AppToken, apiVariable: h.slack.URL()}
	t.Cleanup(func() {
		h.end()
		h.slack.Close()
		cancel()
		for _, line := range h.lines() {
			if strings.Contains(line, "xoxb-") || strings.Contains(line, "xapp-") {
				t.Errorf("a token was said: %q", line)
			}
		}
	})
	return h
}

func (h *fixture) options() Options {
	return Options{
		Gate: h.gate, Getenv: func(name string) string { return h.env[name] }, State: h.state, Sheet: sheet, Every: h.every,
		Say: func(format string, args ...any) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.said = append(h.said, fmt.Sprintf(format, args...))
		},
	}
}

func (h *fixture) lines() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.said)
}

// start runs the surface, and waits for its connection.
func (h *fixture) start() {
	h.Helper()
	h.startUnconnected()
	h.until("a connection", func() bool { return h.slack.Connections() > 0 })
}

func (h *fixture) startUnconnected() {
	ctx, stop := context.WithCancel(h.ctx)
	done := make(chan error, 1)
	h.stop, h.done = stop, done
	go func() { done <- Run(ctx, h.options()) }()
}

// end stops the surface, and waits for it.
func (h *fixture) end() {
	if h.stop == nil {
		return
	}
	h.stop()
	if err := <-h.done; err != nil {
		h.Errorf("Run: %v", err)
	}
	h.stop = nil
	h.until("no connection", func() bool { return h.slack.Connections() == 0 })
}

// until waits until done returns true.
func (h *fixture) until(what string, done func() bool) {
	h.Helper()
	for !done() {
		if sleep(h.ctx, 5*time.Millisecond) == nil {
			continue
		}
		h.Fatalf("%s never came; said:\n%s\nposted:\n%s", what, strings.Join(h.lines(), "\n"), h.shown())
	}
}

func (h *fixture) shown() string {
	var b strings.Builder
	for _, m := range h.slack.Messages() {
		b.WriteString(m.Shown() + "--\n")
	}
	return b.String()
}

// message waits until the message of a question contains holds.
func (h *fixture) message(id, holds string) fakeslack.Message {
	h.Helper()
	var found fakeslack.Message
	h.until(id+" with "+holds, func() bool {
		for _, m := range h.slack.Messages() {
			if shown := m.Shown(); strings.HasPrefix(shown, "Question "+id+"\n") && strings.Contains(shown, holds) {
				found = m
				return true
			}
		}
		return false
	})
	return found
}

// press presses a button, and waits until the press is acknowledged.
func (h *fixture) press(p fakeslack.Press) fakeslack.Envelope {
	h.Helper()
	id := h.slack.Press(p)
	if id == "" {
		h.Fatalf("there is no such button, or no connection: %+v", p)
	}
	return h.acked(id)
}

func (h *fixture) acked(id string) fakeslack.Envelope {
	h.Helper()
	h.until("acknowledgement of "+id, func() bool { return h.slack.Envelope(id).Acks > 0 })
	return h.slack.Envelope(id)
}

// whispered waits for an ephemeral message to user that contains holds.
func (h *fixture) whispered(user, holds string) {
	h.Helper()
	h.until("a word to "+user+": "+holds, func() bool {
		return slices.ContainsFunc(h.slack.Ephemerals(), func(e fakeslack.Ephemeral) bool { return e.User == user && strings.Contains(e.Text, holds) })
	})
}

func (h *fixture) states() string {
	h.gate.mu.Lock()
	defer h.gate.mu.Unlock()
	var all []string
	for id, q := range h.gate.questions {
		all = append(all, id+" "+strings.ToLower(stateWord(q)))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func subjectOf(id string) string { return hex.EncodeToString(asked(id).Subject) }
