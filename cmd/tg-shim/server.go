package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/thoughtgate/thoughtgated/internal/child"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// server is what lines are carried to and from: a child of ours, or a way to one
// that the daemon shares.
type server interface {
	Stdin() io.Writer
	Stdout() io.Reader
	Stderr() io.Reader
	// Done is closed when the server has gone.
	Done() <-chan struct{}
	// Wait returns how it went, once it has.
	Wait() ending
	// Stop makes it go, and lets it answer first for as long as grace says. When
	// ctx ends there is no grace left. It returns when the server has gone.
	Stop(ctx context.Context, grace child.Grace)
	// Signal passes a signal on.
	Signal(sig syscall.Signal)
}

// ending is how a server went.
type ending struct {
	status int    // what we leave with
	code   int    // of the error that open requests get
	text   string // of that error
	aloud  bool   // it is said on standard error, too: nobody else would
	ended  pb.Ended
}

// start starts the server, or opens the way to the one that the daemon shares. One
// that was not found when the daemon was told of it is not looked for again:
// nobody has looked at what may be there by now.
func (s *shim) start(l *link) (server, error) {
	if s.missing != nil {
		return nil, s.missing
	}
	if s.extension != "" {
		if !l.stream.Welcome().GetShared() {
			return nil, errors.New("the daemon does not offer the tools of extensions; is it older than tg-shim?")
		}
		return l.share(nil), nil
	}
	env := child.ComposeEnv(os.Environ(), nil, []string{"THOUGHTGATE_*"})
	if l.stream.Welcome().GetShared() {
		return l.share(env), nil
	}
	c, err := child.Start(child.Spec{
		Command: s.command[0], Args: s.command[1:], Env: env,
		Mark: "THOUGHTGATE_SERVER=" + l.hello.GetAttachment(), DeathSignal: syscall.SIGTERM,
	})
	if err != nil {
		return nil, err
	}
	l.announce(c.PID())
	return own{c}, nil
}

// own is a server that is a child of ours.
type own struct{ child *child.Child }

func (o own) Stdin() io.Writer                            { return o.child.Stdin() }
func (o own) Stdout() io.Reader                           { return o.child.Stdout() }
func (o own) Stderr() io.Reader                           { return o.child.Stderr() }
func (o own) Done() <-chan struct{}                       { return o.child.Done() }
func (o own) Stop(ctx context.Context, grace child.Grace) { o.child.Stop(ctx, grace) }
func (o own) Signal(sig syscall.Signal)                   { _ = o.child.Signal(sig) } // it may have ended

func (o own) Wait() ending {
	state, ended := o.child.Wait(), pb.Ended_ENDED_EXITED
	if state.Signal != 0 {
		ended = pb.Ended_ENDED_SIGNALLED
	}
	return ending{state.ExitStatus(), mcp.CodeServerExit, "The MCP server has ended (" + state.String() + ") and did not answer", false, ended}
}

// Stderr has nothing to read: the daemon keeps what a shared server says there.
func (r *remote) Stderr() io.Reader { return strings.NewReader("") }

// Signal does nothing: others use the server, too.
func (r *remote) Signal(syscall.Signal) {}

func (r *remote) Stdin() io.Writer      { return r }
func (r *remote) Stdout() io.Reader     { return r }
func (r *remote) Done() <-chan struct{} { return r.done }

func (r *remote) Wait() ending {
	<-r.done
	r.mu.Lock()
	defer r.mu.Unlock()
	g := r.gone
	switch {
	case g == nil: // we have left it
		return ending{0, mcp.CodeServerExit, "ThoughtGate has left the shared MCP server, which did not answer", false, pb.Ended_ENDED_UNSPECIFIED}
	case !g.GetStarted():
		return ending{int(g.GetStatus()), mcp.CodeServerStart, "The MCP server could not be started: " + g.GetReason(), true, pb.Ended_ENDED_UNSPECIFIED}
	}
	return ending{int(g.GetStatus()), mcp.CodeServerExit,
		fmt.Sprintf("The shared MCP server is not there any more (%s) and did not answer", g.GetReason()), true, pb.Ended_ENDED_UNSPECIFIED}
}
