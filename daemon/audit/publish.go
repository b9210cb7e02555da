package audit

import (
	"errors"
	"fmt"
	"os"

	"github.com/thoughtgate/thoughtgated/internal/record"
)

// Who can write to the log's folder can write a whole new log into it, head and
// all. So the head of each segment that has ended is also told to places that a
// thief of the folder may not reach: the daemon's own log, which is the journal
// where there is one, and a file elsewhere if one is named.

// publish tells heads that were not told yet.
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

// maxUntold is how many heads are kept for a file that can't be written now.
const maxUntold = 1024

// noteHead notes where the log stands, for publish. l.mu is held.
func (l *Log) noteHead() {
	if l.chain.Seq > 0 {
		l.untold = append(l.untold, record.Head{Log: l.id, Seq: l.chain.Seq, Sum: l.chain.Sum})
	}
}

// appendSynced adds to a file, which is made for its owner only when it is not
// there, and brings it to stable storage.
func appendSynced(path string, content []byte) error {
	f, err := record.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && info.Size()%int64(len(record.Head{}.Line())) != 0 {
		err = fmt.Errorf("%s is no file of heads; name another one", path)
	}
	if err == nil {
		_, err = f.Write(content)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
