package rig

import (
	"bytes"
	"errors"
	"sync"
	"time"
)

// Inbox holds what one end of a pipe has received, in lines. It is safe for concurrent use.
type Inbox struct {
	mu      sync.Mutex // guards the fields below
	lines   [][]byte   // complete lines with their line feeds
	tail    []byte     // what follows the last line feed
	ended   bool
	changed chan struct{} // closed and replaced at each change
}

// Errors of Await.
var (
	ErrEnded = errors.New("the stream has ended")
	ErrLate  = errors.New("it did not come in time")
)

func newInbox() *Inbox { return &Inbox{changed: make(chan struct{})} }

func (b *Inbox) add(content []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tail = append(b.tail, content...)
	for {
		i := bytes.IndexByte(b.tail, '\n')
		if i < 0 {
			break
		}
		b.lines = append(b.lines, bytes.Clone(b.tail[:i+1]))
		b.tail = b.tail[i+1:]
	}
	b.change()
}

func (b *Inbox) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	b.change()
}

func (b *Inbox) change() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// Len returns the number of complete lines received.
func (b *Inbox) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.lines)
}

// Since returns the complete lines from index from on, each with its line feed, and what
// follows the last one.
func (b *Inbox) Since(from int) (lines [][]byte, tail []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([][]byte(nil), b.lines[from:]...), bytes.Clone(b.tail)
}

// Ended reports whether the stream has ended.
func (b *Inbox) Ended() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended
}

// Await waits, for d at most, for the first line from index from on that match accepts, and
// returns its index.
func (b *Inbox) Await(from int, d time.Duration, match func(line []byte) bool) (int, error) {
	timeout := time.NewTimer(d)
	defer timeout.Stop()
	for {
		b.mu.Lock()
		for ; from < len(b.lines); from++ {
			if match(b.lines[from]) {
				b.mu.Unlock()
				return from, nil
			}
		}
		ended, changed := b.ended, b.changed
		b.mu.Unlock()
		if ended {
			return 0, ErrEnded
		}
		select {
		case <-changed:
		case <-timeout.C:
			return 0, ErrLate
		}
	}
}

// Line returns a match function for Await that accepts exactly this line, with or without a
// line feed.
func Line(want string) func([]byte) bool {
	return func(line []byte) bool { return string(bytes.TrimSuffix(line, []byte("\n"))) == want }
}
