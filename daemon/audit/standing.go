package audit

import "time"

// Standing is how a log stands, for those who watch it.
type Standing struct {
	Bytes     int64 // of all segments
	Unindexed int64 // of Bytes
	Failing   bool  // it can't be written
	// Synced reports that records are brought to stable storage at all. Unsynced
	// is how many are not there yet, and Lag for how long the first of them waits.
	Synced   bool
	Unsynced uint64
	Lag      time.Duration
}

// Standing returns how the log stands now.
func (l *Log) Standing() Standing {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Standing{Bytes: l.older + l.size, Failing: l.failed != nil, Synced: l.keeping().Sync != SyncNever}
	s.Unindexed = s.Bytes
	for _, b := range l.blocks {
		s.Unindexed -= b.To - b.From
	}
	s.Unindexed = max(0, s.Unindexed)
	if s.Synced && !l.waiting.IsZero() {
		s.Unsynced, s.Lag = l.chain.Seq-l.synced, max(0, l.o.Now().Sub(l.waiting))
	}
	return s
}
