package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/daemon/keep"
	"github.com/thoughtgate/thoughtgated/internal/launchd"
	"github.com/thoughtgate/thoughtgated/internal/private"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// managerVar tells a daemon that the sockets from its keeper belong to the service manager.
const managerVar = "THOUGHTGATE_ACTIVATED"

// keepDaemon runs the daemon's keeper, its parent process where there is no systemd. The keeper
// holds the daemon's descriptors, restarts it when it dies, and exits as it does.
func keepDaemon(o options, args []string, getenv func(string) string, stderr io.Writer) int {
	code, err := runKeeper(o, args, getenv, stderr)
	if err != nil {
		return failed(stderr, err)
	}
	return code
}

func runKeeper(o options, args []string, getenv func(string) string, stderr io.Writer) (int, error) {
	log := newLogger(o, "keeper", getenv, stderr)
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, keep.Again)
	if err := errors.Join(private.NoCore(), private.NoReading(), private.CloseInherited()); err != nil {
		return 0, err
	}
	paths, err := sock.DefaultPaths(getenv)
	if err != nil {
		return 0, err
	}
	if err := paths.Prepare(); err != nil {
		return 0, err
	}
	lock, err := sock.Lock(paths.KeeperLock())
	if err != nil {
		return 0, fmt.Errorf("only one keeper can run per user: %w", err)
	}
	defer lock.Close()
	p := keep.Program{Path: os.Args[0], Args: append([]string{os.Args[0]}, daemonArgs(args)...), Env: os.Environ(), Log: log, StopTimeout: keeperKillTimeout}
	// The name that this program was called by finds what an update installs in its place, even
	// if that name is a link which then leads elsewhere.
	if !filepath.IsAbs(p.Path) {
		if p.Path, err = os.Executable(); err != nil {
			return 0, fmt.Errorf("find the daemon's program: %w", err)
		}
	}
	if p.Sockets, err = launchdSockets(); err != nil {
		return 0, err
	}
	if len(p.Sockets) > 0 {
		p.Env = append(p.Env, managerVar+"=1")
	} else if p.Sockets, p.Leave, err = ownSockets(paths); err != nil {
		return 0, err
	}
	return keep.Run(p, signals)
}

// keeperKillTimeout is how long a daemon may take to end before its keeper kills it: longer than the
// daemon allows itself, and shorter than launchd allows both.
const keeperKillTimeout = stopTimeout + 3*time.Second

// launchdSockets returns the sockets that launchd holds for the daemon, none if launchd did not
// start this process.
func launchdSockets() (map[string]*os.File, error) {
	sockets := map[string]*os.File{}
	for _, name := range []string{controlName, shimName} {
		all, err := launchd.Sockets(name)
		if err != nil {
			return nil, err
		}
		if len(all) > 1 {
			return nil, fmt.Errorf("launchd passed %d sockets named %s; there must be one", len(all), name)
		}
		for _, l := range all {
			if sockets[name], err = fileOf(l); err != nil {
				return nil, fmt.Errorf("take over launchd's socket %q: %w", name, err)
			}
		}
	}
	return sockets, nil
}

// ownSockets opens the daemon's sockets, which stay open over its restarts. leave removes their
// files, unless somebody has replaced them.
func ownSockets(paths sock.Paths) (sockets map[string]*os.File, leave func(), err error) {
	lock, err := sock.Lock(paths.LockFile())
	if err != nil {
		return nil, nil, fmt.Errorf("only one daemon can run per user: %w", err)
	}
	defer lock.Close() // the daemon takes it next
	sockets, files := map[string]*os.File{}, map[string]os.FileInfo{}
	leave = func() {
		for path, ours := range files {
			if now, err := os.Lstat(path); err == nil && os.SameFile(now, ours) {
				_ = os.Remove(path) // on failure, whoever listens next removes it
			}
		}
	}
	for name, path := range map[string]string{controlName: paths.ControlSocket(), shimName: paths.ShimSocket()} {
		l, err := sock.Listen(path)
		if err == nil {
			l.SetUnlinkOnClose(false)
			sockets[name], err = fileOf(l)
		}
		if err == nil {
			files[path], err = os.Lstat(path)
		}
		if err != nil {
			leave()
			return nil, nil, err
		}
	}
	return sockets, leave, nil
}

// fileOf returns the file of a listener and closes the listener.
func fileOf(l net.Listener) (*os.File, error) {
	f, err := l.(*net.UnixListener).File()
	return f, errors.Join(err, l.Close())
}

// daemonArgs returns args without the option that makes a keeper.
func daemonArgs(args []string) []string {
	return slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == "--keep" || arg == "-keep" })
}
