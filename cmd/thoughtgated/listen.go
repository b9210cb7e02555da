package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"

	"github.com/coreos/go-systemd/v22/activation"
	"golang.org/x/term"

	"github.com/thoughtgate/thoughtgated/internal/launchd"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// listeners are the daemon's two sockets and the lock that says that this
// user's daemon is this process.
type listeners struct {
	paths         sock.Paths
	control, shim net.Listener
	activated     bool
	lock, state   *os.File
	log           *slog.Logger
}

// listen takes the lock and then the sockets: those that the service manager
// hands over, named control and shim, or else its own.
func listen(getenv func(string) string, log *slog.Logger) (*listeners, error) {
	paths, err := sock.DefaultPaths(getenv)
	if err != nil {
		return nil, err
	}
	if err := paths.Prepare(); err != nil {
		return nil, err
	}
	l := &listeners{paths: paths, log: log}
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
	handed, err := handedOver()
	if err != nil {
		return fmt.Errorf("take over the service manager's sockets: %w", err)
	}
	if len(handed) > 0 {
		control, shim := handed["control"], handed["shim"]
		if len(handed) != 2 || len(control) != 1 || len(shim) != 1 {
			return errors.New("the service manager's sockets are not one named control and one named shim; see thoughtgated.socket")
		}
		l.activated = true
		return l.check(control[0], shim[0])
	}
	control, err := sock.Listen(l.paths.ControlSocket())
	if err != nil {
		return err
	}
	shim, err := sock.Listen(l.paths.ShimSocket())
	if err != nil {
		control.Close()
		return err
	}
	return l.check(control, shim)
}

// handedOver are the sockets that systemd or launchd holds for us, by their names.
func handedOver() (map[string][]net.Listener, error) {
	handed, err := activation.ListenersWithNames()
	if err != nil || len(handed) > 0 {
		return handed, err
	}
	handed = map[string][]net.Listener{}
	for _, name := range []string{"control", "shim"} {
		if l, err := launchd.Sockets(name); err != nil {
			return nil, err
		} else if len(l) > 0 {
			handed[name] = l
		}
	}
	return handed, nil
}

// check puts the look at each peer before everything else.
func (l *listeners) check(control, shim net.Listener) error {
	c, ok1 := control.(*net.UnixListener)
	s, ok2 := shim.(*net.UnixListener)
	if !ok1 || !ok2 {
		return errors.New("the service manager's sockets are no Unix stream sockets; see thoughtgated.socket")
	}
	if l.activated {
		// They belong to the service manager: the next daemon gets them too.
		c.SetUnlinkOnClose(false)
		s.SetUnlinkOnClose(false)
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
