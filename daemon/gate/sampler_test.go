package gate

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

const aSampling = `{"jsonrpc":"2.0","id":"s-1","method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":9}}`

// stand is a Sampler that answers as the test says.
type stand struct {
	who     func(rule string, unable bool) string
	answers func(ctx context.Context) ([]byte, error)
}

func (s *stand) Who(_ *Call, rule string, unable bool) string        { return s.who(rule, unable) }
func (s *stand) Answer(ctx context.Context, _ *Call) ([]byte, error) { return s.answers(ctx) }

func always(string, bool) string { return "notes/fast" }
func whenUnable(_ string, u bool) string {
	if u {
		return "notes/fast"
	}
	return ""
}

func gives(text string) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) { return []byte(text), nil }
}

func waits(ctx context.Context) ([]byte, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

const anAnswer = `{"role":"assistant","content":{"type":"text","text":"ho"},"model":"fast"}`

func samples(seq uint64) Submission {
	return Submission{Seq: seq, Side: wire.FromServer, Line: []byte(aSampling)}
}

func withStand(s *stand) (*fixture, *Attachment, <-chan Verdict) {
	h := newFixture()
	h.gate.Sampler = s
	a := h.gate.Attach(context.Background(), Shim{Attachment: "attachment-0001", Server: "srv"}, nil)
	return h, a, collect(a)
}

// TestSupplied: a request that would be forwarded to the agent is answered in its place. The
// answer is recorded and remembered, and does not count as a denial.
func TestSupplied(t *testing.T) {
	h, a, verdicts := withStand(&stand{who: always, answers: gives(anAnswer)})
	defer a.Close(true)
	a.Submit(samples(1))
	if v := <-verdicts; v.Move != Ask || !strings.Contains(v.Reason, "notes/fast") {
		t.Errorf("first %+v", v)
	}
	v := <-verdicts
	const want = `{"jsonrpc":"2.0","id":"s-1","result":` + anAnswer + `}`
	if v.Move != Deny || string(v.Answer) != want {
		t.Errorf("then %v %s, want %s", v.Move, v.Answer, want)
	}
	if judged, denied, held := a.Counts(); judged != 1 || denied != 0 || held != 0 {
		t.Errorf("judged %d, denied %d, held %d", judged, denied, held)
	}
	if got := h.verdicts(); got != "call:forward outcome:ok" {
		t.Errorf("records %s", got)
	}
	for _, r := range h.records {
		if r.Answerer != "notes/fast" {
			t.Errorf("the record %+v does not say who answers", r)
		}
	}
	if said := strings.Join(h.noted, "\n"); !strings.Contains(said, "heard sampling/createMessage "+aSampling) || !strings.Contains(said, "heard sampling/createMessage "+want) {
		t.Errorf("the memory has heard\n%s", said)
	}
}

// TestWhoAnswers: who answers depends on the rule and on what the agent has declared.
func TestWhoAnswers(t *testing.T) {
	tests := []struct {
		name    string
		who     func(string, bool) string
		rule    string
		before  func(a *Attachment)
		forward bool
	}{
		{"the agent, where nobody else is named", func(string, bool) string { return "" }, "", nil, true},
		{"the agent, of which nothing is known", whenUnable, "", nil, true},
		{"the agent, which declares it", whenUnable, "", initialize(`"sampling":{}`), true},
		{"somebody else, since it does not", whenUnable, "", initialize(`"roots":{}`), false},
		{"somebody else, since it has said no", whenUnable, "", func(a *Attachment) {
			initialize(`"sampling":{}`)(a)
			a.ObserveMessage(wire.FromAgent, samplingMethod, []byte(`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}`), 0)
		}, false},
		{"the agent, which has refused once", whenUnable, "", func(a *Attachment) {
			a.ObserveMessage(wire.FromAgent, samplingMethod, []byte(`{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"User rejected"}}`), 0)
		}, true},
		{"whoever the rule names", func(rule string, _ bool) string { return map[string]string{AnswerProvider: "notes/fast"}[rule] }, AnswerProvider, nil, false},
		{"the agent, by the rule", func(rule string, _ bool) string { return map[string]string{"": "notes/fast"}[rule] }, AnswerAgent, nil, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h, a, verdicts := withStand(&stand{who: test.who, answers: gives(anAnswer)})
			defer a.Close(true)
			h.ruling.Answer = test.rule
			if test.before != nil {
				test.before(a)
			}
			a.Submit(samples(1))
			if v := <-verdicts; (v.Move == Forward) != test.forward {
				t.Errorf("got %v", v.Move)
			}
		})
	}
}

func initialize(capabilities string) func(a *Attachment) {
	return func(a *Attachment) {
		a.RecordMessage(context.Background(), wire.FromAgent, "initialize",
			[]byte(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{`+capabilities+`}}}`))
	}
}

// TestSuppliedLater: what the gates deny is not answered. A person is told who would answer,
// and must approve first.
func TestSuppliedLater(t *testing.T) {
	asked := false
	h, a, verdicts := withStand(&stand{who: always, answers: func(context.Context) ([]byte, error) { asked = true; return []byte(anAnswer), nil }})
	defer a.Close(true)
	h.ruling = Ruling{Move: Deny, Gate: "rule", Reason: "no"}
	a.Submit(samples(1))
	if v := <-verdicts; v.Move != Deny || asked || !strings.Contains(string(v.Answer), "denied by policy") {
		t.Errorf("refused: %v %s, asked %v", v.Move, v.Answer, asked)
	}
	h.ruling = Ruling{Move: Ask, Gate: "rule", Reason: "a person must agree"}
	a.Submit(samples(2))
	if v := <-verdicts; v.Move != Ask || v.Approval != "A-1" {
		t.Errorf("question: %+v", v)
	}
	if got, want := h.question.Ruling.Reason, "a person must agree; the extension notes/fast answers it in the agent's place"; got != want {
		t.Errorf("the person is told %q, want %q", got, want)
	}
	if asked {
		t.Error("the extension was asked before the person")
	}
	h.answers <- Answer{ID: "A-1", Approved: true, State: "approved"}
	if v := <-verdicts; v.Move != Ask {
		t.Errorf("after the yes: %v", v.Move)
	}
	if v := <-verdicts; v.Move != Deny || !strings.Contains(string(v.Answer), anAnswer) {
		t.Errorf("at last: %v %s", v.Move, v.Answer)
	}
}

// TestOtherAnswerer: an approval of an answer by one model does not cover another.
func TestOtherAnswerer(t *testing.T) {
	who := "notes/fast"
	h, a, verdicts := withStand(&stand{who: func(string, bool) string { return who }, answers: gives(anAnswer)})
	defer a.Close(true)
	h.ruling = Ruling{Move: Ask, Gate: "rule", Reason: "a person must agree"}
	a.Submit(samples(1))
	<-verdicts
	who = "other/slow"
	h.answers <- Answer{ID: "A-1", Approved: true, State: "approved"}
	if v := <-verdicts; v.Move != Deny || !strings.Contains(v.Reason, "another rule or policy asks about it now") {
		t.Errorf("got %v, %s", v.Move, v.Reason)
	}
}

// TestNotSupplied: a server is told that there is no answer, and the record says why.
func TestNotSupplied(t *testing.T) {
	h, a, verdicts := withStand(&stand{who: always, answers: func(context.Context) ([]byte, error) { return nil, errors.New("key sk-1 is wrong") }})
	defer a.Close(true)
	a.Submit(samples(1))
	<-verdicts
	v := <-verdicts
	if s := string(v.Answer); v.Move != Deny || !strings.Contains(s, `"code":-31005`) || strings.Contains(s, "sk-1") {
		t.Errorf("the server is told %s", s)
	}
	if r := h.records[len(h.records)-1]; r.Kind != record.KindOutcome || r.Verdict != "protocol_error" || !strings.Contains(r.Reason, "sk-1") {
		t.Errorf("record %+v", r)
	}

	h.set(func() { h.full = errors.New("disk full") })
	a.Submit(samples(2))
	if v := <-verdicts; v.Move != Deny || !strings.Contains(v.Reason, "disk full") {
		t.Errorf("unrecorded: %v %s", v.Move, v.Reason)
	}
}

// TestUnrecordedAnswer: nothing is sent that is not recorded.
func TestUnrecordedAnswer(t *testing.T) {
	s := &stand{who: always}
	h, a, verdicts := withStand(s)
	defer a.Close(true)
	s.answers = func(context.Context) ([]byte, error) {
		h.set(func() { h.full = errors.New("disk full") })
		return []byte(anAnswer), nil
	}
	a.Submit(samples(1))
	<-verdicts
	if v := <-verdicts; v.Move != Deny || strings.Contains(string(v.Answer), "result") || !strings.Contains(v.Reason, "disk full") {
		t.Errorf("got %v %s", v.Move, v.Answer)
	}
}

// TestSuppliedCancelled: an answer to a cancelled request, or one that nobody waits for any
// more, is given up.
func TestSuppliedCancelled(t *testing.T) {
	_, a, verdicts := withStand(&stand{who: always, answers: waits})
	a.Submit(samples(1))
	<-verdicts
	a.Cancel(1)
	a.Submit(samples(2))
	if v := <-verdicts; v.Seq != 2 || v.Move != Ask {
		t.Errorf("after the cancel: %+v", v)
	}
	a.Close(true)
	if _, _, held := a.Counts(); held != 0 {
		t.Errorf("%d are held after the end", held)
	}
	select {
	case v := <-verdicts:
		t.Errorf("a verdict after the end: %+v", v)
	default:
	}
}

// TestMostSupplied: a server that sends too many requests is told so.
func TestMostSupplied(t *testing.T) {
	_, a, verdicts := withStand(&stand{who: always, answers: waits})
	defer a.Close(true)
	for seq := range uint64(mostSupplied) {
		a.Submit(samples(seq + 1))
		<-verdicts
	}
	a.Submit(samples(100))
	if v := <-verdicts; v.Move != Deny || !strings.Contains(string(v.Answer), "gave no answer") {
		t.Errorf("got %v %s", v.Move, v.Answer)
	}
	a.Cancel(1)
}

// TestSuppliedAnew: an answer that a daemon did not finish is not left to the agent by the
// next daemon.
func TestSuppliedAnew(t *testing.T) {
	h, a, verdicts := withStand(&stand{who: always, answers: waits})
	a.Submit(samples(1))
	<-verdicts
	a.Close(false)
	h.gate.Sampler.(*stand).answers = gives(anAnswer)
	b := h.gate.Attach(context.Background(), Shim{Attachment: "attachment-0001", Server: "srv"}, map[uint64]record.Record{1: *h.records[0]})
	defer b.Close(true)
	again := collect(b)
	b.Submit(samples(1))
	if v := <-again; v.Move != Ask {
		t.Errorf("got %v", v.Move)
	}
	if v := <-again; !strings.Contains(string(v.Answer), anAnswer) {
		t.Errorf("got %v %s", v.Move, v.Answer)
	}
}
