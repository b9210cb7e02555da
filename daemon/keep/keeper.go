package keep

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/child"
)

// Program is what a keeper runs.
type Program struct {
	Path string
	Args []string // including the program name
	Env  []string
	Log  *slog.Logger

	// Sockets are the daemon's listening sockets, by the names under which it looks for them.
	// The keeper owns them.
	Sockets map[string]*os.File

	// Leave is called when no daemon runs any more, before the sockets are closed.
	Leave func()

	// StopTimeout is how long a daemon may take to exit after SIGTERM.
	StopTimeout time.Duration
}

// A daemon that ends within soon of its start is restarted with a backoff, which doubles from
// minPause up to maxPause.
const (
	soon     = time.Second
	minPause = 10 * time.Millisecond
	maxPause = 2 * time.Second
)

// Run runs the daemon and restarts it when it dies. It returns the daemon's exit code when the
// daemon was told to stop, announced its end, exited with 0, or was never ready. Signals are
// passed on to the daemon. SIGTERM and SIGINT stop it; [Again] has it replaced by a new one.
func Run(p Program, signals <-chan os.Signal) (int, error) {
	k := &keeper{Program: p}
	defer k.close()
	var err error
	if k.program, err = openProgram(p.Path); err != nil {
		return 0, fmt.Errorf("open the daemon's program: %w", err)
	}
	for name, f := range p.Sockets {
		fd, err := descriptor(f)
		if err != nil {
			return 0, fmt.Errorf("take over the socket %s: %w", name, err)
		}
		k.held = append(k.held, held{name, fd})
	}
	var pause time.Duration
	for {
		began := time.Now()
		l, err := k.start()
		code := 1
		switch {
		case err != nil && !k.ready:
			return 0, err
		case err != nil: // the held descriptors are worth another attempt
			pause = maxPause
			p.Log.Error("the daemon can't be started; trying again", "err", err, "pause", pause)
		default:
			status := l.wait(signals)
			code = status.ExitStatus()
			if l.again {
				k.renew()
				continue
			}
			if code == 0 || l.stopping || !k.ready {
				return code, nil
			}
			pause = l.pause(pause, time.Since(began), status)
			p.Log.Error("the daemon has ended and is restarted", "status", describe(status), "descriptors", len(k.held), "pause", pause)
		}
		switch rest(pause, signals) {
		case nil:
		case Again:
			k.renew()
		default:
			return code, nil
		}
	}
}

func describe(s child.State) string {
	if s.Signal != 0 {
		return "signal: " + s.Signal.String()
	}
	return "exit code " + strconv.Itoa(s.Code)
}

// Again is the signal by which a keeper is asked to stop its daemon and to start the program
// that its path now refers to, as after an update.
const Again = unix.SIGUSR2

// rest waits for pause, and returns the signal that ends the wait early, or nil.
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

// descriptor duplicates the descriptor of a file, which it closes.
func descriptor(f *os.File) (int, error) {
	copied, err := duplicate(f)
	return copied, errors.Join(err, f.Close())
}

// keeper holds the descriptors that daemons have sent.
type keeper struct {
	Program
	program *os.File // nil if the system can't start an open file
	ready   bool     // some daemon was ready once
	held    []held   // in order of arrival
}

func (k *keeper) close() {
	if k.Leave != nil {
		k.Leave()
	}
	for _, h := range k.held {
		_ = unix.Close(h.fd) // a copy
	}
	if k.program != nil {
		_ = k.program.Close() // it was only read
	}
}

// held is a kept descriptor. It is not an [os.File], because that would wake the keeper
// whenever data passes through it.
type held struct {
	name string
	fd   int
}

// renew opens the program again, so that the next start uses the current file.
func (k *keeper) renew() {
	f, err := openProgram(k.Path)
	if err != nil {
		k.Log.Error("the program can't be opened again; starting the one that was opened before", "path", k.Path, "err", err)
		return
	}
	if k.program != nil {
		_ = k.program.Close() // it was only read
	}
	k.program = f
}
