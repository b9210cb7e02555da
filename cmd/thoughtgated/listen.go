package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"

	"golang.org/x/term"

	"github.com/thoughtgate/thoughtgated/daemon/keep"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// listeners are the daemon's two sockets, and the locks that make this process the user's only
// daemon.
type listeners struct {
	paths         sock.Paths
	store         *keep.Store
	control, shim net.Listener
	activated     bool // by a service manager, which holds the sockets
	lock, state   *os.File
	log           *slog.Logger
}

// listen takes the locks and then the sockets: those named control and shim from the service
// manager or the keeper, or its own.
func listen(getenv func(string) string, store *keep.Store, log *slog.Logger) (*listeners, error) {
	paths, err := sock.DefaultPaths(getenv)
	if err != nil {
		return nil, err
	}
	if err := paths.Prepare(); err != nil {
		return nil, err
	}
	l := &listeners{paths: paths, store: store, log: log}
	if l.lock, err = sock.Lock(paths.LockFile()); err != nil {
		return nil, fmt.Errorf("only one daemon can run per user: %w", err)
	}
	// Another $XDG_RUNTIME_DIR means another lock, but the same audit log and questions.
	if l.state, err = sock.LockFor(paths.StateLock(), paths.ControlSocket()); err != nil {
		l.close()
		return nil, fmt.Errorf("only one daemon can run per user: %w", err)
	}
	if err := l.open(); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// Names of the sockets that are handed over.
const (
	controlName = "control"
	shimName    = "shim"
)

// open opens the two sockets, with a check of each peer before anything else.
func (l *listeners) open() error {
	sockets := []struct {
		name, path string
		to         *net.Listener
	}{{controlName, l.paths.ControlSocket(), &l.control}, {shimName, l.paths.ShimSocket(), &l.shim}}
	handed := 0
	for _, s := range sockets {
		f, err := l.store.Socket(s.name)
		if err == nil && f != nil {
			handed++
			*s.to, err = net.FileListener(f)
			f.Close() // the listener has a copy
		}
		if err != nil {
			return fmt.Errorf("take over the service manager's sockets: %w", err)
		}
	}
	if handed == 1 {
		return errors.New("the service manager must pass one socket named control and one named shim; see thoughtgated.socket")
	}
	l.activated = handed > 0 && (!l.store.Keeper() || os.Getenv(managerVar) != "")
	for _, s := range sockets {
		if handed == 0 {
			own, err := sock.Listen(s.path)
			if err != nil {
				return err
			}
			*s.to = own
		}
		from, ok := (*s.to).(*net.UnixListener)
		if !ok {
			return errors.New("the service manager must pass Unix stream sockets; see thoughtgated.socket")
		}
		checked := sock.Checked(from)
		checked.Refused = func(err error) { l.log.Warn("refused a connection", "socket", from.Addr().String(), "err", err) }
		*s.to = checked
	}
	return nil
}

func (l *listeners) close() {
	for _, c := range []io.Closer{l.control, l.shim, l.state, l.lock} {
		if c != nil {
			_ = c.Close() // the process is ending
		}
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
