package supervise

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"
)

// Limits of a Tail.
const (
	tailLines = 1000
	tailBytes = 64 << 10
)

// Line is one line of standard error, with its control characters escaped.
type Line struct {
	Number uint64 // from 1; a gap means that lines were dropped
	Time   time.Time
	Text   string // without its newline
}

// Tail holds the last lines of a program's standard error: at most 1,000 lines and 64 KiB, but
// always the last line. It is safe for concurrent use.
type Tail struct {
	mu      sync.Mutex
	lines   []Line // oldest first
	bytes   int
	next    uint64
	changed chan struct{} // closed and replaced when a line is added
}

func newTail() *Tail { return &Tail{next: 1, changed: make(chan struct{})} }

// Write adds one line, which ends with a newline. It never fails.
func (t *Tail) Write(b []byte) (int, error) {
	text := strings.TrimSuffix(string(b), "\n")
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, Line{Number: t.next, Time: time.Now(), Text: text})
	t.next++
	t.bytes += len(text)
	drop := 0
	for len(t.lines)-drop > tailLines || (t.bytes > tailBytes && drop < len(t.lines)-1) {
		t.bytes -= len(t.lines[drop].Text)
		drop++
	}
	if drop > 0 {
		clear(t.lines[:drop]) // frees the texts; the array stays
		t.lines = t.lines[drop:]
	}
	close(t.changed)
	t.changed = make(chan struct{})
	return len(b), nil
}

// Lines returns the lines held, oldest first.
func (t *Tail) Lines() []Line {
	lines, _ := t.after(0)
	return lines
}

// Follow returns the lines after number: first those held, then each as it comes, until ctx ends. A
// reader that is too slow misses lines.
func (t *Tail) Follow(ctx context.Context, number uint64) iter.Seq[Line] {
	return func(yield func(Line) bool) {
		for {
			lines, changed := t.after(number)
			for _, line := range lines {
				if !yield(line) {
					return
				}
				number = line.Number
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}
}

// after returns the lines held after number, and a channel that is closed when more are added.
func (t *Tail) after(number uint64) ([]Line, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	first := len(t.lines)
	for first > 0 && t.lines[first-1].Number > number {
		first--
	}
	return slices.Clone(t.lines[first:]), t.changed
}

// mark returns the number of the last line so far.
func (t *Tail) mark() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.next - 1
}

// last returns the last line after number that is not blank, shortened for an error.
func (t *Tail) last(number uint64) string {
	const most = 200
	lines, _ := t.after(number)
	for _, line := range slices.Backward(lines) {
		text := strings.TrimSpace(line.Text)
		if len(text) > most {
			text = strings.ToValidUTF8(text[:most], "") + "..."
		}
		if text != "" {
			return text
		}
	}
	return ""
}
