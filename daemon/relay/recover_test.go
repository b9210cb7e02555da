package relay

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
)

// leave ends the daemon's work for the session, for the next daemon.
func (s *stage) leave() {
	s.t.Helper()
	s.session.Leave()
	<-s.ended
}

// A journal with impossible events prevents the start of a session, whatever the server's end
// is.
func TestDamagedJournal(t *testing.T) {
	for _, shared := range []bool{false, true} {
		s := newStage(t, play{shared: shared})
		s.leave()
		ends := s.ends()
		journal, err := s.memory.Journal()
		if err != nil {
			t.Fatal(err)
		}
		journal.Add(new(codec).encode(&framed{fromAgent, []byte{1}}))
		journal.Commit()
		if _, err := New(s.judge, ends, slog.New(slog.DiscardHandler)); !errors.Is(err, mapping.ErrCorrupt) {
			t.Errorf("shared: %v: %v", shared, err)
		}
	}
}

// A session whose staging pipe holds foreign bytes does not start again: nothing that its
// agent wrote meanwhile is delivered.
func TestPlantedInStaging(t *testing.T) {
	for side := range 2 {
		s := newStage(t, play{})
		s.steps("judged "+aCall, "return "+aResult)
		s.leave()
		s.steps("agent> " + aPing)
		if _, err := s.staging[side].File().WriteString("planted\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := New(s.judge, s.ends(), slog.New(slog.DiscardHandler)); !errors.Is(err, mapping.ErrCorrupt) {
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

// Without a staging pipe, a request that may or may not have been written is answered with an
// error that says so, and is written at most once.
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
	s.steps(`agent< {"jsonrpc":"2.0","id":1,"error":{"code":-31012,"message":"ThoughtGate's daemon ended while it wrote the request, which may have been executed"}}`,
		`return {"jsonrpc":"2.0","id":2,"result":{}}`, "cross "+aPing, "observe outcome:OUTCOME_LOST")
	if err := s.session.Err(); err != nil {
		t.Error(err)
	}
}
