package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// Reading is what a courier may read of the audit log.
type Reading struct {
	Log    string
	From   uint64 // the first record
	Values bool   // with the values that the log stores
}

// ErrBeyond reports that a courier asks for records after the end of the log: the engine has
// records that this log does not have.
var ErrBeyond = errors.New("beyond its end")

// MaxValues is the maximum size of the values of a record that leave, in bytes.
const MaxValues = 256 << 10

// Read returns what a courier may read that asks for the log (empty: the current one) from a
// record on. Nothing that was recorded before the join leaves. That it asks for records from there
// on says that the engine has all earlier ones.
func (m *Membership) Read(log string, from uint64) (Reading, error) {
	member, err := m.joined()
	if err != nil {
		return Reading{}, err
	}
	if !member.Sends() {
		return Reading{}, fmt.Errorf("read the audit log: nothing leaves this machine, as its user has agreed: %w", gate.ErrForbidden)
	}
	head := m.o.Head()
	if log != "" && log != head.Log {
		return Reading{}, fmt.Errorf("read the audit log %.80q: %w; the current one is %s", log, gate.ErrNotFound, head.Log)
	}
	if head.Log == "" {
		return Reading{}, fmt.Errorf("read the audit log: %w", gate.ErrNotRunning) // it can't be opened at the moment
	}
	r := Reading{Log: head.Log, From: max(from, 1), Values: member.Values && m.rules != nil && m.rules.SendsValues()}
	if member.Log == head.Log {
		r.From = max(r.From, member.Since)
	}
	if r.From > head.Seq+1 {
		return Reading{}, fmt.Errorf("read the audit log from record %d: %w, which is record %d", r.From, ErrBeyond, head.Seq)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if from > 0 {
		m.sent = record.Head{Log: head.Log, Seq: from - 1}
	}
	return r, nil
}

// Sent returns up to which record of a log the engine has it, as its courier has said since this
// daemon started, and whether records leave at all. A courier that lies can only make the log keep
// what it would otherwise drop for its size; how long records are kept does not depend on it.
func (m *Membership) Sent(log string) (seq uint64, sends bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.member.Log == log {
		seq = m.member.Since - 1
	}
	if m.sent.Log == log {
		seq = max(seq, m.sent.Seq)
	}
	return seq, m.member.Joins() && m.member.Sends()
}

// Pace bounds how fast records leave, so that a courier can't keep the daemon from its work.
type Pace struct {
	start time.Time
	bytes int64
}

// paceRate is the maximum rate in bytes per second; what is below paceStep is not delayed.
const (
	paceRate = 16 << 20
	paceStep = 1 << 20
)

// Wait notes that n bytes leave, and waits if there were too many.
func (p *Pace) Wait(ctx context.Context, n int) error {
	if p.start.IsZero() {
		p.start = time.Now()
	}
	if p.bytes += int64(n); p.bytes < paceStep {
		return nil
	}
	left := time.Duration(p.bytes)*time.Second/paceRate - time.Since(p.start)
	p.start, p.bytes = time.Time{}, 0
	if left <= 0 {
		return nil
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
