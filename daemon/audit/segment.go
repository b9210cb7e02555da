package audit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// openSegment opens segment n for appending, and creates it if necessary.
func (l *Log) openSegment(n uint64) (*os.File, error) {
	f, err := record.OpenFile(l.path(n), os.O_WRONLY|os.O_APPEND|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err := ownedAlone(f, 0o600); err != nil {
		// The first error counts; nothing was written.
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// beginSegment writes the first record of the current segment, which is empty, and makes
// sure that the segment survives a crash.
func (l *Log) beginSegment(now time.Time) error {
	r := record.Record{Kind: record.KindLog, Time: stamp(now), Log: l.id, Profile: l.keeping().Profile}
	line, chain := l.chain.Append(nil, &r, nil)
	l.size = 0
	if err := l.write(line); err != nil {
		return err
	}
	l.chain = chain
	if l.keeping().Sync == config.SyncNever {
		return nil
	}
	return l.foldersync(l.lock)
}

// rotate ends the current segment and begins the next.
func (l *Log) rotate(now time.Time) error {
	if l.keeping().Sync != config.SyncNever && !l.suspect {
		if err := l.datasync(l.file); err != nil {
			l.distrust(err)
			return err
		}
		l.behind = time.Time{}
		l.markSynced(l.chain.Seq)
	}
	next, err := l.openSegment(l.segment + 1)
	if err != nil {
		return err
	}
	if info, err := next.Stat(); err != nil || info.Size() > 0 {
		// Nothing was written; the fault is reported below.
		_ = next.Close()
		return errors.Join(err, fmt.Errorf("%s already exists", l.path(l.segment+1)))
	}
	old, segment, size, past := l.file, l.segment, l.size, l.chain
	l.file, l.segment = next, segment+1
	if err := l.beginSegment(now); err != nil {
		// The remains in the new segment are truncated now, or when it is opened again:
		// the next attempt starts over.
		_ = next.Truncate(0)
		_ = next.Close()
		l.file, l.segment, l.size = old, segment, size
		l.torn = false
		return err
	}
	l.torn, l.suspect = false, false
	l.older += size
	if s := l.ledger.segments[segment]; s != nil {
		s.until = now
	}
	l.untold = append(l.untold, record.Head{Log: l.id, Seq: past.Seq, Sum: past.Sum})
	token(l.ending)
	token(l.grown)
	l.syncing.Lock()
	defer l.syncing.Unlock()
	if err := old.Close(); err != nil {
		l.o.Logger.Warn("close a segment of the audit log", "component", "audit", "err", err)
	}
	return nil
}

// openHead opens the head file and returns what it shows to be missing. Without a head
// file the log still works, but nothing can show later that its end is missing.
func (l *Log) openHead(expected bool) (lost []string) {
	head, err := record.ReadHead(l.dir)
	switch {
	case err != nil:
		lost = append(lost, fmt.Sprintf("the head file can't be read: %v", err))
	case head == nil && expected:
		lost = append(lost, "the head file is missing")
	case head == nil:
	case head.Log != l.id:
		lost = append(lost, fmt.Sprintf("the head file names another log, %q", head.Log))
	case head.Seq > l.chain.Seq:
		lost = append(lost, fmt.Sprintf("records %d to %d, which the head file names, are missing", l.chain.Seq+1, head.Seq))
	case head.Seq == l.chain.Seq && head.Sum != l.chain.Sum:
		lost = append(lost, fmt.Sprintf("record %d is not the one that the head file names", head.Seq))
	}
	f, err := record.OpenFile(filepath.Join(l.dir, record.HeadFile), os.O_WRONLY|os.O_CREATE)
	if err == nil {
		l.head = f
		err = ownedAlone(f, 0o600)
	}
	if err == nil {
		// All heads have the same length, so each overwrites the last.
		err = f.Truncate(int64(len(record.Head{}.Line())))
	}
	if err != nil {
		l.o.Logger.Warn("open the head of the audit log", "component", "audit", "err", err)
	}
	return lost
}

// addGapReason adds to what the next gap record must report.
func (l *Log) addGapReason(what string) {
	if slices.Contains(l.lost, what) {
		return
	}
	l.lost = append(l.lost, what)
	l.o.Logger.Warn("the audit log was changed while it was closed", "component", "audit", "dir", l.dir, "what", what)
}

// Someone who can write to the log's folder can replace the whole log, including its
// head. So the head of each ended segment is also reported to places that they may not
// reach: the daemon's own log, which is the journal where there is one, and a file
// elsewhere if one is configured.

// publish reports the heads that were not reported yet.
func (l *Log) publish() {
	l.mu.Lock()
	heads := l.untold
	l.untold = nil
	l.mu.Unlock()
	var lines []byte
	for _, head := range heads {
		l.o.Logger.Info("head of the audit log", "component", "audit", "log", head.Log, "seq", head.Seq, "sha256", head.Sum)
		lines = append(lines, head.Line()...)
	}
	if l.keeping().Heads == "" || len(lines) == 0 {
		return
	}
	if err := appendSynced(l.keeping().Heads, lines); err != nil {
		l.o.Logger.Warn("add the head of the audit log to audit.heads", "component", "audit", "err", err)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.untold = append(heads, l.untold...)[:min(len(heads)+len(l.untold), maxUntold)]
	}
}

// maxUntold is the maximum number of heads kept for a file that can't be written now.
const maxUntold = 1024

// noteHead adds the current head to those that publish reports. l.mu must be held.
func (l *Log) noteHead() {
	if l.chain.Seq > 0 {
		l.untold = append(l.untold, record.Head{Log: l.id, Seq: l.chain.Seq, Sum: l.chain.Sum})
	}
}

// appendSynced appends content to a file and syncs it. A new file is accessible to its
// owner only.
func appendSynced(path string, content []byte) error {
	f, err := record.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && info.Size()%int64(len(record.Head{}.Line())) != 0 {
		err = fmt.Errorf("%s is not a file of heads; name another one", path)
	}
	if err == nil {
		_, err = f.Write(content)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
