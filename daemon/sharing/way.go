package sharing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/child"
)

const (
	// Window is how many bytes of lines each side may send that the other has not
	// taken over, about what two pipes hold; a line that begins within it may be
	// longer.
	Window = 1 << 20

	// unread is how many bytes of lines may wait for a shim besides. An agent that
	// leaves more unread, or a shim that does not come back, is given up.
	unread      = 16 << 20
	unreadLines = 16 << 10
)

// Way leads from one attachment to its server and back. Its methods may be called
// by any number of goroutines at once; those that belong to a stream, in the order
// in which the stream brought what they are about.
type Way struct {
	book   *Book
	ctx    context.Context // is over when the attachment or the book is
	cancel context.CancelCauseFunc

	serving context.Context // is over when the server serves no more, too
	served  context.CancelFunc

	mu     sync.Mutex // guards what follows
	opened bool
	sink   Sink // nil while no stream has taken the way up
	gone   *Gone

	// Towards the server.
	verdicts verdicts
	up       [][]byte // not yet written
	upBytes  int
	last     uint64 // seq of the last line that came
	more     sync.Cond

	// Towards the agent. Lines are numbered from 1.
	down      [][]byte // not yet taken over, oldest first
	downBytes int
	sent      int // of down, how many went into the present stream
	sentBytes int
	taken     uint64 // seq of the last one that was taken over
}

func newWay(b *Book) *Way {
	w := &Way{book: b, verdicts: newVerdicts()}
	w.ctx, w.cancel = context.WithCancelCause(b.ctx)
	w.serving, w.served = context.WithCancel(w.ctx)
	w.more.L = &w.mu
	return w
}

// Kept reports whether the way stands already, and the number of the last line
// that came for the server.
func (w *Way) Kept() (bool, uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.opened, w.last
}

// Open opens the way for a stream, and finds the server when that was not done
// before; took is the last line that the shim has taken over. A client that has
// shaken hands before comes with its initialize.
func (w *Way) Open(launch Launch, initialize []byte, took uint64, to Sink) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sink = to
	if w.gone != nil {
		to.Gone(*w.gone)
		return
	}
	w.take(took)
	w.sent, w.sentBytes = 0, 0
	w.send()
	if !w.opened {
		w.opened = true
		w.book.wait.Go(func() { w.run(launch, initialize) })
	}
}

// Part is called when the stream of a sink has ended.
func (w *Way) Part(from Sink) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sink == from {
		w.sink = nil
	}
}

// Fail ends the way before it was opened.
func (w *Way) Fail(g Gone, to Sink) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sink = to
	w.tellGone(g)
}

// run finds the server and writes to it what comes, until the way is over.
func (w *Way) run(launch Launch, initialize []byte) {
	stop := context.AfterFunc(w.ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.more.Broadcast()
	})
	defer stop()
	m, err := w.book.join(w.ctx, launch, w)
	if err != nil {
		w.Gone(err)
		return
	}
	defer m.Leave()
	if len(initialize) > 0 {
		select {
		case <-m.Resume(initialize):
		case <-w.serving.Done():
			return
		}
	}
	for {
		line, seq, ok := w.next()
		if !ok {
			return
		}
		if err := m.Write(w.serving, line); err != nil {
			w.Gone(err)
			return
		}
		w.wrote(seq, len(line))
	}
}

// next waits for a line for the server; false at the end of the way.
func (w *Way) next() ([]byte, uint64, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.up) == 0 && w.gone == nil && w.ctx.Err() == nil {
		w.more.Wait()
	}
	if w.gone != nil || w.ctx.Err() != nil {
		return nil, 0, false
	}
	line := w.up[0]
	w.up[0] = nil
	w.up = w.up[1:]
	return line, w.last - uint64(len(w.up)), true
}

func (w *Way) wrote(seq uint64, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.upBytes -= n
	if w.sink != nil {
		w.sink.Wrote(seq)
	}
}

// Submitted takes note of what a shim wants judged. A shim that submits under
// one number what an agent and what a server wrote is not one of ours.
func (w *Way) Submitted(s gate.Submission) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.verdicts.submitted(s.Seq, s.Side)
}

// Cancelled takes note of a submission that was taken back.
func (w *Way) Cancelled(seq uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.verdicts.cancelled(seq)
}

// Verdict takes note of a verdict before the shim knows it.
func (w *Way) Verdict(v gate.Verdict) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.verdicts.verdict(v)
}

// Write takes a line for the server, which it owns from here on. Its errors end
// the way, and wrap [gate.ErrForbidden] for a line that nobody let through.
func (w *Way) Write(seq uint64, line []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !w.opened || w.gone != nil:
		return nil // the shim is being told
	case seq <= w.last:
		return nil // the stream before has brought it after all
	case seq != w.last+1:
		return fmt.Errorf("line %d for the server comes after line %d: %w", seq, w.last, gate.ErrInvalid)
	case w.upBytes >= 2*Window:
		return fmt.Errorf("more than %d bytes are on their way to the server: %w", 2*Window, gate.ErrTooLarge)
	}
	if err := w.verdicts.permit(line); err != nil {
		w.end(Gone{Started: true, Status: child.ExitOurs, Reason: err.Error()})
		return err
	}
	w.last++
	w.up = append(w.up, line)
	w.upBytes += len(line)
	w.more.Signal()
	return nil
}

// Took says that the shim has taken over the lines up to seq.
func (w *Way) Took(seq uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.take(seq)
	w.send()
}

// take forgets lines that were taken over. w.mu is held.
func (w *Way) take(seq uint64) {
	for len(w.down) > 0 && w.taken < seq {
		n := len(w.down[0])
		w.down[0] = nil
		w.down = w.down[1:]
		w.downBytes -= n
		if w.taken++; w.sent > 0 {
			w.sent--
			w.sentBytes -= n
		}
	}
}

// send sends what may be sent. w.mu is held.
func (w *Way) send() {
	for w.sink != nil && w.sent < len(w.down) {
		line := w.down[w.sent]
		if w.sentBytes >= Window {
			return
		}
		w.sent++
		w.sentBytes += len(line)
		w.sink.Read(w.taken+uint64(w.sent), line)
	}
}

// Deliver implements [Client].
func (w *Way) Deliver(line []byte) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone != nil || w.ctx.Err() != nil || w.downBytes > 0 && w.downBytes+len(line) > unread || len(w.down) >= unreadLines {
		return false
	}
	w.down = append(w.down, bytes.Clone(line))
	w.downBytes += len(line)
	w.send()
	return true
}

// Gone implements [Client].
func (w *Way) Gone(err error) {
	if cause := context.Cause(w.ctx); cause != nil {
		err = cause // the way itself is over: nothing is wrong with the server
	}
	g := Gone{Started: !errors.Is(err, ErrNotStarted), Status: child.StartExit(err), Reason: err.Error()}
	g.Reason = strings.TrimPrefix(g.Reason, ErrNotStarted.Error()+": ") // which Started says
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end(g)
}

// end is the end of the way, for that reason unless it has ended before. w.mu is
// held.
func (w *Way) end(g Gone) {
	if w.gone == nil {
		w.tellGone(g)
	}
}

func (w *Way) tellGone(g Gone) {
	w.gone = &g
	w.served()
	w.up, w.upBytes = nil, 0
	w.more.Broadcast()
	if w.sink != nil {
		w.sink.Gone(g)
	}
}
