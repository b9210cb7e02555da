package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"

	"golang.org/x/term"

	"github.com/thoughtgate/thoughtgated/daemon/keep"
	"github.com/thoughtgate/thoughtgated/internal/launchd"
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
// keeper hands over, named control and shim, or else its own, which it has the keeper
// hold.
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
	c, err := l.own(controlName, l.paths.ControlSocket())
	if err != nil {
		return err
	}
	s, err := l.own(shimName, l.paths.ShimSocket())
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

// own opens a socket, which the keeper holds from then on, if there is one.
func (l *listeners) own(name, path string) (*net.UnixListener, error) {
	s, err := sock.Listen(path)
	if err != nil {
		return nil, err
	}
	f, err := s.File()
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("listen at %s: %w", path, err)
	}
	defer f.Close()
	if err := l.store.KeepSocket(context.Background(), name, f); err != nil { // which has bounds of its own
		s.Close()
		return nil, err
	}
	return s, nil
}

// handedOver are the sockets that systemd, launchd or the keeper holds for us.
func (l *listeners) handedOver() (control, shim net.Listener, err error) {
	l.activated = !l.store.Keeper() || os.Getenv(managerVar) != ""
	if control, err = l.socket(controlName); err != nil {
		return nil, nil, err
	}
	if shim, err = l.socket(shimName); err != nil {
		return nil, nil, err
	}
	if control == nil && shim == nil {
		l.activated = false
	}
	return control, shim, nil
}

func (l *listeners) socket(name string) (net.Listener, error) {
	f, err := l.store.Socket(name)
	if err != nil {
		return nil, err
	}
	if f != nil {
		defer f.Close() // the listener has a copy
		return net.FileListener(f)
	}
	all, err := launchd.Sockets(name)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	if len(all) > 1 {
		return nil, fmt.Errorf("launchd holds %d sockets named %s; there can be one", len(all), name)
	}
	return all[0], nil
}

// check puts the look at each peer before everything else.
func (l *listeners) check(control, shim net.Listener) error {
	c, ok1 := control.(*net.UnixListener)
	s, ok2 := shim.(*net.UnixListener)
	if !ok1 || !ok2 {
		return errors.New("the service manager's sockets are no Unix stream sockets; see thoughtgated.socket")
	}
	// Those of the service manager and of the keeper stay: the next daemon gets them too.
	ours := !l.activated && !l.store.Keeper()
	c.SetUnlinkOnClose(ours)
	s.SetUnlinkOnClose(ours)
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
