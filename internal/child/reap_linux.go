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

// AdoptOrphans makes this process the parent of every descendant that loses its own, in
// place of init, and waits for those that end until stop is called. The first holds until
// the process ends and is not inherited. Call it before the first Start.
//
// A program that was started elsewhere in this process and then let go of, with
// os.Process.Release, looks like an orphan from then on, and the last Stop ends
// it as one.
//
// It needs Linux 5.4: without pidfds an orphan can't be told from a child that
// some other part of the program is going to wait for. Where it fails, stop does nothing.
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
		return func() {}, fmt.Errorf("become the parent of orphans: %w", err)
	}
	family.mu.Lock()
	family.subreaper = true
	family.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background()) // a lifetime: until stop
	var reaping sync.WaitGroup
	reaping.Go(func() { keepReaping(ctx) })
	return func() {
		cancel()
		reaping.Wait()
	}, nil
}

// keepReaping waits for adopted processes as they end, until ctx does. A
// process that anybody in this program has started and not yet waited for is
// left to them, whether it was started by this package, by os/exec or by
// os.StartProcess: its pidfd is open, and an orphan has none.
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
		// No signal tells when the last descriptor of a process that has ended
		// is closed, so what was left is looked at again.
		if reapOrphans() {
			again.Reset(pause)
		} else {
			again.Stop()
		}
	}
}

// reaping lets one goroutine at a time wait for orphans. Between the look at a
// pid's descriptors and the wait no other may free the number.
var reaping sync.Mutex

// reapOrphans waits for every adopted process that has ended, and reports
// whether any that somebody holds was left.
func reapOrphans() (left bool) {
	if subreaper, _ := family.origin(); !subreaper {
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

// anyExited asks whether there is any child to be waited for at all.
func anyExited() bool {
	var info siginfo
	err := waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT)
	return err == nil && info[infoSigno] != 0
}

// held reports whether a part of this program has a pidfd of pid, those left
// out by which this package watches what isn't its child.
func held(pid int32) bool {
	fds, err := proc.PidfdsOf(pid)
	return err != nil || slices.ContainsFunc(fds, func(fd int) bool { return !family.isWatched(fd) })
}
