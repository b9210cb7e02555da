package calls

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/thoughtgate/thoughtgated/internal/record"
)

// story is a call as a test plays it: what is written about it, and how it ends.
type story struct {
	records []record.Record
	end     End
	verdict string
	answer  string
	outcome string
}

// tell draws a call with the given number and question.
func tell(t *rapid.T, n uint64, attachment, approval string) story {
	base := record.Record{
		Attachment: attachment, Call: n, Server: "files", Direction: "agent_to_server", Method: "tools/call", Tool: "write",
		MessageID: fmt.Sprint(n),
	}
	of := func(kind record.Kind, verdict string) record.Record {
		r := base
		r.Kind, r.Verdict = kind, verdict
		if kind == record.KindDecision || verdict == record.Hold {
			r.Approval = approval
		}
		return r
	}
	outcome := rapid.SampledFrom([]string{"ok", "tool_error", "cancelled", ""}).Draw(t, "outcome")
	forwarded := func(before ...record.Record) story {
		s := story{records: append(before, of(record.KindCall, record.Forward)), end: Forwarded, verdict: record.Forward, outcome: outcome}
		if len(before) > 0 {
			s.records[len(before)].Approval, s.answer = approval, "approved"
		}
		if outcome != "" {
			s.records = append(s.records, of(record.KindOutcome, outcome))
		}
		return s
	}
	hold := of(record.KindCall, record.Hold)
	switch rapid.SampledFrom([]string{"forward", "deny", "approved", "edited", "rejected", "expired", "withdrawn", "park", "waits", "repeated", "judged again", "held again"}).Draw(t, "story") {
	case "deny":
		return story{records: []record.Record{of(record.KindCall, record.Deny)}, end: Denied, verdict: record.Deny}
	case "approved":
		return forwarded(hold, of(record.KindDecision, "approved"))
	case "edited":
		s := forwarded(hold, of(record.KindDecision, "approved"))
		s.records[2].Reason = "with arguments changed by ana (uid 1000)"
		return s
	case "rejected", "expired":
		answer := rapid.SampledFrom([]string{"rejected", "expired"}).Draw(t, "answer")
		denied := of(record.KindCall, record.Deny)
		denied.Approval = approval
		return story{records: []record.Record{hold, of(record.KindDecision, answer), denied}, end: Denied, verdict: record.Deny, answer: answer}
	case "withdrawn":
		return story{records: []record.Record{hold, of(record.KindDecision, "withdrawn")}, end: Held, verdict: record.Hold, answer: "withdrawn"}
	case "park":
		park := of(record.KindCall, record.Park)
		park.Approval = approval
		// The question ends later, which changes nothing for this call.
		return story{records: []record.Record{hold, park, of(record.KindDecision, "approved")}, end: Held, verdict: record.Park}
	case "waits":
		return story{records: []record.Record{hold}, end: Held, verdict: record.Hold}
	case "repeated": // the question was answered before: no hold
		s := forwarded()
		s.records[0].Approval, s.answer = approval, "approved"
		return s
	case "judged again": // by the next daemon, which denies it
		s := forwarded()
		return story{records: []record.Record{s.records[0], of(record.KindCall, record.Deny)}, end: Denied, verdict: record.Deny}
	case "held again":
		return forwarded(hold, hold, of(record.KindDecision, "approved"))
	}
	return forwarded()
}

// However the records of calls are mixed, each call counts once, by its end, and lists and messages of the
// protocol do not count.
func TestEachCallOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var stories []story
		for i := range rapid.IntRange(0, 30).Draw(t, "calls") {
			attachment := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "attachment")
			stories = append(stories, tell(t, uint64(i+1), attachment, fmt.Sprint("A-", i+1)))
		}
		var got []*Call
		r := NewReader(func(c *Call) { got = append(got, c) })
		left, seq, protocol := make([][]record.Record, len(stories)), uint64(0), uint64(0)
		order := map[uint64]story{} // by the first record's number
		for i, s := range stories {
			left[i] = s.records
		}
		for {
			var open []int
			for i := range left {
				if len(left[i]) > 0 {
					open = append(open, i)
				}
			}
			if len(open) == 0 {
				break
			}
			i := rapid.SampledFrom(open).Draw(t, "next")
			rec := left[i][0]
			seq++
			rec.Seq, rec.Time = seq, time.Unix(int64(seq), 0)
			if len(left[i]) == len(stories[i].records) {
				order[seq] = stories[i]
			}
			left[i] = left[i][1:]
			r.Add(&rec)
			if rapid.Bool().Draw(t, "protocol") {
				seq++
				protocol++
				r.Add(&record.Record{Seq: seq, Kind: record.KindCall, Attachment: "a", Call: 1000 + seq, Direction: "server_to_agent", Method: "tools/list", Verdict: record.Forward})
			}
		}
		r.Close()
		if len(got) != len(stories) || r.Protocol != protocol {
			t.Fatalf("%d calls and %d messages of the protocol, want %d and %d", len(got), r.Protocol, len(stories), protocol)
		}
		for i, c := range got {
			s := order[c.First]
			if c.End() != s.end || c.Verdict != s.verdict || c.Answer != s.answer || c.Outcome != s.outcome {
				t.Errorf("call %d: end %d, %s, %q, %q; want %d, %s, %q, %q", c.First, c.End(), c.Verdict, c.Answer, c.Outcome, s.end, s.verdict, s.answer, s.outcome)
			}
			if i > 0 && got[i-1].First > c.First {
				t.Errorf("call %d comes after %d", c.First, got[i-1].First)
			}
		}
	})
}

// A Reader follows a limited number of calls, and counts each of any number once.
func TestManyCalls(t *testing.T) {
	n := 0
	r := NewReader(func(*Call) { n++ })
	for i := range 2*maxKept + 7 {
		r.Add(&record.Record{Kind: record.KindCall, Attachment: "a", Call: uint64(i + 1), MessageID: fmt.Sprint(i), Method: "tools/call", Verdict: record.Hold, Approval: fmt.Sprint("A-", i)})
		if len(r.calls) > maxKept || len(r.messages) > maxKept || len(r.asked) > maxKept || len(r.order) > maxKept {
			t.Fatalf("after %d calls: %d, %d, %d, %d", i+1, len(r.calls), len(r.messages), len(r.asked), len(r.order))
		}
	}
	if r.Close(); n != 2*maxKept+7 {
		t.Errorf("%d calls, want %d", n, 2*maxKept+7)
	}
}
