package wrap

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

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/child"
)

// Exit codes of wrap if the agent can't be started, as in env(1).
const (
	exitNotExecutable = 126
	exitNotFound      = 127
)

// ended is how an agent ended.
type ended struct {
	child.State
	forced bool // this process was told to end and ended the agent
}

// err returns an error with the agent's exit code, which wrap exits with.
func (e ended) err() error {
	if code := e.ExitStatus(); code != 0 {
		return &ui.ExitError{Code: code}
	}
	return nil
}

// findAgent finds the program to run, before any file is changed for it.
func findAgent(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil || errors.Is(err, exec.ErrDot) {
		return path, nil
	}
	return "", cannotRun(name, err)
}

// cannotRun returns the error for an agent that can't be started, with its exit code.
func cannotRun(name string, err error) error {
	code := exitNotExecutable
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		code = exitNotFound
	}
	if wrapped, ok := errors.AsType[*exec.Error](err); ok {
		err = wrapped.Err
	}
	return &ui.ExitError{Code: code, Err: &ui.HintError{Err: fmt.Errorf("cannot run %s: %w", name, err), Hint: "Install the agent, or name the path of its program."}}
}

// agentProcess is the agent, a child of this process. Only one goroutine may use it, and
// only that goroutine reaps children: the pid of a child that has not been reaped can't
// be reused.
type agentProcess struct {
	pid   int
	group bool     // it leads its own process group
	tty   *os.File // the terminal of this process, nil if it has none
	modes *term.State
	gone  chan struct{} // closed to end the thread that started it
}

// startAgent starts the agent with the input and output of this process. With a terminal
// the agent stays in this process group, which the shell moves to and from the
// foreground. Otherwise it gets its own group, so that its children can be signalled with
// it.
//
// If this process is killed, the agent gets SIGHUP, or SIGTERM if SIGHUP is ignored,
// where the system supports that: it must not continue with a configuration that is no
// longer governed.
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
		// The kernel watches the thread that started a child, not the process. This
		// thread must last as long as the agent and does nothing else.
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

// release frees what was held for the agent. It restores the mode of the terminal, which
// the agent may have changed.
func (p *agentProcess) release() {
	if p.tty != nil {
		if p.modes != nil && p.foreground() { // in the background this would stop the process
			_ = term.Restore(int(p.tty.Fd()), p.modes)
		}
		p.tty.Close()
	}
	close(p.gone)
}

// foreground reports whether this process group is the foreground group of the terminal.
func (p *agentProcess) foreground() bool {
	if p.tty == nil {
		return false
	}
	group, err := unix.IoctlGetInt(int(p.tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// signal sends a signal to the agent, or to its group if it has its own.
func (p *agentProcess) signal(sig syscall.Signal) {
	if p.group && unix.Kill(-p.pid, sig) == nil {
		return
	}
	_ = unix.Kill(p.pid, sig)
}

// reap handles every child that has ended or stopped: the agent, and the orphans that it
// has left. It reports whether the agent has ended.
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

// stopped is called when the agent was stopped. On a terminal the shell waits for this
// process, not for the agent, so this process stops, too, and the shell can show its
// prompt. SIGCONT then goes to the whole group, including the agent.
func (p *agentProcess) stopped() {
	if p.tty != nil {
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
	}
}

// agentFiles returns the agent's stdin, stdout and stderr: those of this process, or
// /dev/null for one that is not a file, as in tests.
func (w *wrapping) agentFiles() ([]*os.File, func(), error) {
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
	return []*os.File{file(w.In), file(w.Out), file(w.Err)}, func() { null.Close() }, nil
}

// agentEnviron returns the environment with the variables that tell the agent that it is
// wrapped.
func agentEnviron(environ []string, session string) []string {
	others := ui.Filter(environ, func(entry string) bool {
		return !strings.HasPrefix(entry, "THOUGHTGATE_ACTIVE=") && !strings.HasPrefix(entry, "THOUGHTGATE_SESSION=")
	})
	return append(others, "THOUGHTGATE_ACTIVE=1", "THOUGHTGATE_SESSION="+session)
}
