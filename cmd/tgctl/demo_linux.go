package main

import "syscall"

// ownGroup starts a child in a group of its own that ends when the thread which
// started it does.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
