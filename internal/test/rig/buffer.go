package rig

import (
	"bytes"
	"sync"
)

// Buffer collects output, such as that of a program or a log, and may be read meanwhile. The
// zero value has no limit.
type Buffer struct {
	// Most is the number of bytes after which further writes are dropped; 0 for no limit. A
	// write is kept or dropped as a whole.
	Most int

	mu sync.Mutex
	b  bytes.Buffer
}

// Write appends p. It never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.Most == 0 || b.b.Len() < b.Most {
		b.b.Write(p)
	}
	return len(p), nil
}

// String returns what was written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
