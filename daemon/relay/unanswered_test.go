package relay

import (
	"fmt"
	"testing"
	"time"
)

// tellSoon has requests without an answer reported to the judge at once.
func (s *stage) tellSoon() {
	s.session.mu.Lock()
	defer s.session.mu.Unlock()
	s.session.silentRequests.after = time.Millisecond
}

// unanswered waits until exactly these requests without an answer were reported to the judge.
func (s *stage) unanswered(want string) {
	s.t.Helper()
	if err := s.until("the judge is told", func() bool { return s.judge.unanswered() == want }); err != nil {
		s.t.Fatalf("%v: got %s, want %s", err, s.judge.unanswered(), want)
	}
}

// Requests without an answer are reported to the judge, judged or not, from both sides, by the
// next daemon too and with the same start time. When they are answered, that is reported.
func TestUnanswered(t *testing.T) {
	s := newStage(t, play{})
	s.tellSoon()
	held := `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"held"}}`
	s.steps("judged "+aCall, "agent> "+held, "submit "+held, "pending", "cross "+aPing, `return {"jsonrpc":"2.0","id":7,"method":"ping"}`,
		`cross {"jsonrpc":"2.0","id":4,"method":"ping"}`, `cross {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}`)
	const all = `2 of an agent: tools/call 1, 6 of an agent: ping 2, 3 of a server: ping 7, and 0`
	s.unanswered(all)
	first := s.judge.oldest()
	s.restart()
	s.judge.SetUnanswered(nil, 0) // so that the report comes from the next daemon
	s.unanswered(all)
	if since := s.judge.oldest(); since != first || time.Since(since) > time.Hour {
		t.Errorf("the call has no answer since %v; before it was %v", since, first)
	}
	s.tellSoon()
	s.steps("return "+aResult, `cross {"jsonrpc":"2.0","id":7,"result":{}}`)
	s.unanswered(`6 of an agent: ping 2, and 0`)
	s.steps("forward", "server< "+held)
	s.unanswered(`6 of an agent: ping 2, 4 of an agent: tools/call 3, and 0`)
	s.steps(`return {"jsonrpc":"2.0","id":2,"result":{}}`, `return {"jsonrpc":"2.0","id":3,"result":{"content":[]}}`)
	s.unanswered(`and 0`)
}

// If there are too many requests without an answer, the judge gets the number of further ones.
func TestManyUnanswered(t *testing.T) {
	st := newState()
	for i := range uint64(maxUnanswered + 3) {
		side := fromAgent
		if i == maxUnanswered {
			side = fromServer
		}
		key := fmt.Sprint(i)
		st.open[side][key] = &request{side: side, key: key, id: []byte(key), number: i, sent: 1 + i}
	}
	silent, young := st.silent(maxUnanswered + 2)
	if open, more := unanswered(silent); len(open) != maxUnanswered || more != 1 || !young || open[0].Call != 0 {
		t.Errorf("%d are told, %d more, young: %v", len(open), more, young)
	}
}
