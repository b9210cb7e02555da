// Package child starts programs with pipes and ends them for good.
//
// Everything ThoughtGate starts is a child with three pipes in a process group
// of its own. The hard part is not starting it but being sure that it has gone,
// together with whatever it started: a package runner that starts a server, a
// server that starts a browser, a daemon that forked twice to be left alone.
//
// Three ideas carry the package:
//
//   - The dead leader is kept. A child that has exited is not waited for until
//     [Child.Stop] has ended its group: while the entry stands in the process
//     table, neither its pid nor its group's number can be given to a stranger,
//     so a signal to the group always reaches the right one.
//   - What left the group is found by descent. With [AdoptOrphans] (Linux) a
//     process that loses its parent becomes ours instead of init's, however
//     often it forked and whatever session it made.
//   - Single processes are signalled through a pidfd where the kernel has them,
//     and never by a bare number that may have changed hands.
//
// The package knows nothing of what is said on the pipes.
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

	"github.com/thoughtgate/thoughtgated/internal/proc"
)

// Spec says what to start. Nothing is taken over from this process but its
// user, its limits and, when Dir is empty, its directory. On Linux, the program (not
// what it started) gets SIGTERM when this process dies without having stopped it.
type Spec struct {
	// Command is a path, or a name to be looked up in the PATH of Env. No
	// shell reads it. The program sees it unchanged as its own name.
	Command string
	// Args are the arguments after the command's own name.
	Args []string
	// Env is the whole environment as NAME=value; see [ComposeEnv]. Nil and
	// empty both mean none.
	Env []string
	// Dir is where the program starts, and what a relative Command is relative
	// to. Empty means this process's own directory.
	Dir string
	// Mark is one NAME=value entry that Start adds to the environment. Its
	// value must be unique to this child. A process that was orphaned and
	// carries it is known as this child's; without a mark, orphans are told
	// apart only while a single child is running.
	Mark string
	// Stdin, Stdout and Stderr, where they are set, are what the program gets in
	// place of a pipe. They stay the caller's, who need not keep them open once Start
	// has returned. Nothing can be read or written at the method of the same name then.
	Stdin, Stdout, Stderr *os.File
}

// Child is a started program. Its methods may be called by any number of
// goroutines at once. Whoever starts a Child calls Stop in the end, also when
// the program has exited by itself: until then its process-table entry and
// whatever it left behind remain.
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

	ladder  ladder
	stopped chan struct{} // closed when the ladder has ended
	final   State         // valid once stopped is closed

	mu        sync.Mutex // guards what follows, and every signal to the group
	reaped    bool       // the group's number may belong to somebody else
	abandoned bool       // Stop gave up on a leader that the kernel holds
}

// Start starts the program in a process group of its own, with pipes for those of
// its three streams that spec does not name; every other descriptor of this process is closed in it. The
// error says whether the program was not found or could not be run; see
// [StartExit].
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
		stdin:   &writeEnd{File: p.stdinWrite},
		stdout:  &outEnd{file: p.stdoutRead},
		stderr:  &outEnd{file: p.stderrRead},
		done:    make(chan struct{}),
		stopped: make(chan struct{}),
		ladder:  ladder{changed: make(chan struct{})},
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

// live starts the program and returns when its leader has exited. Both happen
// on one thread, since the kernel counts a death signal by the thread that
// forked and not by the process.
func (c *Child) live(path string, spec Spec, p *pipes, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	env := spec.Env
	if env == nil {
		env = []string{} // nil would mean our own
	}
	if spec.Mark != "" {
		env = append(slices.Clone(env), spec.Mark)
	}
	family.begin()
	process, err := os.StartProcess(path, append([]string{spec.Command}, spec.Args...), &os.ProcAttr{
		Dir:   spec.Dir,
		Env:   env,
		Files: []*os.File{cmp.Or(spec.Stdin, p.stdinRead), cmp.Or(spec.Stdout, p.stdoutWrite), cmp.Or(spec.Stderr, p.stderrWrite)},
		Sys:   sysProcAttr,
	})
	if err != nil {
		family.end()
		started <- err
		return
	}
	c.process = process
	// It was not waited for, so that its number is still its own.
	if c.leader, err = proc.Read(int32(process.Pid)); err != nil {
		c.leader = proc.Info{Process: proc.Process{PID: int32(process.Pid)}, Group: int32(process.Pid)}
	}
	family.began(c.leader)
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

// Stdin is the program's standard input. Close may be called more than once;
// a write to a program that has gone fails with EPIPE or [os.ErrClosed].
func (c *Child) Stdin() io.WriteCloser { return c.stdin }

// Stdout is the program's standard output. What the program wrote before it
// died can be read after its death. The end of the stream comes when every
// process that holds it has gone, and at the latest after Stop has returned
// and what the pipe still held has been read. The descriptor is released at
// that end; a reader that stops before it must Close.
func (c *Child) Stdout() io.ReadCloser { return c.stdout }

// Stderr is the program's standard error, and like Stdout. Somebody must read
// it, or a talkative program comes to a halt; see [EscapeStderr].
func (c *Child) Stderr() io.ReadCloser { return c.stderr }

// PID is the process id of the program, and the number of its group.
func (c *Child) PID() int { return c.process.Pid }

// Done is closed when the program has exited. What it started may still run.
func (c *Child) Done() <-chan struct{} { return c.done }

// Wait returns how the program exited, once it has.
func (c *Child) Wait() State {
	<-c.done
	return c.state
}

// Signal sends sig to the program's group. Once no member is left that the
// number surely stands for, the error is [os.ErrProcessDone].
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

// signalLeader sends sig to the program alone, wherever it went.
func (c *Child) signalLeader(sig syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		c.process.Signal(sig) // through its pidfd; one that has exited needs none
	}
}

// reapLocked waits for the leader, the only call that does. c.mu is held, so
// that no signal to the group comes between.
func (c *Child) reapLocked() {
	if c.reaped {
		return
	}
	c.process.Wait() // the state is known already; an error leaves nothing to do
	c.reaped = true
}
