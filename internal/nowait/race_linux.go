//go:build race

package nowait

import (
	"os"
	"syscall"
)

// Package syscall tells the race detector that what is written happens before it is
// read. Our calls go around that package, so it is called beside them.

// takeOver says that what follows happens after what came before a write.
func takeOver() { _, _ = syscall.Read(nothing, make([]byte, 1)) }

// nothing is a descriptor from which a read succeeds at once. It is there from the
// start, so that tests that count descriptors find as many in the end.
var nothing, _ = syscall.Open(os.DevNull, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
