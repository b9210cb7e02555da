package relay

import (
	"os"
	"testing"
)

// Who keeps the descriptors is told first to let go of the memory: a daemon that is killed
// then leaves no session without some of its ends, which the next one would take for
// altered.
func TestMemoryIsLetGoFirst(t *testing.T) {
	s := newStage(t, play{})
	s.leave()
	ends := s.ends()
	memory := ends.Mapping.File()
	var gone []*os.File
	ends.LetGo = func(f *os.File) { gone = append(gone, f) }
	s.run(ends)
	s.session.Close()
	<-s.ended
	if len(gone) < 2 || gone[0] != memory {
		t.Errorf("of %d descriptors the first is %v", len(gone), gone)
	}
}
