package wrap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/sock"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

const (
	// drainTimeout is the timeout for the daemon to drain a session's shims: ten seconds, and some
	// to reply.
	drainTimeout = 15 * time.Second

	// finishTimeout is the timeout for the daemon to record the end of a session.
	finishTimeout = 3 * time.Second
)

// wrapping is one run of wrap.
type wrapping struct {
	*app
	options
	argv    []string // command line of the agent
	id      string   // id of the session
	cwd     string
	shim    string
	agent   agentconf.Agent
	client  *client.Client
	session *client.Session
	plan    agentconf.Governing
	why     string // why files are rewritten although the agent could be configured for one start
	lasting []*agentconf.Protection
	inForce pb.Profile // the profile in force
	applied bool
	signals *signals

	governed   []string        // ids of the servers that the agent would start
	connected  map[string]bool // ids of the servers that attached
	handedOver bool            // an already running instance has taken over
	started    bool            // the agent was started

	follower *follower     // nil until the agent is about to start
	grace    time.Duration // grace period for an agent that was asked to end
	step     func(string)  // called after each step, in tests
}

// newWrapping prepares one run of wrap, which starts argv.
func newWrapping(a *app, o options, argv []string) (*wrapping, error) {
	w := &wrapping{app: a, options: o, argv: argv, connected: map[string]bool{}, grace: agentGrace, step: func(string) {}}
	var err error
	if w.agent, err = agentconf.AgentFor(o.agentType, argv); err != nil {
		return nil, err
	}
	if w.cwd, err = os.Getwd(); err != nil {
		return nil, err
	}
	if w.config, err = connect.Absolute(o.config); err != nil {
		return nil, err
	}
	env := agentconf.Env{Config: w.config}
	w.one = true
	if err := w.choose(w.agent, &env); err != nil {
		return nil, err
	}
	if c := agenthook.Of(w.agent.Name()); env.Tools && c.Once != "" {
		return nil, fmt.Errorf("the hooks of one run would never run: %s; protect it instead: tgctl protect %s", c.Once, w.agent.Name())
	}
	shim, err := a.Sibling("tg-shim")
	if err != nil {
		return nil, err
	}
	// Resolve links: if an upgrade replaces the link's target, this session must keep its own
	// tg-shim.
	if w.shim, err = filepath.EvalSymlinks(shim); err != nil {
		return nil, err
	}
	w.id = agentconf.NewID()
	return w, nil
}

// env returns the environment of the agent, as far as it decides which files the agent reads.
func (w *wrapping) env() agentconf.Env {
	vars := map[string]string{}
	for _, entry := range w.Environ() {
		if name, value, ok := strings.Cut(entry, "="); ok {
			vars[name] = value
		}
	}
	notes := w.DefaultPath(sock.Paths.Rewrites)
	if w.dryRun {
		notes = "" // a dry run leaves what a killed writer left
	}
	env := agentconf.Env{
		InFile: w.rewrite, Notes: notes, Home: vars["HOME"], Cwd: w.cwd, Command: w.argv, Config: w.config, Protections: w.lasting, Socket: w.DefaultPath(sock.Paths.ShimSocket),
		LookupEnv: func(name string) (string, bool) { value, ok := vars[name]; return value, ok },
	}
	_ = w.choose(w.agent, &env) // newWrapping has checked it
	return env
}

// run wraps the agent. Whatever goes wrong, it restores what it changed before it returns.
func (w *wrapping) run(ctx context.Context) error {
	program, err := findAgent(w.argv[0])
	if err != nil && !w.dryRun {
		return err
	}
	if err := w.makePlan(ctx); err != nil {
		return err
	}
	if w.dryRun {
		return w.showDiff()
	}
	// From here on signals are caught, so that nothing is left half done.
	w.signals = catchSignals()
	defer w.signals.release()
	if err := w.plan.Lock(w.id); err != nil {
		return err
	}
	defer w.plan.Unlock()
	w.step("locked")
	how, err := w.govern(ctx, program)
	failed := w.restore()
	w.finish(context.WithoutCancel(ctx), failed == nil)
	if failed != nil {
		return &ui.ExitError{Code: cmp.Or(how.ExitStatus(), ui.ExitOurs), Err: errors.Join(err, failed)}
	}
	if err != nil {
		return err
	}
	return how.err()
}

// govern does everything between locking and restoring the files. As long as there is no agent
// to end first, a signal ends ctx.
func (w *wrapping) govern(ctx context.Context, program string) (ended, error) {
	if err := w.plan.Backup(); err != nil {
		return ended{}, err
	}
	w.step("backed up")
	err := w.open(ctx)
	if err == nil {
		err = w.checkShipped(ctx)
	}
	if sig := w.signals.pending(ctx); sig != nil {
		err = sig
	}
	defer w.drain(context.WithoutCancel(ctx))
	if err != nil {
		return ended{}, err
	}
	if err := w.plan.Apply(); err != nil {
		return ended{}, err
	}
	w.applied = true
	for _, path := range w.plan.Paths() {
		w.detail("rewritten: %s", path)
	}
	w.step("applied")
	w.announce()
	w.follower = w.follow(context.WithoutCancel(ctx))
	defer w.follower.stop()
	return w.runAgent(program)
}

// line returns what is written in front of a server's command.
func (w *wrapping) line(socket string) agentconf.Line {
	return agentconf.Line{Shim: w.shim, Socket: socket, Session: w.id, Profile: w.profile}
}

// drain makes the daemon drain the session.
func (w *wrapping) drain(ctx context.Context) {
	if w.follower != nil {
		w.follower.reportUngoverned()
	}
	if w.session == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	resp, err := w.session.Drain(ctx)
	switch {
	case err != nil:
		w.detail("the daemon did not close the session: %v", err)
	case resp.GetRemaining() > 0:
		w.message("%d servers did not end in time", resp.GetRemaining())
	default:
		w.detail("session %s is closed", w.id[:8])
	}
	if w.started {
		w.warnOfMissing(resp.GetServed() > 0)
	}
	w.step("closed")
}

// finish ends the session. restored says that the files are correct, so that the daemon need
// not check them. Otherwise it could be blocked by the next wrap, which may lock the files
// first and hold the locks as long as it runs.
func (w *wrapping) finish(ctx context.Context, restored bool) {
	if w.client == nil {
		return
	}
	defer w.client.Close()
	if w.session == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, finishTimeout)
	defer cancel()
	if err := w.session.Finish(ctx, restored); err != nil {
		w.detail("end the session at the daemon: %v", err)
	}
}

// restore restores the rewritten files, and prints what a person should know.
func (w *wrapping) restore() error {
	if w.keep && w.applied {
		w.message("not restored: %s; to restore it, run `tgctl unwrap`", display.Text(strings.Join(w.plan.Paths(), ", ")))
		return nil
	}
	reports, err := w.plan.Restore()
	for _, r := range reports {
		switch text := r.String(); {
		case len(r.Notes) > 0:
			w.message("%s: %s", display.Text(r.Path), display.Text(text))
		case text != "":
			w.detail("%s: %s", r.Path, text)
		}
	}
	w.step("restored")
	return err
}
