package rig

import (
	"bytes"
	"errors"
	"sync"
	"time"
)

// Inbox is what one end of a pipe has received, in lines. It may be used by any
// number of goroutines at once.
type Inbox struct {
	mu      sync.Mutex // guards what follows
	lines   [][]byte   // whole ones, each with its line feed
	tail    []byte     // what came after the last line feed
	ended   bool
	changed chan struct{} // closed and replaced at each change
}

// Why Await gives up.
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

// Len is how many whole lines have come.
func (b *Inbox) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.lines)
}

// Since returns the whole lines from index from on, each with its line feed,
// and what stands after the last one.
func (b *Inbox) Since(from int) (lines [][]byte, tail []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([][]byte(nil), b.lines[from:]...), bytes.Clone(b.tail)
}

// Ended reports whether nothing more will come.
func (b *Inbox) Ended() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended
}

// Await waits for the first line from index from on that match accepts, for d
// at most, and returns its index.
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

// Line returns a match for Await: the line is exactly this one, line feed
// apart.
func Line(want string) func([]byte) bool {
	return func(line []byte) bool { return string(bytes.TrimSuffix(line, []byte("\n"))) == want }
}
