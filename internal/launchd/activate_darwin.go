package launchd

import (
	"fmt"
	"net"
	"os"
	"syscall"
	"unsafe"
)

// Sockets asks launchd for the sockets that it holds for this process under a
// name of its property list. There are none, and no error, when launchd did not
// start the process, or holds no socket of that name for it.
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
	case syscall.ESRCH, syscall.ENOENT: // not launchd's; no such socket
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

// listeners takes descriptors over, all or none.
func listeners(name string, fds []int32) ([]net.Listener, error) {
	var all []net.Listener
	var failed error
	for _, fd := range fds {
		f := os.NewFile(uintptr(fd), name)
		l, err := net.FileListener(f) // a copy, which is closed on exec
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

// What follows is how a program without cgo calls a function of the system's own
// library, which every program on macOS is linked to: as golang.org/x/sys does it
// for the calls that it knows, of which this is none.

//go:cgo_import_dynamic libc_launch_activate_socket launch_activate_socket "/usr/lib/libSystem.B.dylib"
//go:cgo_import_dynamic libc_free free "/usr/lib/libSystem.B.dylib"

var launch_activate_socket_trampoline_addr, free_trampoline_addr uintptr

//go:linkname syscall_syscall syscall.syscall
func syscall_syscall(fn, a1, a2, a3 uintptr) (r1, r2 uintptr, err syscall.Errno)
