package dashboard

import (
	"cmp"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

func testApp() *app { return &app{consoletest.New("").App} }

// When the page offers to approve, and with what.
func TestOffer(t *testing.T) {
	f := start(t)
	f.enter()
	enrolled := &pb.PresenceState{Enrolled: true}
	for _, test := range []struct {
		name     string
		surfaces []string
		level    string
		method   string
		bytes    int
		presence *pb.PresenceState
		approve  bool
		proof    bool
		why      string
	}{
		{"listed", []string{"terminal", "page"}, "", "", 0, nil, true, false, ""},
		{"listed, and it needs presence", []string{"page"}, "presence", "", 0, enrolled, true, true, ""},
		{"not listed", []string{"terminal", "script"}, "", "", 0, enrolled, true, true, ""},
		{"not listed, and no secret", []string{"terminal", "script"}, "", "", 0, nil, false, false, "tgctl presence enrol"},
		{"not listed, and proofs are refused", []string{"terminal"}, "", "", 0, &pb.PresenceState{Enrolled: true, Locked: durationpb.New(60e9)}, false, false, "refused for 1 min"},
		{"neither page nor terminal", []string{"slack"}, "", "", 0, enrolled, false, false, "slack"},
		{"a workflow that nobody knows", nil, "", "", 0, enrolled, false, false, "workflow"},
		{"too long to read", []string{"page"}, "", "", shownBytes + 1, nil, false, false, "too long"},
		{"a login", []string{"page"}, "", "thoughtgate/login", 0, nil, false, false, "tgctl login"},
	} {
		f.edit(func(d *consoletest.Daemon) {
			d.Set.Detail.Workflows[1].Surfaces, d.Presence = test.surfaces, test.presence
			q := d.Approvals[1]
			q.Level, q.Method = test.level, cmp.Or(test.method, "tools/call")
			q.Arguments = []byte(`{"name":"write_file","arguments":{"x":"` + strings.Repeat("x", test.bytes) + `"}}`)
		})
		var got whole
		f.get("/api/question?id=A-3", &got)
		if got.Offer.Approve != test.approve || got.Offer.Proof != test.proof || !strings.Contains(string(got.Offer.Why), test.why) || !test.approve && got.Offer.Why == "" {
			t.Errorf("%s: %+v", test.name, got.Offer)
		}
		if got.Cut != (test.bytes > 0) {
			t.Errorf("%s: cut %v", test.name, got.Cut)
		}
	}
}

// An answer goes to the daemon with the subject that was shown, what was typed for it, and this surface.
func TestAnswer(t *testing.T) {
	f := start(t)
	f.enter()
	subject := subjectText(f.daemon.Approvals[1].GetSubject())
	for name, body := range map[string]string{
		"no subject": `{"id":"A-3","answer":"approve"}`, "no answer": `{"id":"A-3","subject":"` + subject + `"}`, "another answer": `{"id":"A-3","subject":"` + subject + `","answer":"yes"}`,
		"a member that nobody knows": `{"id":"A-3","subject":"` + subject + `","answer":"deny","surface":"terminal"}`, "no JSON": `id=A-3`, "too much": `{"id":"` + strings.Repeat("x", 1<<20) + `"}`,
	} {
		if code, _, text := f.send("POST", "/api/answer", body, f.papers()...); code != 409 || !strings.Contains(text, `"error"`) {
			t.Errorf("%s: %d %s", name, code, text)
		}
	}
	if code, _, _ := f.send("POST", "/api/answer", `{"id":"A-3","subject":"`+subject+`","answer":"approve"}`, append(f.papers()[:4:4], "Content-Type: text/plain")...); code != 409 {
		t.Errorf("not JSON by its type: %d", code)
	}
	if len(f.decisions()) != 0 {
		t.Fatalf("the daemon got %v", f.decisions())
	}
	code, text := f.post("/api/answer", answerRequest{ID: "A-3", Subject: subjectText([]byte("another subject")), Answer: "approve"})
	if code != 409 || !strings.Contains(text, "something else now") {
		t.Errorf("another subject: %d %s", code, text)
	}
	code, text = f.post("/api/answer", answerRequest{ID: "A-3", Subject: subject, Answer: "approve", Note: "why not"})
	if code != 200 || !strings.Contains(text, "A-3 approved") {
		t.Errorf("approve: %d %s", code, text)
	}
	code, text = f.post("/api/answer", answerRequest{ID: "A-2", Subject: subjectText(f.daemon.Approvals[0].GetSubject()), Answer: "deny", Note: "no"})
	if code != 200 || !strings.Contains(text, "A-2 denied") {
		t.Errorf("deny: %d %s", code, text)
	}
	got := f.decisions()
	if len(got) != 3 || got[1].GetSurface() != "page" || got[1].GetAnswer() != pb.Answer_ANSWER_APPROVE || got[1].GetGrant() != nil || got[1].GetEdit() != nil || got[2].GetAnswer() != pb.Answer_ANSWER_DENY || got[2].GetNote() != "no" {
		t.Errorf("the daemon got %v", got)
	}
	f.edit(func(d *consoletest.Daemon) {
		d.DecideErr = client.NewError(client.ReasonProofNeeded, "a passphrase or code is needed")
	})
	if code, text := f.post("/api/answer", answerRequest{ID: "A-10", Subject: subjectText(f.daemon.Approvals[2].GetSubject()), Answer: "approve"}); code != 409 || !strings.Contains(text, "passphrase") {
		t.Errorf("a proof is needed: %d %s", code, text)
	}
}

// A grant is revoked once.
func TestRevoke(t *testing.T) {
	f := start(t, func(d *consoletest.Daemon) {
		d.Grants = []*pb.Grant{{Id: "G-3", Agent: "claude-code", Server: "github", Method: "tools/call", Tool: "create\u202e_issue", Expires: consoletest.At(60e9), Created: consoletest.At(0)}}
	})
	f.enter()
	var got view
	f.get("/api/grants", &got)
	if len(got.Tables) != 1 || got.Tables[0].Rows[0].Revoke != "G-3" {
		t.Errorf("listed %+v", got)
	}
	if code, text := f.post("/api/revoke", map[string]string{"id": "G-3"}); code != 200 || !strings.Contains(text, "revoked G-3") {
		t.Errorf("%d %s", code, text)
	}
	if code, text := f.post("/api/revoke", map[string]string{"id": "G-3"}); code != 409 || !strings.Contains(text, "no grant G-3") {
		t.Errorf("again: %d %s", code, text)
	}
	var after view
	f.get("/api/grants", &after)
	if after.Tables[0].Rows[0].Revoke != "" {
		t.Error("a grant that has ended can be revoked")
	}
}
