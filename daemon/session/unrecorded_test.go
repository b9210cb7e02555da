package session

import (
	"context"
	"errors"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/record"
)

// fullDisk is a world in which nothing can be recorded.
type fullDisk struct{ *world }

func (fullDisk) Record(context.Context, *record.Record, []byte, []string) error {
	return errors.New("no space left")
}

// A session whose opening can't be recorded is refused and does not count as open; otherwise its
// files would never be restored.
func TestSessionThatCannotBeRecorded(t *testing.T) {
	w := newWorld()
	r := w.registry(t)
	defer r.Close()
	r.recorder = fullDisk{w}
	if _, err := r.Open(context.Background(), aWrap, aSpec); err == nil {
		t.Fatal("it was opened")
	}
	w.eventually(t, "put back and forgotten", func() bool { return len(w.restored) == 1 && len(w.saved) == 0 })
	if n := len(r.List()); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
}
