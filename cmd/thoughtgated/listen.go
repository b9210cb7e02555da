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

// listeners are the daemon's two sockets and the lock that says that this
// user's daemon is this process.
type listeners struct {
	paths         sock.Paths
	store         *keep.Store
	control, shim net.Listener
	activated     bool // by a service manager, which holds the sockets
	lock, state   *os.File
	log           *slog.Logger
}

// listen takes the lock and then the sockets: those that the service manager or the
// keeper hands over, named control and shim, or else its own.
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
		return nil, fmt.Errorf("one daemon serves a user: %w", err)
	}
	// Another $XDG_RUNTIME_DIR is another lock, for the same record and questions.
	if l.state, err = sock.LockFor(paths.StateLock(), paths.ControlSocket()); err != nil {
		l.close()
		return nil, fmt.Errorf("one daemon serves a user: %w", err)
	}
	if err := l.open(); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *listeners) open() error {
	control, shim, err := l.handedOver()
	if err != nil {
		return fmt.Errorf("take over the service manager's sockets: %w", err)
	}
	if control != nil || shim != nil {
		if control == nil || shim == nil {
			return errors.New("the service manager's sockets are not one named control and one named shim; see thoughtgated.socket")
		}
		return l.check(control, shim)
	}
	c, err := sock.Listen(l.paths.ControlSocket())
	if err != nil {
		return err
	}
	s, err := sock.Listen(l.paths.ShimSocket())
	if err != nil {
		c.Close()
		return err
	}
	return l.check(c, s)
}

// The names under which sockets are handed over.
const (
	controlName = "control"
	shimName    = "shim"
)

// handedOver are the sockets that systemd or the keeper holds for us.
func (l *listeners) handedOver() (control, shim net.Listener, err error) {
	if control, err = l.socket(controlName); err != nil {
		return nil, nil, err
	}
	if shim, err = l.socket(shimName); err != nil {
		return nil, nil, err
	}
	handed := control != nil || shim != nil
	l.activated = handed && (!l.store.Keeper() || os.Getenv(managerVar) != "")
	return control, shim, nil
}

func (l *listeners) socket(name string) (net.Listener, error) {
	f, err := l.store.Socket(name)
	if err != nil || f == nil {
		return nil, err
	}
	defer f.Close() // the listener has a copy
	return net.FileListener(f)
}

// check puts the look at each peer before everything else.
func (l *listeners) check(control, shim net.Listener) error {
	c, ok1 := control.(*net.UnixListener)
	s, ok2 := shim.(*net.UnixListener)
	if !ok1 || !ok2 {
		return errors.New("the service manager's sockets are no Unix stream sockets; see thoughtgated.socket")
	}
	for _, to := range []struct {
		from *net.UnixListener
		to   *net.Listener
	}{{c, &l.control}, {s, &l.shim}} {
		checked := sock.Checked(to.from)
		checked.Refused = func(err error) { l.log.Warn("refused a connection", "socket", to.from.Addr().String(), "err", err) }
		*to.to = checked
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
