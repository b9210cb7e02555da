package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/thoughtgate/thoughtgated/internal/child"
)

// ended is how an agent ended.
type ended struct {
	child.State
	forced bool // because we were told to end
}

// err is what wrap exits with, which passes it on.
func (e ended) err() error {
	if code := e.ExitStatus(); code != 0 {
		return &exitError{code: code}
	}
	return nil
}

// lookAgent finds the program that is to be run, before anything is changed for
// its sake.
func lookAgent(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil || errors.Is(err, exec.ErrDot) {
		return path, nil
	}
	return "", cannotRun(name, err)
}

// cannotRun says why an agent cannot be started, with the exit code for it.
func cannotRun(name string, err error) error {
	code := exitNotExecutable
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		code = exitNotFound
	}
	var wrapped *exec.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return &exitError{code, fmt.Errorf("cannot run %s: %w", name, err)}
}

// agentProcess is the agent, a child of this process. Only one goroutine uses
// it, and it alone reaps: a pid that is not reaped yet cannot be another
// process's.
type agentProcess struct {
	pid   int
	group bool     // it leads a process group of its own
	tty   *os.File // our terminal, nil when we have none
	modes *term.State
	gone  chan struct{} // closed to let the thread go that started it
}

// startAgent starts the agent on our own input and output. Where there is a
// terminal it stays in our process group, which the shell moves to and from the
// foreground; elsewhere it gets one of its own, so that what it starts can be
// signalled with it.
//
// If this process is killed, the agent gets a SIGHUP, or a SIGTERM where that is
// ignored, if the system can do so: it must not run on with a configuration that
// is governed no longer.
func startAgent(path string, argv, environ []string, files []*os.File) (*agentProcess, error) {
	if err := adoptOrphans(); err != nil {
		return nil, err
	}
	p := &agentProcess{gone: make(chan struct{})}
	if tty, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY, 0); err == nil {
		p.tty = tty
		p.modes, _ = term.GetState(int(tty.Fd()))
	}
	p.group = p.tty == nil
	attr := &os.ProcAttr{Env: environ, Files: files, Sys: agentAttributes(p.group)}
	started := make(chan error, 1)
	go func() {
		// The kernel watches the thread that started a child, not the process:
		// this one must last as long as the agent, and is of no further use.
		runtime.LockOSThread()
		process, err := os.StartProcess(path, argv, attr)
		if err == nil {
			p.pid = process.Pid
			err = process.Release()
		}
		started <- err
		<-p.gone
	}()
	if err := <-started; err != nil {
		p.release()
		return nil, cannotRun(argv[0], err)
	}
	return p, nil
}

// release gives back what was held for the agent, and makes the terminal what it
// was before, should the agent have left it in another mode.
func (p *agentProcess) release() {
	if p.tty != nil {
		if p.modes != nil && p.foreground() { // from the background it would stop us
			_ = term.Restore(int(p.tty.Fd()), p.modes)
		}
		p.tty.Close()
	}
	close(p.gone)
}

// foreground reports whether our process group is the one that the terminal
// sends its signals to.
func (p *agentProcess) foreground() bool {
	if p.tty == nil {
		return false
	}
	group, err := unix.IoctlGetInt(int(p.tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// signal sends a signal to the agent, and to its group when that is its own.
func (p *agentProcess) signal(sig syscall.Signal) {
	if p.group && unix.Kill(-p.pid, sig) == nil {
		return
	}
	_ = unix.Kill(p.pid, sig)
}

// reap collects every child that has ended or stopped: the agent, and what it
// left behind. It reports whether the agent has ended.
func (p *agentProcess) reap() (child.State, bool) {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG|unix.WUNTRACED, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil || pid == 0:
			return child.State{}, false
		case pid != p.pid:
			continue
		case status.Stopped():
			p.stopped()
			continue
		}
		return child.StateOf(syscall.WaitStatus(status)), true
	}
}

// stopped is called when the agent was stopped. On a terminal the shell waits for
// us, not for the agent: so we stop as well, and it can go on with its prompt.
// What makes us go on goes to our whole group, the agent included.
func (p *agentProcess) stopped() {
	if p.tty != nil {
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
	}
}

// agentFiles are our own input, output and talk, for the agent. What is no file,
// as in a test, is none for the agent either.
func (a *app) agentFiles() ([]*os.File, func(), error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, nil, err
	}
	file := func(stream any) *os.File {
		if f, ok := stream.(*os.File); ok {
			return f
		}
		return null
	}
	return []*os.File{file(a.in), file(a.out), file(a.err)}, func() { null.Close() }, nil
}

// agentEnviron is our environment with what tells the agent that it is wrapped.
func agentEnviron(environ []string, session string) []string {
	out := make([]string, 0, len(environ)+2)
	for _, entry := range environ {
		if !strings.HasPrefix(entry, "THOUGHTGATE_ACTIVE=") && !strings.HasPrefix(entry, "THOUGHTGATE_SESSION=") {
			out = append(out, entry)
		}
	}
	return append(out, "THOUGHTGATE_ACTIVE=1", "THOUGHTGATE_SESSION="+session)
}
