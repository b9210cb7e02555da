package launchd

import (
	"fmt"
	"net"
	"os"
	"syscall"
	"unsafe"
)

// Sockets asks launchd for the sockets that it holds for this process under a name in the
// property list. It returns none, and no error, if launchd did not start the process or holds
// no socket with that name.
func Sockets(name string) ([]net.Listener, error) {
	word, err := syscall.BytePtrFromString(name)
	if err != nil {
		return nil, fmt.Errorf("ask launchd for the socket %q: %w", name, err)
	}
	var fds *int32
	var count uintptr
	code, _, _ := syscall_syscall(launch_activate_socket_trampoline_addr,
		uintptr(unsafe.Pointer(word)), uintptr(unsafe.Pointer(&fds)), uintptr(unsafe.Pointer(&count)))
	switch errno := syscall.Errno(code); errno {
	case 0:
	case syscall.ESRCH, syscall.ENOENT: // not started by launchd; no such socket
		return nil, nil
	default:
		return nil, fmt.Errorf("ask launchd for the socket %q: %w", name, errno)
	}
	if fds == nil {
		return nil, nil
	}
	defer syscall_syscall(free_trampoline_addr, uintptr(unsafe.Pointer(fds)), 0, 0)
	return listeners(name, unsafe.Slice(fds, count))
}

// listeners converts descriptors to listeners, all or none.
func listeners(name string, fds []int32) ([]net.Listener, error) {
	var all []net.Listener
	var failed error
	for _, fd := range fds {
		f := os.NewFile(uintptr(fd), name)
		l, err := net.FileListener(f) // a close-on-exec copy
		f.Close()
		if err != nil {
			failed = fmt.Errorf("take over launchd's socket %q: %w", name, err)
			continue
		}
		all = append(all, l)
	}
	if failed != nil {
		for _, l := range all {
			l.Close()
		}
		return nil, failed
	}
	return all, nil
}

// The following calls a function of the system library without cgo, in the way golang.org/x/sys
// does. Every program on macOS is linked to that library, but x/sys does not have this
// function.

//go:cgo_import_dynamic libc_launch_activate_socket launch_activate_socket "/usr/lib/libSystem.B.dylib"
//go:cgo_import_dynamic libc_free free "/usr/lib/libSystem.B.dylib"

var launch_activate_socket_trampoline_addr, free_trampoline_addr uintptr

//go:linkname syscall_syscall syscall.syscall
func syscall_syscall(fn, a1, a2, a3 uintptr) (r1, r2 uintptr, err syscall.Errno)
