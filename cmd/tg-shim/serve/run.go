// Package serve implements one run of tg-shim. It hands the agent's standard input and output
// to the daemon, starts the server when the daemon tells it to, waits for its end, and exits as
// the server did. No message passes through it, unless there is no daemon: then it answers the
// agent's requests with an error.
package serve

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/thoughtgate/thoughtgated/cmd/tg-shim/attach"
	"github.com/thoughtgate/thoughtgated/internal/child"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/private"
	"github.com/thoughtgate/thoughtgated/internal/proc"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Times are timeouts.
type Times struct {
	// Reattach is how long to wait for a daemon before the configured value is known.
	Reattach time.Duration
	// DrainTimeout is how long the daemon may take to deliver pending output to the agent after
	// the server has ended.
	DrainTimeout time.Duration
	// SignalTimeout is how long the report of a signal may take. Clients send SIGKILL two seconds
	// after SIGTERM, and the server must have ended by then.
	SignalTimeout time.Duration
	// LastReportTimeout limits the last report, for which nobody waits but tg-shim.
	LastReportTimeout time.Duration
}

// DefaultTimes are the timeouts outside tests.
var DefaultTimes = Times{Reattach: 15 * time.Second, DrainTimeout: 5 * time.Second, SignalTimeout: time.Second, LastReportTimeout: 500 * time.Millisecond}

// releaseDelay is how long the memory of the program is kept: until most servers have started.
const releaseDelay = time.Second

// Options are the settings of the command line and the environment.
type Options struct {
	// Hello is sent to the daemon. Run sets Attachment, Executable and Cwd.
	Hello  attach.Hello
	Socket string // of the daemon
	Times  Times
}

// shim is one run of tg-shim.
type shim struct {
	Options
	line    *daemonConn // to the daemon
	missing error       // why the server's program was not found
	signals chan os.Signal
	pipes   pipes
	drained chan struct{} // closed when the agent has everything, or nobody is left to write it
	status  byte          // exit code where tg-shim started no server; valid once drained is closed
}

// Run runs until the server has ended and all pending output to the agent is written. It uses
// standard input, output and error, and closes the first two.
func Run(o Options) (child.State, error) {
	_ = private.CloseInherited()           // an error leaves open what the agent has handed on
	stopReaping, _ := child.AdoptOrphans() // an error means that orphans of the server are not found
	defer stopReaping()
	s := &shim{Options: o, signals: make(chan os.Signal, 4), drained: make(chan struct{})}
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		if !signal.Ignored(sig) { // whoever started tg-shim may ignore it, as nohup does
			signal.Notify(s.signals, sig)
		}
	}
	defer signal.Stop(s.signals)
	// Writing to an agent that has left must fail, not kill this process. Ignoring SIGPIPE
	// would make the server ignore it too.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := s.introduce(); err != nil {
		return child.State{}, err
	}
	if err := s.pipes.open(); err != nil {
		return child.State{}, err
	}
	defer s.pipes.close()
	return s.run(ctx)
}

// introduce sets the remaining fields of Hello.
func (s *shim) introduce() error {
	h := &s.Hello
	var err error
	if h.Attachment, err = newAttachment(); err != nil {
		return err
	}
	if h.Cwd, err = os.Getwd(); err != nil {
		return fmt.Errorf("find the working directory: %w", err)
	}
	// If the command can't be found, the agent is told when the server is to be started.
	if len(h.Command) > 0 {
		h.Executable, s.missing = child.Resolve(h.Command[0], os.Environ(), "")
	}
	s.line = &daemonConn{attach.Daemon(s.Socket), s.Times.Reattach, make(chan struct{}, 1)}
	return nil
}

// newAttachment returns an unpredictable id. It asks the system: crypto/rand would make each
// tg-shim larger by a tenth.
func newAttachment() (string, error) {
	var id [16]byte
	if err := random(id[:]); err != nil {
		return "", fmt.Errorf("make an id: %w", err)
	}
	return hex.EncodeToString(id[:]), nil
}

func (s *shim) run(ctx context.Context) (child.State, error) {
	welcome, err := s.attach(ctx)
	var refused *attach.Status
	switch {
	case errors.Is(err, errSignalled):
		return child.State{Code: child.ExitInternal}, nil
	case errors.As(err, &refused) && !refused.IsTemporary():
		fmt.Fprintf(os.Stderr, "tg-shim: %s\nServer %q is not started.\n", refused.Message, s.Hello.Server)
		code := mcp.CodeGate
		if refused.Withheld() {
			code = mcp.CodeWithheld
		}
		s.decline(code, "Not executed: "+refused.Message)
		return child.State{Code: child.ExitInternal}, nil
	case err != nil:
		fmt.Fprintf(os.Stderr, "tg-shim: %v\nServer %q is not started: nothing may pass unjudged. Start the daemon with \"tgctl daemon start\", then start the server again.\n", err, s.Hello.Server)
		s.decline(mcp.CodeGate, "Not executed: ThoughtGate's daemon is not there; start it with \"tgctl daemon start\"")
		return child.State{}, nil // the lack of a daemon is not an error of the server
	}
	if err := handOver(); err != nil {
		return child.State{}, err
	}
	s.pipes.closeDaemons()
	defer time.AfterFunc(releaseDelay, proc.ReleaseProgram).Stop()
	go s.awaitDrained() // ends with the pipe, or with the process if the daemon keeps the pipe open
	if !welcome.Start {
		s.pipes.closeServers()
		return s.idle(ctx, ""), nil
	}
	escape := !welcome.RawStderr && term.IsTerminal(unix.Stderr) // a terminal would interpret what the server writes
	server, err := s.start(escape)
	s.pipes.closeServers()
	if err != nil {
		fmt.Fprintf(os.Stderr, "tg-shim: server %q: %v\n", s.Hello.Server, err)
		s.idle(ctx, err.Error())
		return child.State{Code: child.StartExit(err)}, nil
	}
	// The server keeps its own limit. If it dies with a core dump so does this process, whose
	// memory must not be dumped.
	if err := private.NoCore(); err != nil {
		fmt.Fprintf(os.Stderr, "tg-shim: server %q: a crash may leave a core file: %v\n", s.Hello.Server, err)
	}
	return s.serve(ctx, server, escape), nil
}

// start starts the server. If the program was not found when the daemon was told of it, start
// does not search again: nobody has checked what may be there now.
func (s *shim) start(escape bool) (*child.Child, error) {
	command := s.Hello.Command
	switch {
	case len(command) == 0:
		return nil, errors.New("the daemon does not know servers without a command; is it older than tg-shim?")
	case s.missing != nil:
		return nil, s.missing
	}
	spec := child.Spec{
		Command: command[0], Args: command[1:], Env: child.ComposeEnv(os.Environ(), nil, []string{"THOUGHTGATE_*"}),
		Mark:  "THOUGHTGATE_SERVER=" + s.Hello.Attachment,
		Stdin: s.pipes.input.r, Stdout: s.pipes.output.w, Stderr: os.Stderr,
	}
	if escape {
		spec.Stderr = nil
	}
	return child.Start(spec)
}

// decline answers the agent's requests with an error until the agent closes its end or a signal
// arrives: an answer tells an agent more than a closed pipe.
func (s *shim) decline(code int, text string) {
	gone := make(chan struct{})
	go func() { // ends with the agent's input or the process
		defer close(gone)
		reader := wire.NewReader(os.Stdin, wire.MaxMessage)
		var line wire.Line
		for reader.Next(&line) == nil {
			answer := func(id []byte, asks bool) {
				if asks {
					// An agent that no longer reads may still write.
					_, _ = fmt.Fprintf(os.Stdout, "%s\n", mcp.RefuseUnread(id, code, text))
				}
			}
			var e wire.Envelope
			switch {
			case line.TooLong:
			case wire.Read(line.Data, wire.FromAgent, &e) != nil:
				wire.Batch(line.Data, wire.FromAgent, answer)
			default:
				answer(e.ID.Of(line.Data), e.Kind == wire.Request)
			}
		}
	}()
	select {
	case <-gone:
	case <-s.signals:
	}
}

// Leave ends this process as a server has ended: with its exit code, or by the signal that
// ended it. Where a process can't die of that signal, such as the first process of a container,
// the exit code is that of shells.
func Leave(state child.State) {
	if state.Signal != 0 {
		die(state.Signal)
	}
	os.Exit(state.ExitStatus())
}
