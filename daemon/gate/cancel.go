package gate

import "context"

// begin notes that a line is being judged, or waits for that, until done is called, while
// whoever submitted it waits. The context ends with the cause ErrWithdrawn when the line
// is taken back.
func (a *Attachment) begin(ctx context.Context, seq uint64) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.underway[seq] = cancel
	return ctx, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.underway, seq)
		cancel(nil)
	}
}

// Cancel takes back a submitted line that has no final verdict: it is judged no
// further, its question is withdrawn and no verdict follows. It does nothing to any
// other.
func (a *Attachment) Cancel(seq uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, lines := range []map[uint64]context.CancelCauseFunc{a.underway, a.held} {
		if cancel := lines[seq]; cancel != nil {
			cancel(ErrWithdrawn)
		}
	}
}
