package daemon

import (
	"context"
	"log/slog"

	"github.com/thoughtgate/thoughtgated/daemon/store"
)

// standing keeps which set is in force over a restart. A reload doesn't wait for
// the disk; of several in a row the last one is kept.
type standing struct {
	latest chan string // digest; holds one
	done   chan struct{}
}

// newStanding starts to keep. close must be called.
func newStanding(db *store.DB, log *slog.Logger) *standing {
	s := &standing{latest: make(chan string, 1), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for digest := range s.latest {
			if err := db.KeepStanding(context.Background(), digest); err != nil {
				log.Warn("the next daemon will not know which set was in force", "err", err)
			}
		}
	}()
	return s
}

// put notes the set that is in force. It must not be called concurrently.
func (s *standing) put(digest string) {
	select {
	case <-s.latest: // one that nobody needs any more
	default:
	}
	s.latest <- digest
}

// close returns when the last digest has been kept.
func (s *standing) close() {
	close(s.latest)
	<-s.done
}
