package daemon

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/agent"
	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/session"
	"github.com/thoughtgate/thoughtgated/internal/beside"
	"github.com/thoughtgate/thoughtgated/internal/proc"
)

// newRuns builds what starts agents headless.
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

// runSession is a headless run among the sessions. Its process is what a wrap is to
// other sessions: what descends from it belongs to it. And it is what a shim is to
// the gate: it submits what the agent asks of its host.
type runSession struct {
	sessions *session.Registry
	session  *session.Session
	joined   *session.Joined
}

// runPatience is longer than any run: what its agent asks for waits as long as it
// lasts, and is never put off to be asked for again.
const runPatience = 30 * 24 * time.Hour

// openRun makes a headless run a session.
func (d *Daemon) openRun(ctx context.Context, s agent.Started) (agent.Session, error) {
	p, err := proc.Look(int32(s.PID))
	if err != nil {
		return nil, fmt.Errorf("look at its process: %w", err)
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

// Close implements agent.Session. The run's servers have lost their agent, and are
// waited for.
func (r *runSession) Close(ctx context.Context) {
	r.sessions.End(r.joined, "left", "")
	// That it is not there any more, or that some did not leave in time, is on record.
	_, _, _ = r.sessions.Drain(ctx, r.session.Spec.ID, true)
	r.sessions.Leave(r.session)
}
