package serve

import (
	"os/signal"
	"syscall"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/private"
)

// die ends this process by sig, if sig is one for which Go prints no trace.
func die(sig syscall.Signal) {
	switch sig {
	case syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL, syscall.SIGPIPE, syscall.SIGALRM, syscall.SIGUSR1, syscall.SIGUSR2:
		_ = private.NoCore() // Run has reported the error
		signal.Reset(sig)
		if syscall.Kill(syscall.Getpid(), sig) == nil {
			time.Sleep(time.Second) // it is delivered to some thread soon
		}
	}
}
