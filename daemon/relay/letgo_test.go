package relay

import (
	"os"
	"testing"
)

// The kept copy of the memory is dropped first. A daemon that is killed after that leaves no
// session without some of its ends, which the next daemon would take for altered.
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
