package slack

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/slack/fakeslack"
	"github.com/thoughtgate/thoughtgated/internal/test/golden"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// reasons returns the notes of the decisions.
func (h *fixture) reasons() []string {
	h.gate.mu.Lock()
	defer h.gate.mu.Unlock()
	var all []string
	for _, d := range h.gate.decisions {
		all = append(all, d.GetApprover()+" "+strings.ToLower(strings.TrimPrefix(d.GetAnswer().String(), "ANSWER_"))+" "+d.GetNote())
	}
	return all
}

// Denying asks for a reason, which the agent receives.
func TestDenyWithAReason(t *testing.T) {
	h := newFixture(t)
	h.gate.set("A-1", nil)
	h.start()
	m := h.message("A-1", "[Deny]")
	h.press(fakeslack.Press{User: "U0ANN", Action: "deny", Message: m})
	h.until("a form", func() bool { return len(h.slack.Views()) > 0 }) // a press that takes long is acknowledged before
	views := h.slack.Views()
	if len(views) != 1 || h.states() != "A-1 waiting" {
		t.Fatalf("%d forms, %s", len(views), h.states())
	}
	golden.Compare(t, filepath.Join("testdata", "deny.json"), indented(t, views[0].Raw))
	// Submitting the form of another user counts no more than pressing a button.
	h.acked(h.slack.Submit(views[0], "U0EVE", "because"))
	h.whispered("U0EVE", "not an approver")
	h.acked(h.slack.Submit(views[0], "U0ANN", " use `staging` "+strings.Repeat("x", 900)))
	h.message("A-1", "*Denied* by <@U0ANN> on Slack")
	got := h.reasons()
	if len(got) != 1 || !strings.HasPrefix(got[0], "U0ANN deny use `staging` xxx") || len([]rune(got[0])) > maxReasonLength+20 {
		t.Errorf("decided %q", got)
	}
	h.acked(h.slack.Submit(views[0], "U0BEN", "too"))
	h.whispered("U0BEN", "too late")
}

func indented(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	out, err := json.MarshalIndent(raw, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(out) + "\n"
}

// If no form can be opened, the question is denied without a reason.
func TestDenyWithoutAForm(t *testing.T) {
	h := newFixture(t)
	h.slack.Fail("views.open", "expired_trigger_id", 1)
	h.gate.set("A-1", nil)
	h.start()
	h.press(fakeslack.Press{User: "U0BEN", Action: "deny", Message: h.message("A-1", "[Deny]")})
	h.message("A-1", "*Denied* by <@U0BEN>")
}

// Presses by unauthorized users, or of buttons that were not made here, decide nothing. The
// user is told, and the press is acknowledged.
func TestPressesThatDoNotCount(t *testing.T) {
	h := newFixture(t)
	h.gate.set("A-1", nil)
	h.gate.set("A-2", nil)
	h.start()
	m, other := h.message("A-1", "[Approve]"), h.message("A-2", "[Approve]")
	elsewhere := m
	elsewhere.Channel = "C0OTHER"
	for _, test := range []struct {
		name, told string
		press      fakeslack.Press
	}{
		{"somebody else's yes", "not an approver", fakeslack.Press{User: "U0EVE", Action: "approve", Message: m}},
		{"somebody else's no", "not an approver", fakeslack.Press{User: "U0FAY", Action: "deny", Message: m}},
		{"the button of another question", "does not belong to the question", fakeslack.Press{User: "U0ANN", Action: "approve", Message: m, Value: other.Button("approve").Value}},
		{"another subject", "does not belong to the question", fakeslack.Press{User: "U0ANN", Action: "approve", Message: m, Value: "A-1 " + subjectOf("A-2")}},
		{"no value", "does not belong to the question", fakeslack.Press{User: "U0ANN", Action: "approve", Message: m, Value: "x"}},
		{"an unknown message", "the message is unknown", fakeslack.Press{User: "U0ANN", Action: "approve", Message: fakeslack.Message{Channel: m.Channel, TS: "1.1"}, Value: m.Button("approve").Value}},
		{"an unknown action", "the button is unknown", fakeslack.Press{User: "U0ANN", Action: "approve_all", Message: m, Value: m.Button("approve").Value}},
		{"another channel", "", fakeslack.Press{User: "U0ANN", Action: "approve", Message: elsewhere, Value: m.Button("approve").Value}},
		{"nobody", "", fakeslack.Press{User: "", Action: "approve", Message: m}},
		{"a user of a strange name", "", fakeslack.Press{User: "U0ANN> <!channel", Action: "approve", Message: m}},
	} {
		before := len(h.slack.Ephemerals())
		if e := h.press(test.press); e.Acked.Sub(e.Sent) > patience/2 {
			t.Errorf("%s: Slack heard after %v", test.name, e.Acked.Sub(e.Sent))
		}
		if test.told != "" {
			h.whispered(test.press.User, test.told)
		} else if n := len(h.slack.Ephemerals()); n != before {
			t.Errorf("%s: somebody was told %+v", test.name, h.slack.Ephemerals()[n-1])
		}
	}
	if got := h.states(); got != "A-1 waiting, A-2 waiting" {
		t.Errorf("now %s", got)
	}
	h.gate.mu.Lock()
	defer h.gate.mu.Unlock()
	if !slices.Equal(h.gate.refused, []string{"U0EVE", "U0FAY"}) {
		t.Errorf("the daemon was told of %q", h.gate.refused)
	}
}

// An envelope that is sent again, also over another connection, decides only once.
func TestReplays(t *testing.T) {
	h := newFixture(t)
	h.gate.set("A-1", nil)
	h.start()
	m := h.message("A-1", "[Approve]")
	press := fakeslack.Press{User: "U0ANN", Action: "approve", Message: m, Value: m.Button("approve").Value, Envelope: "the-same"}
	for i := range 3 {
		h.slack.Press(press)
		h.until("another acknowledgement", func() bool { return h.slack.Envelope("the-same").Acks > i })
	}
	h.slack.Disconnect("refresh_requested")
	h.until("another connection", func() bool { return h.slack.Calls("apps.connections.open") == 2 && h.slack.Connections() == 1 })
	h.slack.Press(press)
	h.until("another acknowledgement", func() bool { return h.slack.Envelope("the-same").Acks == 4 })
	if got := h.reasons(); !slices.Equal(got, []string{"U0ANN approve "}) {
		t.Errorf("decided %q", got)
	}
	if e := h.slack.Ephemerals(); len(e) != 0 {
		t.Errorf("told %+v", e)
	}
}

// If two users press at the same time, one press counts, and the other user is told whose.
func TestTwoAtOnce(t *testing.T) {
	h := newFixture(t)
	h.gate.set("A-1", nil)
	h.start()
	m := h.message("A-1", "[Approve]")
	first := h.slack.Press(fakeslack.Press{User: "U0ANN", Action: "approve", Message: m})
	second := h.slack.Press(fakeslack.Press{User: "U0BEN", Action: "approve", Message: m})
	h.acked(first)
	h.acked(second)
	h.until("a word to the later one", func() bool {
		return slices.ContainsFunc(h.slack.Ephemerals(), func(e fakeslack.Ephemeral) bool { return strings.Contains(e.Text, "too late") })
	})
	if got := h.reasons(); len(got) != 1 {
		t.Errorf("decided %q", got)
	}
}

// A user who presses a button of an outdated message is told how the question ended.
func TestAPressThatComesTooLate(t *testing.T) {
	h := newFixture(t)
	h.gate.set("A-1", nil)
	h.start()
	m := h.message("A-1", "[Approve]")
	h.gate.set("A-1", func(q *pb.Approval) { q.State = expired })
	h.message("A-1", "*Expired*")
	h.press(fakeslack.Press{User: "U0ANN", Action: "approve", Message: m})
	h.whispered("U0ANN", "too late")
}

// A question that needs presence, or whose workflow accepts no approvals from Slack, cannot be
// approved there, whatever is pressed. It can be denied.
func TestNoYesFromSlack(t *testing.T) {
	for name, change := range map[string]func(*pb.PolicyWorkflow){
		"presence": func(w *pb.PolicyWorkflow) { w.Require = "presence" },
		"surfaces": func(w *pb.PolicyWorkflow) { w.Surfaces = []string{"terminal"} },
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t)
			change(h.gate.flows[0])
			h.gate.set("A-1", nil)
			h.start()
			m := h.message("A-1", "tgctl approvals approve A-1")
			if m.Button("approve") != nil {
				t.Error("there is a button for a yes")
			}
			h.press(fakeslack.Press{User: "U0ANN", Action: "approve", Message: m, Value: "A-1 " + subjectOf("A-1")})
			h.whispered("U0ANN", "cannot be approved on Slack")
			if got := h.states(); got != "A-1 waiting" {
				t.Errorf("now %s", got)
			}
			h.press(fakeslack.Press{User: "U0ANN", Action: "deny", Message: m})
			h.until("a form", func() bool { return len(h.slack.Views()) > 0 })
			h.acked(h.slack.Submit(h.slack.Views()[0], "U0ANN", ""))
			h.message("A-1", "*Denied*")
		})
	}
}

// Nobody can approve a question for a login. The message and the answer to a press say what to do.
func TestNoYesToALogin(t *testing.T) {
	h := newFixture(t)
	h.gate.set("A-1", func(q *pb.Approval) { q.Method, q.Tool, q.Server = "thoughtgate/login", "", "my hub" })
	h.start()
	m := h.message("A-1", "tgctl login 'my hub'")
	if m.Button("approve") != nil || m.Button("deny") == nil {
		t.Error("the buttons are not deny alone")
	}
	h.press(fakeslack.Press{User: "U0ANN", Action: "approve", Message: m, Value: "A-1 " + subjectOf("A-1")})
	h.whispered("U0ANN", "tgctl login 'my hub'")
	if got := h.states(); got != "A-1 waiting" {
		t.Errorf("now %s", got)
	}
}

// Slack closes connections, warns before it does, and sends unexpected or invalid envelopes.
// Each envelope is acknowledged, and presses still count.
func TestConnectionsEnd(t *testing.T) {
	h := newFixture(t)
	h.gate.set("A-1", nil)
	h.start()
	m := h.message("A-1", "[Approve]")
	for i, how := range []string{"warning", "refresh_requested", ""} {
		h.slack.Disconnect(how)
		h.until("another connection", func() bool { return h.slack.Calls("apps.connections.open") == i+2 && h.slack.Connections() == 1 })
	}
	for _, strange := range []struct {
		kind    string
		payload any
	}{
		{"slash_commands", map[string]any{"command": "/thoughtgate", "user_id": "U0ANN"}},
		{"interactive", "no object"},
		{"interactive", map[string]any{"type": "message_action", "user": map[string]any{"id": "U0ANN"}}},
		{"something_new", map[string]any{}},
	} {
		id, ok := h.slack.Send("", strange.kind, strange.payload)
		if !ok {
			t.Fatal("there is no connection")
		}
		h.acked(id)
	}
	h.press(fakeslack.Press{User: "U0ANN", Action: "approve", Message: m})
	h.message("A-1", "*Approved*")
}

// While Slack is unreachable, requests are retried. Questions from that time are posted later.
func TestSlackIsAway(t *testing.T) {
	h := newFixture(t)
	h.slack.Fail("apps.connections.open", "internal_error", 2)
	h.slack.Drop("chat.postMessage", 1)
	h.gate.set("A-1", nil)
	h.start()
	h.message("A-1", "[Approve]")
}

// A press is acknowledged within 3 s even if the daemon is slow, and it counts.
func TestASlowDaemon(t *testing.T) {
	h := newFixture(t)
	h.gate.slow = make(chan struct{})
	h.gate.set("A-1", nil)
	h.start()
	e := h.press(fakeslack.Press{User: "U0ANN", Action: "approve", Message: h.message("A-1", "[Approve]")})
	if took := e.Acked.Sub(e.Sent); took < ackAfter {
		t.Errorf("it was acknowledged after %v, before anything came of it", took)
	}
	if got := h.states(); got != "A-1 waiting" {
		t.Errorf("now %s", got)
	}
	close(h.gate.slow)
	h.message("A-1", "*Approved*")
}

// If Slack's reply names an unencrypted address, no connection is made.
func TestAPlainConnection(t *testing.T) {
	h := newFixture(t)
	h.slack.Lead("ws://192.0.2.1:1/socket")
	h.startUnconnected()
	h.until("a word of it", func() bool {
		return slices.ContainsFunc(h.lines(), func(line string) bool { return strings.Contains(line, "http://192.0.2.1:1 does not use TLS") })
	})
	h.slack.Lead("")
	h.until("a connection", func() bool { return h.slack.Connections() > 0 })
}
