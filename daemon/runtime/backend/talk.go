package backend

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Limits of the output pending for a server, in bytes.
const (
	mostUnwritten = 4 << 20 // above this, clients block
	mostOwed      = 1 << 20 // of the pool's own answers; above this, the server is not read
)

// talk is the connection to one process of a server.
type talk struct {
	in     *instance
	stdin  io.WriteCloser
	stdout io.ReadCloser

	mu      sync.Mutex // guards the fields below
	lines   []outgoing // pending output, oldest first
	size    int        // its bytes, including the line being written
	owed    int        // bytes of the pool's own answers in it
	closed  bool
	changed chan struct{} // closed and replaced when one of the fields above changes
}

// outgoing is a line to be written.
type outgoing struct {
	line []byte
	owed bool // an answer of the pool to the server
}

func newTalk(in *instance, stdin io.WriteCloser, stdout io.ReadCloser) *talk {
	return &talk{in: in, stdin: stdin, stdout: stdout, changed: make(chan struct{})}
}

// push queues line for writing and takes ownership of it. It never blocks.
func (t *talk) push(line []byte) { t.add(outgoing{line: line}) }

// pushAnswer is push for an answer of the pool to a message of the server. See heed.
func (t *talk) pushAnswer(line []byte) { t.add(outgoing{line, true}) }

func (t *talk) add(o outgoing) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.lines = append(t.lines, o)
		t.count(o, 1)
		t.notifyWaiters()
	}
}

// count adds (1) or removes (-1) the size of o. t.mu must be held.
func (t *talk) count(o outgoing, sign int) {
	t.size += sign * len(o.line)
	if o.owed {
		t.owed += sign * len(o.line)
	}
}

// waitForUnreadAnswers blocks while the server has too many of the pool's answers unread: a server that makes the
// pool answer and does not read the answers is not read either.
func (t *talk) waitForUnreadAnswers(ctx context.Context) {
	_ = t.wait(ctx, &t.owed, mostOwed) // the reader finds out that ctx has ended
}

// room blocks while the server has too much unread input.
func (t *talk) room(ctx context.Context) error {
	if err := t.wait(ctx, &t.size, mostUnwritten); err != nil {
		return fmt.Errorf("write to %s, which does not read: %w", t.in.name, err)
	}
	return nil
}

// wait blocks while *bytes is more than most.
func (t *talk) wait(ctx context.Context, bytes *int, most int) error {
	for {
		t.mu.Lock()
		full, changed := *bytes > most && !t.closed, t.changed
		t.mu.Unlock()
		if !full {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// notifyWaiters wakes the goroutines that wait for a change. t.mu must be held.
func (t *talk) notifyWaiters() {
	close(t.changed)
	t.changed = make(chan struct{})
}

func (t *talk) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed, t.lines, t.size, t.owed = true, nil, 0, 0
	t.notifyWaiters()
}

// next returns the next line to write, or false if t is closed. written is the previous line, which
// has been written.
func (t *talk) next(written outgoing) (outgoing, bool) {
	for {
		t.mu.Lock()
		if t.closed {
			t.mu.Unlock()
			return outgoing{}, false
		}
		if len(written.line) > 0 {
			t.count(written, -1)
			t.notifyWaiters()
		}
		written = outgoing{}
		if len(t.lines) > 0 {
			o := t.lines[0]
			t.lines[0] = outgoing{}
			t.lines = t.lines[1:]
			t.mu.Unlock()
			return o, true
		}
		changed := t.changed
		t.mu.Unlock()
		<-changed
	}
}

func (t *talk) write() {
	w := wire.NewWriter(t.stdin, wire.NDJSON{})
	var o outgoing
	for ok := true; ; {
		if o, ok = t.next(o); !ok {
			return
		}
		if w.Write(o.line) != nil { // the server has ended, which the reader finds out too
			t.close()
			return
		}
	}
}

// run reads and writes until the server closes its output or ctx ends.
func (t *talk) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { t.stdout.Close() })
	defer stop()
	var writer sync.WaitGroup
	writer.Go(t.write)
	err := t.read(ctx)
	t.close()
	t.stdin.Close()
	writer.Wait()
	t.in.lost(t)
	return err
}

func (t *talk) read(ctx context.Context) error {
	r := wire.NewReader(t.stdout, 0)
	for {
		var l wire.Line
		if err := r.Next(&l); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("read from %s: %w", t.in.name, err)
		}
		t.in.handleServerLine(t, &l)
		t.waitForUnreadAnswers(ctx)
	}
}
