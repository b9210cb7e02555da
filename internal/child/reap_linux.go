package child

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/proc"
)

// AdoptOrphans makes this process, in place of init, the parent of every descendant that loses
// its own, and waits for those that end until stop is called. Being the parent lasts until the
// process ends and is not inherited. AdoptOrphans must be called before the first Start.
//
// A program that another part of this process started and released with os.Process.Release
// looks like an orphan, and the last Stop ends it as one.
//
// It needs Linux 5.4: without pidfds an orphan can't be distinguished from a child that another
// part of the program will wait for. If AdoptOrphans fails, stop does nothing.
func AdoptOrphans() (stop func(), err error) {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		defer self.Release()
		if self.WithHandle(func(uintptr) {}) != nil {
			err = fmt.Errorf("%w: it needs Linux 5.4", errors.ErrUnsupported)
		}
	}
	if err == nil {
		err = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	}
	if err != nil {
		return func() {}, fmt.Errorf("become a child subreaper: %w", err)
	}
	family.adopts.Store(true)
	ctx, cancel := context.WithCancel(context.Background()) // lasts until stop
	var reaping sync.WaitGroup
	reaping.Go(func() { keepReaping(ctx) })
	return func() {
		cancel()
		reaping.Wait()
	}, nil
}

// keepReaping waits for adopted processes as they end, until ctx ends. It leaves alone the
// processes that any part of this program has started and not yet waited for, with this
// package, os/exec or os.StartProcess: they have an open pidfd, and an orphan has none.
func keepReaping(ctx context.Context) {
	exits := make(chan os.Signal, 1)
	signal.Notify(exits, unix.SIGCHLD)
	defer signal.Stop(exits)
	const soon, seldom = time.Second, time.Minute
	again := time.NewTimer(0)
	defer again.Stop()
	for pause := soon; ; {
		select {
		case <-ctx.Done():
			return
		case <-exits:
			pause = soon
		case <-again.C:
			pause = min(2*pause, seldom)
		}
		// No signal reports that the last descriptor of an ended process was closed, so the
		// remaining ones are checked again later.
		if reapOrphans() {
			again.Reset(pause)
		} else {
			again.Stop()
		}
	}
}

// reaping lets one goroutine at a time wait for orphans. Between the check of a pid's
// descriptors and the wait, no other may free the pid.
var reaping sync.Mutex

// reapOrphans waits for every adopted process that has ended. It reports whether some are left
// because a part of this program has a pidfd of them.
func reapOrphans() (left bool) {
	if !family.adopts.Load() {
		return false
	}
	reaping.Lock()
	defer reaping.Unlock()
	if !anyExited() {
		return false
	}
	for _, p := range processTable() {
		switch {
		case !p.Zombie || int(p.PPID) != os.Getpid():
		case held(p.PID):
			left = true
		default:
			unix.Wait4(int(p.PID), nil, unix.WNOHANG, nil)
		}
	}
	return left
}

// anyExited reports whether there is any child to wait for.
func anyExited() bool {
	var info siginfo
	err := waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT)
	return err == nil && info[infoSigno] != 0
}

// held reports whether a part of this program has a pidfd of pid, apart from the pidfds of this
// package on processes that are not its children.
func held(pid int32) bool {
	fds, err := proc.PidfdsOf(pid)
	return err != nil || slices.ContainsFunc(fds, func(fd int) bool {
		_, watched := family.watched.Load(fd)
		return !watched
	})
}
