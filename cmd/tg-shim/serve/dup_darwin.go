package serve

import "golang.org/x/sys/unix"

// dup makes to a copy of descriptor from.
func dup(from, to int) error { return unix.Dup2(from, to) }
