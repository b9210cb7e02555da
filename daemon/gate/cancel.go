package gate

import "context"

// underway is a line that is being judged while whoever submitted it waits.
type underway struct {
	seq    uint64
	cancel context.CancelCauseFunc // nil when there is none
}

// begin notes that a line is being judged until done is called. The context ends
// with the cause ErrWithdrawn when the line is taken back.
func (a *Attachment) begin(ctx context.Context, seq uint64) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.underway = underway{seq, cancel}
	return ctx, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.underway = underway{}
		cancel(nil)
	}
}

// Cancel takes back a submitted line that has no final verdict: it is judged no
// further, its question is withdrawn and no verdict follows. It does nothing to any
// other.
func (a *Attachment) Cancel(seq uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.underway.cancel != nil && a.underway.seq == seq {
		a.underway.cancel(ErrWithdrawn)
	}
	if cancel, ok := a.held[seq]; ok {
		cancel(ErrWithdrawn)
	}
}
