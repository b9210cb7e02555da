package keep

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/child"
)

// daemonRun is one run of a daemon.
type daemonRun struct {
	*keeper
	process *os.Process
	ours    *net.UnixConn // receives the daemon's messages
	theirs  *os.File      // the daemon's end of ours
	alive   *os.File      // closed when the keeper exits
	reading sync.WaitGroup

	ready, stopping bool // states that the daemon has sent; read them only after reading has ended
	again           bool // another run must follow
}

// start starts a daemon with all held descriptors.
func (k *keeper) start() (*daemonRun, error) {
	l := &daemonRun{keeper: k}
	watched, alive, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer watched.Close()
	l.alive = alive
	if l.ours, l.theirs, err = pair(); err != nil {
		return nil, errors.Join(err, alive.Close())
	}
	var names []string
	files := []uintptr{0, 1, 2}
	for _, h := range k.held {
		names = append(names, h.name)
		files = append(files, uintptr(h.fd))
	}
	n := len(files)
	files = append(files, l.theirs.Fd(), watched.Fd())
	path := k.Path
	if k.program != nil {
		path = procPath(len(files))
		files = append(files, k.program.Fd())
	} else {
		files = append(files, watched.Fd())
	}
	env := append(without(k.Env, "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "NOTIFY_SOCKET", "FDSTORE", keeperVar),
		"LISTEN_FDS="+strconv.Itoa(len(k.held)), "LISTEN_FDNAMES="+strings.Join(names, ":"), "FDSTORE="+strconv.Itoa(keeperLimit()),
		fmt.Sprintf("%s=%d:%d:%d", keeperVar, n, n+1, n+2))
	pid, err := syscall.ForkExec(path, k.Args, &syscall.ProcAttr{Env: env, Files: files})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the daemon: %w", err), l.close())
	}
	if l.process, err = os.FindProcess(pid); err != nil { // can't happen for a child
		return nil, errors.Join(err, l.close())
	}
	l.reading.Go(l.listen)
	return l, nil
}

// keeperLimit returns how many descriptors this process can keep. Go has raised the soft limit
// to the hard one.
func keeperLimit() int {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil || files.Cur > maxByKeeper+reservedByKeeper {
		return maxByKeeper
	}
	return max(int(files.Cur)-reservedByKeeper, 0)
}

func (l *daemonRun) close() error {
	return errors.Join(l.ours.Close(), l.theirs.Close(), l.alive.Close())
}

// without returns env without the named variables.
func without(env []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(names, name)
	})
}

// stateEnd is what the keeper sends itself after a daemon has ended: all messages before it
// came from that daemon.
const stateEnd = "X_THOUGHTGATE_END=1"

// wait waits for the daemon's end, and passes signals on to it.
func (l *daemonRun) wait(signals <-chan os.Signal) child.State {
	ended := make(chan *os.ProcessState, 1)
	go func() { // ends with the daemon
		state, err := l.process.Wait()
		if err != nil {
			panic(err) // nobody else waits for this child
		}
		ended <- state
	}()
	told, again := false, false
	var overdue <-chan time.Time
	for {
		select {
		case s := <-signals:
			if s == Again {
				again, s = true, unix.SIGTERM
			} else if ends(s) {
				told, again = true, false
			}
			if overdue == nil && (told || again) {
				overdue = time.After(l.StopTimeout)
			}
			_ = l.process.Signal(s) // it may have ended
		case <-overdue:
			l.Log.Error("the daemon has not ended in time and is killed", "after", l.StopTimeout)
			_ = l.process.Kill() // likewise
		case state := <-ended:
			if err := l.sendEnd(); err != nil {
				l.Log.Error("the last messages of the daemon may be lost", "err", err)
				_ = l.ours.Close() // which ends the reading as well
			}
			l.reading.Wait()
			_ = l.close() // all messages have been read
			l.stopping, l.again = l.stopping || told, again
			return child.StateOf(state.Sys().(syscall.WaitStatus))
		}
	}
}

// sendEnd sends stateEnd behind all messages of the daemon.
func (l *daemonRun) sendEnd() error {
	c, err := net.FileConn(l.theirs)
	if err != nil {
		return err
	}
	defer c.Close()
	return (&line{conn: c.(*net.UnixConn)}).send(context.Background(), stateEnd, nil)
}

// pause returns how long to wait before the next start, after a daemon that ran for lived.
// last is the previous pause. A daemon that was ready and was killed is restarted at once,
// since that is not its own fault.
func (l *daemonRun) pause(last, lived time.Duration, status child.State) time.Duration {
	if lived >= soon || l.ready && status.Signal == unix.SIGKILL {
		return 0
	}
	return min(max(2*last, minPause), maxPause)
}
