package serve

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/private"
)

// die ends this process by sig, if its default action is to do that. Go has handlers for most
// signals and prints a trace for some, so the handler is removed and not only disabled.
func die(sig syscall.Signal) {
	_ = errors.Join(private.NoCore(), private.NoReading()) // a core would show tg-shim, not the server
	runtime.LockOSThread()
	var action [8]uint64 // SIG_DFL, no flags, no mask; larger than any kernel reads
	const sigsetSize = 8
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&action)), 0, sigsetSize, 0, 0)
	var only unix.Sigset_t
	only.Val[(sig-1)/64] = 1 << ((sig - 1) % 64)
	_ = unix.PthreadSigmask(unix.SIG_UNBLOCK, &only, nil)
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), sig) // delivered before this returns
}
