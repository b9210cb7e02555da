package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/daemon/keep"
	"github.com/thoughtgate/thoughtgated/internal/launchd"
	"github.com/thoughtgate/thoughtgated/internal/private"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// managerVar tells a daemon that its sockets, which its keeper hands over, are the
// service manager's.
const managerVar = "THOUGHTGATE_ACTIVATED"

// keepDaemon is the daemon's parent, where no systemd is. It holds what the daemon has
// open, starts it again when it dies, and exits as it does.
func keepDaemon(o options, args []string, getenv func(string) string, stderr io.Writer) int {
	code, err := runKeeper(o, args, getenv, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "thoughtgated: %v\n", err)
		if what := sock.Remedy(err); what != "" {
			fmt.Fprintf(stderr, "What to do: %s.\n", what)
		}
		return exitFailed
	}
	return code
}

func runKeeper(o options, args []string, getenv func(string) string, stderr io.Writer) (int, error) {
	log := newLogger(o, "keeper", getenv, stderr)
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, keep.Again)
	if err := errors.Join(private.NoCore(), private.NoReading()); err != nil {
		return 0, err
	}
	self, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("find the daemon's program: %w", err)
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
		return 0, fmt.Errorf("one keeper serves a user: %w", err)
	}
	defer lock.Close()
	p := keep.Program{Path: self, Args: append([]string{os.Args[0]}, daemonArgs(args)...), Env: os.Environ(), Log: log, Sockets: map[string]*os.File{}}
	for _, name := range []string{controlName, shimName} {
		all, err := launchd.Sockets(name)
		if err != nil {
			return 0, err
		}
		for _, l := range all {
			if p.Sockets[name], err = l.(*net.UnixListener).File(); err != nil {
				return 0, fmt.Errorf("take over launchd's socket %q: %w", name, err)
			}
			_ = l.Close() // launchd has it
		}
	}
	if len(p.Sockets) > 0 {
		p.Env = append(p.Env, managerVar+"=1")
	}
	return keep.Run(p, signals)
}

// daemonArgs are the arguments without the one that makes a keeper.
func daemonArgs(args []string) []string {
	return slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == "--keep" || arg == "-keep" })
}
