package backend

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// mostUnwritten is how many bytes may wait to be written to a server before its
// clients pause.
const mostUnwritten = 4 << 20

// talk is the conversation with one life of a server.
type talk struct {
	in     *instance
	stdin  io.WriteCloser
	stdout io.ReadCloser

	mu      sync.Mutex // guards what follows
	lines   [][]byte   // to be written, oldest first
	size    int        // bytes of them, and of the one being written
	closed  bool
	changed chan struct{} // closed and replaced when something of the above changes
}

func newTalk(in *instance, stdin io.WriteCloser, stdout io.ReadCloser) *talk {
	return &talk{in: in, stdin: stdin, stdout: stdout, changed: make(chan struct{})}
}

// push takes line, which is the talk's from here on, for writing. It never waits.
func (t *talk) push(line []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.lines = append(t.lines, line)
		t.size += len(line)
		t.tell()
	}
}

// room waits until the server has read enough of what it was written.
func (t *talk) room(ctx context.Context) error {
	for {
		t.mu.Lock()
		full, changed := t.size > mostUnwritten && !t.closed, t.changed
		t.mu.Unlock()
		if !full {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("write to %s, which does not read: %w", t.in.name, context.Cause(ctx))
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
	t.closed, t.lines, t.size = true, nil, 0
	t.tell()
}

// next returns the next line to be written, false at the end. written is how many
// bytes have left since the last call.
func (t *talk) next(written int) ([]byte, bool) {
	for {
		t.mu.Lock()
		if written > 0 && !t.closed {
			t.size -= written
			t.tell()
		}
		written = 0
		if t.closed {
			t.mu.Unlock()
			return nil, false
		}
		if len(t.lines) > 0 {
			line := t.lines[0]
			t.lines[0] = nil
			t.lines = t.lines[1:]
			t.mu.Unlock()
			return line, true
		}
		changed := t.changed
		t.mu.Unlock()
		<-changed
	}
}

func (t *talk) write() {
	w := wire.NewWriter(t.stdin, wire.NDJSON{})
	written := 0
	for {
		line, ok := t.next(written)
		if !ok {
			return
		}
		if w.Write(line) != nil { // the server has gone, or will be found to have
			t.close()
			return
		}
		written = len(line)
	}
}

// run reads and writes until the server ends its output or ctx ends.
func (t *talk) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { t.stdout.Close() })
	defer stop()
	var writer sync.WaitGroup
	writer.Go(t.write)
	err := t.read()
	t.close()
	t.stdin.Close()
	writer.Wait()
	t.in.lost(t)
	return err
}

func (t *talk) read() error {
	r := wire.NewReader(t.stdout, 0)
	for {
		var l wire.Line
		if err := r.Next(&l); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("read from %s: %w", t.in.name, err)
		}
		t.in.hear(t, &l)
	}
}
