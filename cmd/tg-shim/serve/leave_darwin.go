package serve

import (
	"os/signal"
	"syscall"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/private"
)

// die ends this process by sig, if it is one of those of which Go writes no trace.
func die(sig syscall.Signal) {
	switch sig {
	case syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL, syscall.SIGPIPE, syscall.SIGALRM, syscall.SIGUSR1, syscall.SIGUSR2:
		_ = private.NoCore() // it said so before
		signal.Reset(sig)
		if syscall.Kill(syscall.Getpid(), sig) == nil {
			time.Sleep(time.Second) // it comes to some thread, soon
		}
	}
}
