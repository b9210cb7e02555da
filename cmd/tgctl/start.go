package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/host"
	"github.com/thoughtgate/thoughtgated/internal/beside"
	"github.com/thoughtgate/thoughtgated/internal/service"
	"github.com/thoughtgate/thoughtgated/internal/sock"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

const (
	daemonName = "thoughtgated"

	// startPatience is how long a daemon may take until it answers.
	startPatience = 15 * time.Second

	// startPoll is the pause between two looks at a daemon that is starting.
	startPoll = 20 * time.Millisecond

	// complaintMost is how much of what a failed daemon said is repeated, in
	// bytes from the end.
	complaintMost = 16 << 10
)

// startDaemon starts thoughtgated and returns when it answers: through the
// service manager when that knows it, else as a process of its own that
// outlives this one. What a failing daemon said is in the error. config is the
// configuration to use, empty for the one in its usual place.
func (a *app) startDaemon(ctx context.Context, config string) error {
	paths, err := sock.DefaultPaths(a.getenv)
	if err != nil {
		return err
	}
	if err := a.mayStart(paths); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	m, st, err := a.service(ctx)
	if errors.Is(err, service.ErrNone) || err == nil && !st.Installed() {
		return a.startDetached(ctx, paths, config)
	}
	if err == nil && config != "" {
		return &hintError{fmt.Errorf("%s is to be used, but %s starts the daemon, and %s says which configuration that uses", config, st.Manager, st.Definition),
			"Name it there, or unset " + configVar + "."}
	}
	if err == nil {
		err = m.Start(ctx)
	}
	if err != nil {
		return serviceFailure("start "+daemonName, err)
	}
	_, err = a.awaitDaemon(ctx, 0, notEnded)
	return err
}

// mayStart refuses where a daemon must not be started, or would not be the one
// that is wanted.
func (a *app) mayStart(paths sock.Paths) error {
	if a.getenv("THOUGHTGATE_ACTIVE") != "" {
		return &hintError{fmt.Errorf("%w, and what runs below a wrapped agent may not start it", client.ErrNotRunning),
			"Start it from a terminal of your own: tgctl daemon start"}
	}
	if named := a.getenv("THOUGHTGATE_CONTROL"); named != "" && filepath.Clean(named) != paths.ControlSocket() {
		return &hintError{fmt.Errorf("%w: nobody listens at %s, which THOUGHTGATE_CONTROL names", client.ErrNotRunning, named),
			"A daemon that tgctl starts would listen at " + paths.ControlSocket() + ". Start yours, or unset THOUGHTGATE_CONTROL."}
	}
	if what, hint := a.daemonElsewhere(); what != "" {
		return &hintError{err: fmt.Errorf("%w: %s", client.ErrNotRunning, what), hint: hint}
	}
	return nil
}

// daemonElsewhere says that a daemon with our state listens at another place than
// the one where we look for it, and how to speak to that; empty where none does.
func (a *app) daemonElsewhere() (what, hint string) {
	paths, err := sock.DefaultPaths(a.getenv)
	if err != nil {
		return "", ""
	}
	looked := paths.ControlSocket()
	if named := a.getenv("THOUGHTGATE_CONTROL"); named != "" {
		looked = filepath.Clean(named)
	}
	pid, socket := sock.Named(paths.StateLock())
	if pid == 0 || socket == "" || socket == looked {
		return "", ""
	}
	if p, err := sock.ProcessOf(int32(pid)); err != nil || p.Name != daemonName {
		return "", "" // it has ended
	}
	return fmt.Sprintf("nobody listens at %s; the daemon that has %s, pid %d, listens at %s", looked, paths.State, pid, socket),
		"XDG_RUNTIME_DIR differs from that of the terminal it was started in. To speak to it: export THOUGHTGATE_CONTROL=" + socket
}

// startDetached starts the daemon in a session of its own, with nothing of this
// process's environment but what says where things are.
func (a *app) startDetached(ctx context.Context, paths sock.Paths, config string) error {
	path, err := a.sibling(daemonName)
	if err != nil {
		return err
	}
	log, err := openLog(paths)
	if err != nil {
		return err
	}
	defer log.Close()
	from, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("open the daemon's log: %w", err)
	}
	// What runs is the keeper, which starts the daemon; the log is a file that people read.
	args := []string{"--keep", "--log-format", "text"}
	if config != "" {
		args = append(args, "--config", config)
	}
	cmd := exec.Command(path, args...)
	cmd.Env = daemonEnv(a.environ())
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", daemonName, err)
	}
	// It lives on without us; until it answers its end is ours to notice.
	pid := cmd.Process.Pid
	defer cmd.Process.Release()
	s, err := a.awaitDaemon(ctx, 0, func() error { return endOf(pid) })
	switch {
	case err == nil && startedBy(s.GetPid(), pid):
		a.say("started thoughtgated (pid %d), its log is %s", s.GetPid(), log.Name())
		return nil
	case err == nil:
		return dismiss(ctx, pid)
	}
	if said, _ := host.Tail(log.Name(), from, complaintMost); len(said) > 0 { // one that can't be read says nothing
		err = fmt.Errorf("%w; it said:\n%s", err, bytes.TrimSpace(said))
	}
	if what := a.folderTrouble(paths.State); what != "" { // then the log says nothing
		err = fmt.Errorf("%w: %s", err, what)
	}
	return &hintError{err: err, hint: "The log is " + log.Name()}
}

// awaitDaemon returns when a daemon answers that is not the process old. gone says that
// the one which was started never will.
func (a *app) awaitDaemon(ctx context.Context, old int, gone func() error) (*pb.StatusResponse, error) {
	tick := time.NewTicker(startPoll)
	defer tick.Stop()
	var ended error
	for {
		s, err := a.status(ctx)
		switch {
		case err == nil && int(s.GetPid()) != old:
			return s, nil
		// A daemon may listen before it speaks, and one whose configuration is
		// refused listens and leaves: only what does not pass ends the wait.
		case errors.Is(err, client.ErrVersion), errors.Is(err, client.ErrForbidden):
			return nil, err
		}
		// A daemon that leaves because another one has the lock has been beaten to
		// it. That one may not listen yet.
		if ended == nil {
			if ended = gone(); ended != nil {
				continue
			}
		} else if !a.locked() {
			return nil, ended
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%s was started and does not answer: %w", daemonName, cmp.Or(err, ctx.Err()))
		case <-tick.C:
		}
	}
}

// notEnded is for awaitDaemon where somebody else starts the daemon.
func notEnded() error { return nil }

// locked reports whether a process lives that has, or had, the lock of the daemon or of
// its keeper.
func (a *app) locked() bool {
	paths, err := sock.DefaultPaths(a.getenv)
	if err != nil {
		return false
	}
	for _, path := range []string{paths.LockFile(), paths.KeeperLock()} {
		if pid, _ := sock.Named(path); pid != 0 && unix.Kill(pid, 0) == nil {
			return true
		}
	}
	return false
}

// dismiss ends a daemon of ours when another one was faster. It would leave by
// itself, unless the other one has left before it looks.
func dismiss(ctx context.Context, pid int) error {
	_ = unix.Kill(pid, unix.SIGTERM) // it is our child and not reaped: nobody else has its number
	tick := time.NewTicker(startPoll)
	defer tick.Stop()
	for endOf(pid) == nil {
		select {
		case <-ctx.Done():
			return fmt.Errorf("another %s was faster, and ours (pid %d) does not leave: %w", daemonName, pid, ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

// endOf reports how a child of ours ended, nil while it has not.
func endOf(pid int) error {
	var status unix.WaitStatus
	for {
		got, err := unix.Wait4(pid, &status, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("%s: wait: %w", daemonName, err)
		case got != pid:
			return nil
		case status.Signaled():
			return fmt.Errorf("%s ended at once, by signal: %v", daemonName, status.Signal())
		}
		return fmt.Errorf("%s ended at once, with exit code %d", daemonName, status.ExitStatus())
	}
}

// sibling returns the path of another of our programs: beside this one, or
// where packages put what is not to be called by hand.
func (a *app) sibling(name string) (string, error) {
	self, err := a.executable()
	if err != nil {
		return "", fmt.Errorf("find %s: %w", name, err)
	}
	return beside.Find(self, name)
}

// daemonEnv keeps of an environment what a daemon is to know: who the user is
// and where their files are. Secrets of the shell it was started from, and
// variables that change how programs run, stay out.
func daemonEnv(environ []string) []string {
	var env []string
	for _, entry := range environ {
		switch name, _, _ := strings.Cut(entry, "="); {
		case name == "HOME", name == "PATH", name == "LANG", strings.HasPrefix(name, "XDG_"):
			env = append(env, entry)
		}
	}
	return env
}

// openLog opens the file that a daemon without a service manager writes to.
func openLog(paths sock.Paths) (*os.File, error) {
	if err := paths.Prepare(); err != nil {
		return nil, fmt.Errorf("make a place for the daemon's log: %w", err)
	}
	f, err := os.OpenFile(paths.LogFile(), os.O_RDWR|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the daemon's log: %w", err)
	}
	return f, nil
}
