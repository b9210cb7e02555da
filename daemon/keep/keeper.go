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
	Args []string // the first is what it is called
	Env  []string
	Log  *slog.Logger

	// Sockets are the daemon's listening sockets, by the names under which it knows
	// them. They are the keeper's from here on.
	Sockets map[string]*os.File

	// Leave is called when no daemon runs any more, while the sockets are still open.
	Leave func()

	// StopTimeout is how long a daemon may take to end when it was told to.
	StopTimeout time.Duration
}

// A daemon that ends within soon of its start is started again after a pause: of
// minPause, twice as long each time, and maxPause at most.
const (
	soon     = time.Second
	minPause = 10 * time.Millisecond
	maxPause = 2 * time.Second
)

// Run runs the daemon for as long as it is wanted, and returns what to exit with: the
// status with which the daemon has ended by itself. It passes on what comes from
// signals, takes SIGTERM and SIGINT for the wish that the daemon end, and [Again] for
// the wish that another follow it.
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
		case err != nil: // what is held is worth another attempt
			pause = maxPause
			p.Log.Error("the daemon can't be started, which is tried again", "err", err, "pause", pause)
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
			p.Log.Error("the daemon has ended and is started again", "status", describe(status), "descriptors", len(k.held), "pause", pause)
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

// held is a descriptor, and no [os.File]: one of those would wake the keeper whenever
// something passes through it.
type held struct {
	name string
	fd   int
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
