package beneath

import "golang.org/x/sys/unix"

func mountTemporary(at string) error { return unix.Mount("none", at, "tmpfs", 0, "size=64k") }
