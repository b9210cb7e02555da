package keep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Program is what a keeper runs.
type Program struct {
	Path string
	Args []string // the first is what it is called
	Env  []string
	Log  *slog.Logger

	// Sockets are listening sockets that a service manager has handed to the keeper, by
	// the names under which the daemon knows them. They are the keeper's from here on.
	Sockets map[string]*os.File
}

// A daemon that has ended before it was ready, within soon of its start, is started
// again after a pause: of leastPause, twice as long each time, and mostPause at most.
const (
	soon       = time.Second
	leastPause = 10 * time.Millisecond
	mostPause  = 2 * time.Second
)

// Run runs the daemon for as long as it is wanted, and returns what to exit with: the
// status with which the daemon has ended by itself. It passes on what comes from
// signals, takes SIGTERM and SIGINT for the wish that the daemon end, and [Again] for
// the wish that another follow it. Sockets that daemons have made go with it.
func Run(p Program, signals <-chan os.Signal) (int, error) {
	k := &keeper{Program: p}
	var err error
	if k.program, err = openProgram(p.Path); err != nil {
		return 0, fmt.Errorf("open the daemon's program: %w", err)
	}
	defer k.close()
	for name, f := range p.Sockets {
		fd, err := descriptor(f)
		if err != nil {
			return 0, fmt.Errorf("take over the socket %s: %w", name, err)
		}
		k.held = append(k.held, held{name, fd, socketFile{}}) // whose file is not ours
	}
	var pause time.Duration
	for {
		began := time.Now()
		l, err := k.start()
		if err != nil && k.ready { // what is held is worth another attempt
			p.Log.Error("the daemon can't be started, which is tried again", "err", err, "pause", mostPause)
			if s := rest(mostPause, signals); s == nil || s == Again {
				continue
			}
		}
		if err != nil {
			return 0, err
		}
		status, err := l.wait(signals)
		if err != nil {
			return 0, err
		}
		code := exitCode(status)
		switch {
		case l.again:
			k.renew()
			continue
		case code == 0, l.stopping, !k.ready:
			return code, nil
		}
		if !l.ready && time.Since(began) < soon {
			pause = min(max(2*pause, leastPause), mostPause)
		} else {
			pause = 0
		}
		p.Log.Error("the daemon has ended and is started again", "status", describe(status), "descriptors", len(k.held), "pause", pause)
		switch rest(pause, signals) {
		case nil:
		case Again:
			k.renew()
		default:
			return code, nil
		}
	}
}

// exitCode is what a shell would say.
func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

func describe(status syscall.WaitStatus) string {
	if status.Signaled() {
		return "signal: " + status.Signal().String()
	}
	return "exit code " + strconv.Itoa(status.ExitStatus())
}

// Again is the signal with which a keeper is asked to end its daemon and to start what
// lies in the place of its program now, as after an update.
const Again = unix.SIGUSR2

// rest waits, and returns the signal that ends the waiting before its time.
func rest(pause time.Duration, signals <-chan os.Signal) os.Signal {
	over := time.NewTimer(pause)
	defer over.Stop()
	for {
		select {
		case s := <-signals:
			if ends(s) || s == Again {
				return s
			}
		case <-over.C:
			return nil
		}
	}
}

func ends(s os.Signal) bool { return s == unix.SIGTERM || s == unix.SIGINT }

// descriptor takes the descriptor out of a file, which is closed.
func descriptor(f *os.File) (int, error) {
	copied, err := duplicate(f)
	return copied, errors.Join(err, f.Close())
}

// keeper holds what daemons have given it.
type keeper struct {
	Program
	program *os.File // nil where the system can't start an open file
	ready   bool     // a daemon was, once
	held    []held   // in the order in which it came
}

func (k *keeper) close() {
	for _, h := range k.held {
		if err := errors.Join(h.socket.remove(), unix.Close(h.fd)); err != nil {
			k.Log.Error("let go of what was held", "name", h.name, "err", err)
		}
	}
	if k.program != nil {
		_ = k.program.Close()
	}
}

// renew has what lies in the program's place now started from now on.
func (k *keeper) renew() {
	f, err := openProgram(k.Path)
	if err != nil {
		k.Log.Error("the program can't be opened anew; the one that was opened before is started", "path", k.Path, "err", err)
		return
	}
	if k.program != nil {
		_ = k.program.Close() // it was only read
	}
	k.program = f
}

// life is one daemon's.
type life struct {
	*keeper
	process *os.Process
	ours    *net.UnixConn // comes what the daemon says
	theirs  *os.File      // its other end
	alive   *os.File      // is closed when we end
	reading sync.WaitGroup

	ready, stopping bool // what it has said; to be looked at when reading is over
	again           bool // another is to follow it
}

// start starts a daemon with all that is held.
func (k *keeper) start() (*life, error) {
	l := &life{keeper: k}
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
		"LISTEN_FDS="+strconv.Itoa(len(k.held)), "LISTEN_FDNAMES="+strings.Join(names, ":"), "FDSTORE="+strconv.Itoa(Most),
		fmt.Sprintf("%s=%d:%d:%d", keeperVar, n, n+1, n+2))
	pid, err := syscall.ForkExec(path, k.Args, &syscall.ProcAttr{Env: env, Files: files})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the daemon: %w", err), l.close())
	}
	if l.process, err = os.FindProcess(pid); err != nil { // never, of a child
		return nil, errors.Join(err, l.close())
	}
	l.reading.Go(l.listen)
	return l, nil
}

func (l *life) close() error {
	return errors.Join(l.ours.Close(), l.theirs.Close(), l.alive.Close())
}

// without returns env without some of its variables.
func without(env []string, names ...string) []string {
	var rest []string
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		keep := true
		for _, n := range names {
			keep = keep && n != name
		}
		if keep {
			rest = append(rest, entry)
		}
	}
	return rest
}

// stateEnd is what the keeper tells itself once a daemon has ended: what comes before
// it was said by that daemon.
const stateEnd = "X_THOUGHTGATE_END=1"

// wait waits for the daemon's end, and passes signals on to it meanwhile.
func (l *life) wait(signals <-chan os.Signal) (syscall.WaitStatus, error) {
	ended := make(chan error, 1)
	var state *os.ProcessState
	go func() { // ends with the daemon
		var err error
		state, err = l.process.Wait()
		ended <- err
	}()
	told, again := false, false
	for {
		select {
		case s := <-signals:
			if s == Again {
				again, s = true, unix.SIGTERM
			} else if ends(s) {
				told, again = true, false
			}
			_ = l.process.Signal(s) // it may have ended
		case err := <-ended:
			if end := l.sayEnd(); end != nil {
				l.Log.Error("what the daemon has said last may be lost", "err", end)
				_ = l.ours.Close() // which ends the reading as well
			}
			l.reading.Wait()
			_ = l.close() // what was said has been read
			if err != nil {
				return 0, fmt.Errorf("wait for the daemon: %w", err)
			}
			l.stopping, l.again = l.stopping || told, again
			return state.Sys().(syscall.WaitStatus), nil
		}
	}
}

// sayEnd says behind all that the daemon has said that it has ended.
func (l *life) sayEnd() error {
	c, err := net.FileConn(l.theirs)
	if err != nil {
		return err
	}
	defer c.Close()
	return (&line{conn: c.(*net.UnixConn)}).send(context.Background(), stateEnd, nil)
}
