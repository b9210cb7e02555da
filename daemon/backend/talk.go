package backend

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// What may wait to be written to a server, in bytes.
const (
	mostUnwritten = 4 << 20 // before its clients pause
	mostOwed      = 1 << 20 // of answers of ours, before it is read no more
)

// talk is the conversation with one life of a server.
type talk struct {
	in     *instance
	stdin  io.WriteCloser
	stdout io.ReadCloser

	mu      sync.Mutex // guards what follows
	lines   []outgoing // to be written, oldest first
	size    int        // bytes of them, and of the one being written
	owed    int        // of these the bytes of answers of ours
	closed  bool
	changed chan struct{} // closed and replaced when something of the above changes
}

// outgoing is a line to be written.
type outgoing struct {
	line []byte
	owed bool // it answers the server, and is by us
}

func newTalk(in *instance, stdin io.WriteCloser, stdout io.ReadCloser) *talk {
	return &talk{in: in, stdin: stdin, stdout: stdout, changed: make(chan struct{})}
}

// push takes line, which is the talk's from here on, for writing. It never waits.
func (t *talk) push(line []byte) { t.add(outgoing{line: line}) }

// owe is push for an answer of ours to what the server has said. See heed.
func (t *talk) owe(line []byte) { t.add(outgoing{line, true}) }

func (t *talk) add(o outgoing) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.lines = append(t.lines, o)
		t.count(o, 1)
		t.tell()
	}
}

// count notes that o waits (1), or has left (-1). t.mu is held.
func (t *talk) count(o outgoing, sign int) {
	t.size += sign * len(o.line)
	if o.owed {
		t.owed += sign * len(o.line)
	}
}

// heed waits while the server makes us answer and does not read the answers.
func (t *talk) heed(ctx context.Context) {
	_ = t.wait(ctx, &t.owed, mostOwed) // the end of ctx is found where it is read on
}

// room waits until the server has read enough of what it was written.
func (t *talk) room(ctx context.Context) error {
	if err := t.wait(ctx, &t.size, mostUnwritten); err != nil {
		return fmt.Errorf("write to %s, which does not read: %w", t.in.name, err)
	}
	return nil
}

// wait waits while a number of bytes is more than most.
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

// tell wakes those who wait. t.mu is held.
func (t *talk) tell() {
	close(t.changed)
	t.changed = make(chan struct{})
}

func (t *talk) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed, t.lines, t.size, t.owed = true, nil, 0, 0
	t.tell()
}

// next returns the next line to be written, false at the end. written is the one
// before, which has left.
func (t *talk) next(written outgoing) (outgoing, bool) {
	for {
		t.mu.Lock()
		if t.closed {
			t.mu.Unlock()
			return outgoing{}, false
		}
		if len(written.line) > 0 {
			t.count(written, -1)
			t.tell()
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
		if w.Write(o.line) != nil { // the server has gone, or will be found to have
			t.close()
			return
		}
	}
}

// run reads and writes until the server ends its output or ctx ends.
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
		t.in.hear(t, &l)
		t.heed(ctx)
	}
}
