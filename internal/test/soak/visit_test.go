package soak

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// wrapRole is the first argument of the test binary when it is a wrap; the control
// socket and the agent's command line follow.
const wrapRole = "soak-wrap"

// wrap opens a session, runs a command in it and closes it, as tgctl wrap does for
// an agent that has no files. It returns the exit status.
func wrap(control string, command []string) int {
	ctx, cancel := context.WithTimeout(context.Background(), rig.Timeout)
	defer cancel()
	raw := make([]byte, 16)
	_, _ = rand.Read(raw)    // it never fails
	project, _ := os.Getwd() // a session without one is refused
	id := hex.EncodeToString(raw)
	session, err := open(ctx, control, &pb.SessionSpec{Id: id, Agent: "soak", Command: command, Project: project})
	if err != nil {
		fmt.Fprintln(os.Stderr, "the wrap of a test:", err)
		return noSession
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "THOUGHTGATE_ACTIVE=1", "THOUGHTGATE_SESSION="+id)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	_ = cmd.Run() // the status is in ProcessState
	ctx, cancel = context.WithTimeout(context.Background(), rig.Timeout)
	defer cancel()
	_, _ = session.Close(ctx) // a daemon that was killed meanwhile closes it by itself
	return cmd.ProcessState.ExitCode()
}

// noSession is the status of a wrap that got none.
const noSession = 90

// open opens a session with the daemon that is there, or the next.
func open(ctx context.Context, control string, spec *pb.SessionSpec) (*client.Session, error) {
	for {
		c, err := client.Dial(ctx, client.WithSocket(control))
		if err == nil {
			var s *client.Session
			if s, err = c.OpenSession(ctx, spec); err == nil {
				return s, nil // the client ends with the process
			}
			c.Close()
		}
		if ctx.Err() != nil || !errors.Is(err, client.ErrNotRunning) {
			return nil, err
		}
		time.Sleep(moment)
	}
}

// visit is an agent that comes, calls a few times and goes in one of several ways,
// half of them wrapped.
func (w *world) visit(n int) (err error) {
	tb := &stay{TB: w.T}
	defer tb.end()
	server, o := fmt.Sprint("visited", n%5), rig.Options{}
	if n%3 == 0 {
		server = sharedServer
	}
	if n%2 == 0 {
		o.Before = []string{w.self, wrapRole, w.control()}
		w.count("sessions", 1)
	}
	blows := w.blows.Load()
	defer func() {
		// A shim that is just being started when the daemon is killed may leave.
		if err != nil && errors.Is(err, errEnded) && w.blows.Load() != blows {
			w.count("visits ended by a restart", 1)
			err = nil
		}
	}()
	c, err := w.join(tb, fmt.Sprint("visit", n), server, o)
	if err != nil {
		return err
	}
	for range 5 {
		if err := c.echo("calls answered", 200, 200); err != nil {
			return err
		}
	}
	w.count("visits", 1)
	switch way := n / 6 % 4; {
	case way == 0 && !c.shared:
		return c.crash()
	case way == 1: // it dies
		c.shim.Signal(syscall.SIGKILL)
		c.shim.Wait(patience)
		return nil
	case way == 2: // it leaves while a question of its own is open
		_, err := c.call(toolHeldCancel, 10, 10)
		c.rest(moment)
		c.shim.HangUp()
		return err
	}
	return c.leave()
}

// stay is a test within the run: what it was to clean up is cleaned up at its end,
// not with all that came before and after at the end of the run.
type stay struct {
	testing.TB
	clean []func()
}

// Cleanup has f called by end.
func (s *stay) Cleanup(f func()) { s.clean = append(s.clean, f) }

func (s *stay) end() {
	for i := range s.clean {
		s.clean[len(s.clean)-1-i]()
	}
}
