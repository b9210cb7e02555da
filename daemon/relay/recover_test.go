package relay

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
)

// leave ends what the daemon does for the session, for the next one.
func (s *stage) leave() {
	s.t.Helper()
	s.session.Leave()
	<-s.ended
}

// A journal that leads to what can't be is no beginning, whatever the server's end is.
func TestDamagedJournal(t *testing.T) {
	for _, shared := range []bool{false, true} {
		s := newStage(t, play{shared: shared})
		s.leave()
		ends := s.ends()
		journal, err := s.memory.Journal()
		if err != nil {
			t.Fatal(err)
		}
		journal.Add(encode(nil, &framed{fromAgent, []byte{1}}))
		journal.Commit()
		if _, err := New(s.judge, ends, slog.New(slog.DiscardHandler)); !errors.Is(err, mapping.ErrDamaged) {
			t.Errorf("shared: %v: %v", shared, err)
		}
	}
}

// A session in whose staging pipe something stands that nobody has put there does not
// begin again: what its agent has said meanwhile reaches nobody either.
func TestPlantedInStaging(t *testing.T) {
	for side := range 2 {
		s := newStage(t, play{})
		s.steps("judged "+aCall, "return "+aResult)
		s.leave()
		s.steps("agent> " + aPing)
		if _, err := s.staging[side].File().WriteString("planted\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := New(s.judge, s.ends(), slog.New(slog.DiscardHandler)); !errors.Is(err, mapping.ErrDamaged) {
			t.Errorf("side %d: the session begins, or not for this: %v", side, err)
		}
		s.letGo()
		for _, out := range s.out {
			if line, more := <-out; more {
				t.Errorf("side %d: somebody reads %q", side, line)
			}
		}
	}
}

// Where there is no staging pipe, a request of which nobody can tell whether it was
// written is answered with an error that says so, and is written once at most.
func TestRequestInDoubt(t *testing.T) {
	s := newStage(t, play{})
	s.steps("cross "+aPing, "judged "+aCall)
	s.leave()
	cursor, err := s.memory.Cursor(mapping.Server)
	if err != nil {
		t.Fatal(err)
	}
	cursor.SetStaged(cursor.Intent() - uint64(len(aCall)+1))
	cursor.SetDelivered(cursor.Staged()) // as a daemon leaves it that is killed while it writes
	ends := s.ends()
	pipes := ends.Server.(*Pipes)
	pipes.Staging.Close()
	pipes.Staging = nil
	s.run(ends)
	s.steps(`agent< {"jsonrpc":"2.0","id":1,"error":{"code":-31012,"message":"ThoughtGate's daemon was ended while it wrote the request, which may have been executed"}}`,
		`return {"jsonrpc":"2.0","id":2,"result":{}}`, "cross "+aPing, "observe outcome:OUTCOME_LOST")
	if err := s.session.Err(); err != nil {
		t.Error(err)
	}
}
