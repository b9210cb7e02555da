package rig

import (
	"bytes"
	"sync"
)

// Buffer collects what is written, as a program's output or a log, and may be read
// meanwhile. The zero value takes all there is.
type Buffer struct {
	// Most is how many bytes it takes before it drops what comes; 0 for no limit.
	// Whole writes are taken or dropped.
	Most int

	mu sync.Mutex
	b  bytes.Buffer
}

// Write takes p, and never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.Most == 0 || b.b.Len() < b.Most {
		b.b.Write(p)
	}
	return len(p), nil
}

// String returns what was taken so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
