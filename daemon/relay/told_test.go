package relay

import "testing"

// An idle session leaves no outcome of which the next daemon must find out whether it is
// recorded.
func TestOutcomesOfQuietSessionsAreTold(t *testing.T) {
	s := newStage(t, play{})
	s.steps("judged "+aCall, "return "+aResult, "observe outcome:OUTCOME_OK")
	if err := s.until("the journal says that it is told", func() bool { return len(s.session.state.outcomes) == 0 }); err != nil {
		t.Error(err)
	}
	s.leave()
	s.begin()
	if n := len(s.session.state.outcomes); n > 0 {
		t.Errorf("%d outcomes are left to the next daemon", n)
	}
}
