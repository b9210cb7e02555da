package daemon

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/agent"
	"github.com/thoughtgate/thoughtgated/daemon/session"
	"github.com/thoughtgate/thoughtgated/internal/beside"
	"github.com/thoughtgate/thoughtgated/internal/proc"
)

// newRuns builds the part that starts headless agents.
func (d *Daemon) newRuns() *agent.Runs {
	o := d.options
	return agent.New(agent.Options{
		Config: func() *config.Config { return d.policies.current.Load().config },
		Open:   d.openRun, Socket: o.Paths.ShimSocket(), Getenv: o.Getenv, Build: o.Build, Logger: d.log,
		Shim: func() (string, error) {
			self, err := os.Executable()
			if err != nil {
				return "", fmt.Errorf("find tg-shim: %w", err)
			}
			return beside.Find(self, "tg-shim")
		},
	})
}

// runSession is the session of a headless run. The run's process has the role of a wrap: its
// descendants belong to the session. To the gate it is a shim too, which submits the requests of
// the agent to its host.
type runSession struct {
	sessions *session.Registry
	session  *session.Session
	joined   *session.Joined
}

// runPatience is longer than any run: a request of the agent to its host is held as long as the run
// lasts, and never parked.
const runPatience = 30 * 24 * time.Hour

// openRun opens the session of a headless run.
func (d *Daemon) openRun(ctx context.Context, s agent.Started) (agent.Session, error) {
	p, err := proc.Look(int32(s.PID))
	if err != nil {
		return nil, fmt.Errorf("inspect its process: %w", err)
	}
	var id [16]byte
	rand.Read(id[:])
	process := p.Process
	opened, err := d.sessions.Open(ctx, process, session.Spec{ID: s.Session, Agent: s.Agent, Command: s.Command, Project: s.Cwd, Headless: true})
	if err != nil {
		return nil, err
	}
	joined, err := d.sessions.Join(ctx, session.Hello{
		Shim: gate.Shim{
			Attachment: hex.EncodeToString(id[:]), Session: s.Session, Project: s.Cwd, Cwd: s.Cwd,
			Server: s.Agent, Launch: s.Launch, Command: s.Command, Patience: runPatience, Host: true,
		},
		Build: d.options.Build, Peer: process, Parent: process, Line: []proc.Process{process},
	}, s.Leave)
	if err != nil {
		d.sessions.Leave(opened)
		return nil, err
	}
	joined.Attachment.Bind(s.Verdict)
	return &runSession{d.sessions, opened, joined}, nil
}

// Judge implements agent.Session.
func (r *runSession) Judge() *gate.Attachment { return r.joined.Attachment }

// Close implements agent.Session. The run's servers have lost their agent; Close waits for them to
// end.
func (r *runSession) Close(ctx context.Context) {
	r.sessions.End(r.joined, "left", "")
	// The errors are ignored: a closed session and shims that did not leave in time are on record.
	_, _, _ = r.sessions.Drain(ctx, r.session.Spec.ID, true)
	r.sessions.Leave(r.session)
}
