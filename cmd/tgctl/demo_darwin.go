package main

import "syscall"

// ownGroup starts a child in a group of its own. What outlives a demo that was
// killed has to be ended by hand here.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
