package main

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/service"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// keeper is the process that has started the daemon, holds what it has open and starts
// it again when it dies: 0 where a service manager does that, or nobody.
func (a *app) keeper() (int, error) {
	paths, err := sock.DefaultPaths(a.getenv)
	if err != nil {
		return 0, err
	}
	return sock.Holder(paths.KeeperLock())
}

// stopKept ends the daemon by way of its keeper, which ends with it.
func (a *app) stopKept(ctx context.Context, keeper int) error {
	if err := a.mayStop(ctx, service.State{PID: keeper}); err != nil {
		return err
	}
	err := awaitEnd(ctx, keeper, func() error { return tellKeeper(keeper, unix.SIGTERM) })
	if err != nil {
		return err
	}
	a.say("thoughtgated has stopped.")
	return nil
}

// restartKept has the keeper end the daemon and start the program that is installed
// now. Sessions go on with it.
func (a *app) restartKept(ctx context.Context, keeper int) error {
	ctx, cancel := context.WithTimeout(ctx, stopPatience+startPatience)
	defer cancel()
	st := service.State{PID: keeper}
	if err := a.mayStop(ctx, st); err != nil {
		return err
	}
	old := a.daemonPID(ctx)
	if err := tellKeeper(keeper, unix.SIGUSR2); err != nil { // keep.Again
		return err
	}
	s, err := a.awaitOther(ctx, old)
	if err != nil {
		return fmt.Errorf("restart %s: %w", daemonName, err)
	}
	a.say("thoughtgated %s runs (pid %d).", s.GetBuild(), s.GetPid())
	return nil
}

// daemonPID is the daemon that runs, 0 for one that does not answer.
func (a *app) daemonPID(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	s, err := a.status(ctx)
	if err != nil {
		return 0
	}
	return int(s.GetPid())
}

// tellKeeper sends a signal to the keeper, if it still is one.
func tellKeeper(pid int, signal unix.Signal) error {
	p, err := sock.ProcessOf(int32(pid))
	if err != nil {
		return nil // it has ended meanwhile
	}
	if p.Name != daemonName {
		return fmt.Errorf("process %d (%s) holds the lock of %s's keeper and is none; end it yourself", pid, p.Name, daemonName)
	}
	return unix.Kill(pid, signal)
}
