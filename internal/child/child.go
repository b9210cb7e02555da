// Package child starts programs with pipes and ends them reliably.
//
// Everything that ThoughtGate starts is a child with three pipes in a process group of its
// own. The hard part is to be sure that it has ended together with everything that it started:
// a package runner that starts a server, a server that starts a browser, a daemon that forked
// twice to detach itself.
//
// The package rests on three ideas:
//
//   - A dead leader is kept. A child that has exited is not waited for until [Child.Stop] has
//     ended its group: while its entry is in the process table, neither its pid nor the number
//     of its group can be reused, so a signal to the group always reaches the right one.
//   - Processes that left the group are found by descent. With [AdoptOrphans] (Linux) a
//     process that loses its parent becomes a child of this process instead of init's,
//     however often it forked and whatever session it created.
//   - Single processes are signalled through a pidfd where the kernel has them, and never by
//     a bare number that may have been reused.
//
// The package does not interpret what is written to the pipes.
package child

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/proc"
)

// Spec says what to start. The child inherits nothing from this process except its user, its
// limits and, if Dir is empty, its directory. On Linux, the program (but not what it started)
// gets SIGTERM when this process dies without having stopped it.
type Spec struct {
	// Command is a path, or a name to be looked up in the PATH of Env. No shell interprets it.
	// The program gets it unchanged as its argv[0].
	Command string
	// Args are the arguments after argv[0].
	Args []string
	// Env is the complete environment as NAME=value; see [ComposeEnv]. Nil and empty both mean
	// an empty environment.
	Env []string
	// Dir is the program's directory. A relative Command is relative to it. Empty means the
	// directory of this process.
	Dir string
	// Mark is a NAME=value entry that Start adds to the environment. Its value must be unique
	// to this child. An orphaned process with the mark is known to be this child's; without a
	// mark, orphans can be assigned only while a single child is running.
	Mark string
	// Stdin, Stdout and Stderr, if set, are used in place of pipes. The caller owns them and
	// may close them once Start has returned. Then the method with the same name gives no
	// access to the stream.
	Stdin, Stdout, Stderr *os.File
}

// Child is a started program. Its methods are safe for concurrent use. Whoever starts a Child
// must call Stop in the end, even if the program has exited by itself: until then its process
// table entry and whatever it left behind remain.
type Child struct {
	command string
	mark    string
	process *os.Process
	leader  proc.Info

	stdin  *writeEnd
	stdout *outEnd
	stderr *outEnd

	done  chan struct{} // closed when the leader has exited
	state State         // valid once done is closed

	ladder  stopDeadlines
	settle  time.Duration // the constant of that name; longer in tests
	stopped chan struct{} // closed when Stop's work is done
	final   State         // valid once stopped is closed

	mu        sync.Mutex // guards the fields below, and every signal to the group
	reaped    bool       // the group's number may have been reused
	abandoned bool       // Stop gave up on a leader that the kernel does not let end
}

// Start starts the program in a process group of its own, with pipes for those of its three
// streams that spec does not set. All other descriptors of this process are closed in it. The
// error says whether the program was not found or could not be executed; see [StartExit].
func Start(spec Spec) (*Child, error) {
	path, err := Resolve(spec.Command, spec.Env, spec.Dir)
	if err != nil {
		return nil, err
	}
	if spec.Dir != "" {
		if info, err := os.Stat(spec.Dir); err != nil {
			return nil, fmt.Errorf("start %q: working directory: %w", spec.Command, err)
		} else if !info.IsDir() {
			return nil, fmt.Errorf("start %q: working directory %s is not a directory", spec.Command, spec.Dir)
		}
	}
	keepInherited()
	p, err := openPipes(&spec)
	if err != nil {
		return nil, fmt.Errorf("start %q: %w", spec.Command, err)
	}
	c := &Child{
		command: spec.Command,
		mark:    spec.Mark,
		stdin:   &writeEnd{File: p[0].ours, close: sync.OnceValue(p[0].ours.Close)},
		stdout:  &outEnd{file: p[1].ours},
		stderr:  &outEnd{file: p[2].ours},
		done:    make(chan struct{}),
		settle:  settle,
		stopped: make(chan struct{}),
	}
	started := make(chan error)
	go c.live(path, spec, p, started)
	err = <-started
	p.closeTheirs()
	if err != nil {
		p.closeOurs()
		return nil, startError(spec.Command, path, err)
	}
	return c, nil
}

// live starts the program and returns when its leader has exited. Both happen on one thread,
// since the kernel sends a death signal when the thread that forked ends, not the process.
func (c *Child) live(path string, spec Spec, p *pipes, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	env := spec.Env
	if env == nil {
		env = []string{} // nil would mean that of this process
	}
	if spec.Mark != "" {
		env = append(slices.Clone(env), spec.Mark)
	}
	family.living.Add(1)
	process, err := os.StartProcess(path, append([]string{spec.Command}, spec.Args...), &os.ProcAttr{
		Dir:   spec.Dir,
		Env:   env,
		Files: []*os.File{cmp.Or(spec.Stdin, p[0].theirs), cmp.Or(spec.Stdout, p[1].theirs), cmp.Or(spec.Stderr, p[2].theirs)},
		Sys:   sysProcAttr,
	})
	if err != nil {
		family.living.Add(-1)
		started <- err
		return
	}
	c.process = process
	// The process was not waited for, so its pid is still its own.
	if c.leader, err = proc.Read(int32(process.Pid)); err != nil {
		c.leader = proc.Info{Process: proc.Process{PID: int32(process.Pid)}, Group: int32(process.Pid)}
	}
	family.recordStart(c.leader.Start)
	started <- nil

	c.blockUntilExit()
	c.mu.Lock()
	c.state, c.reaped = c.exitedLocked()
	if c.abandoned {
		c.reapLocked()
	}
	c.mu.Unlock()
	close(c.done)
}

// Stdin returns the program's standard input. Close may be called more than once; a write after
// the program's end fails with EPIPE or [os.ErrClosed].
func (c *Child) Stdin() io.WriteCloser { return c.stdin }

// Stdout returns the program's standard output. What the program wrote before its end can be
// read afterwards. The stream ends when every process that holds it has ended, and at the
// latest after Stop has returned and the rest of the pipe has been read. The descriptor is
// released at the end of the stream; a reader that stops earlier must call Close.
func (c *Child) Stdout() io.ReadCloser { return c.stdout }

// Stderr returns the program's standard error, which behaves like Stdout. It must be read, or a
// program that writes much blocks; see [EscapeStderr].
func (c *Child) Stderr() io.ReadCloser { return c.stderr }

// PID returns the process id of the program, which is also the number of its group.
func (c *Child) PID() int { return c.process.Pid }

// Done returns a channel that is closed when the program has exited. What it started may still
// run.
func (c *Child) Done() <-chan struct{} { return c.done }

// Wait waits until the program exits and returns how it did.
func (c *Child) Wait() State {
	<-c.done
	return c.state
}

// Signal sends sig to the program's group. The error is [os.ErrProcessDone] once the group's
// number may have been reused.
func (c *Child) Signal(sig syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped {
		return os.ErrProcessDone
	}
	if err := syscall.Kill(-c.process.Pid, sig); err != nil {
		return fmt.Errorf("signal group of %q (pid %d): %w", c.command, c.process.Pid, err)
	}
	return nil
}

// signalLeader sends sig to the program alone, whatever its group.
func (c *Child) signalLeader(sig syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		c.process.Signal(sig) // through its pidfd; a process that has exited needs no signal
	}
}

// reapLocked waits for the leader; nothing else does. c.mu must be held, so that no signal to
// the group comes between.
func (c *Child) reapLocked() {
	if c.reaped {
		return
	}
	c.process.Wait() // the state is known already, and an error leaves nothing to do
	c.reaped = true
}
