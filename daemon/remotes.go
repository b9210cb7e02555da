package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/handover"
	"github.com/thoughtgate/thoughtgated/daemon/relay"
	"github.com/thoughtgate/thoughtgated/daemon/remote"
	"github.com/thoughtgate/thoughtgated/daemon/session"
	"github.com/thoughtgate/thoughtgated/daemon/session/trust"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/child"
	"github.com/thoughtgate/thoughtgated/internal/proc"
	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	"github.com/thoughtgate/thoughtgated/internal/uri"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// reached is what is known of a server behind an address when a session is about to use it.
type reached struct {
	agentconf.Remote
	endpoint *agentconf.Endpoint
	identity string   // origin and path
	environ  []string // of the agent; empty if it can't be seen
}

// remoteCommand implements Remote of api.Config.
func (d *Daemon) remoteCommand(ctx context.Context, h *session.Hello, l *handover.Launch) ([]string, error) {
	r, ok := d.sessions.RemoteOf(h)
	if !ok {
		return nil, unknownRemote(h.Shim.Server)
	}
	at, err := d.reach(ctx, r, h.Parent, l)
	if err != nil {
		return nil, err
	}
	return []string{at.identity}, nil
}

func unknownRemote(server string) error {
	return fmt.Errorf("no session that this tg-shim belongs to has the address of server %q: start the agent with `tgctl wrap`, or restore its entry with `tgctl unwrap`: %w", server, gate.ErrNotFound)
}

// reach finds out where a server behind an address is. parent is the agent's process. Nothing is read of its
// environment, or run, before a person has accepted what a project's file says.
func (d *Daemon) reach(ctx context.Context, r agentconf.Remote, parent proc.Process, l *handover.Launch) (*reached, error) {
	at := &reached{Remote: r}
	environ, unseen := environOf(parent)
	launch := trust.Launch{
		Server: l.Server, From: cmp.Or(r.From, l.From), Cwd: l.Cwd, Command: r.Helper, Sets: l.Sets, Env: environ, Remote: &r,
	}
	if len(r.Helper) > 0 {
		launch.Program, _ = child.Resolve(r.Helper[0], environ, l.Cwd) // what is missing is an error when it is run
	}
	if _, err := d.trust.Judge(ctx, launch); err != nil {
		return nil, err
	}
	at.From, at.environ = launch.From, environ
	if names := r.Variables(); len(names) > 0 && unseen != nil {
		return nil, fmt.Errorf("server %q: its entry uses the variable %s of the agent: %w", l.Server, names[0], unseen)
	}
	var err error
	if at.endpoint, err = r.Expand(func(name string) (string, bool) { return child.LookupEnv(environ, name) }); err != nil {
		return nil, err
	}
	address, err := uri.ParseServer(at.endpoint.Address)
	if err != nil {
		return nil, fmt.Errorf("server %q: %w", l.Server, err)
	}
	at.identity = address.Identity()
	return at, nil
}

// environOf returns the environment that the agent's own process was started with.
func environOf(agent proc.Process) ([]string, error) {
	if agent.PID <= 1 {
		return nil, errors.New("its process has ended, or did not start tg-shim itself")
	}
	environ, err := proc.Environ(agent.PID)
	if err != nil {
		return nil, err
	}
	if !agent.Alive() { // otherwise it may be that of another process
		return nil, errors.New("its process has ended")
	}
	return environ, nil
}

// joinRemote connects a session with a server behind an address.
func (d *Daemon) joinRemote(ctx context.Context, s *session.Saved, l *handover.Launch, c relay.Client) (relay.Member, error) {
	server, err := d.remoteServer(ctx, s, l)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", relay.ErrNotStarted, err)
	}
	if server.Authorizer, err = d.logins.attach(*server, s.Shim); err != nil {
		return nil, fmt.Errorf("%w: %w", relay.ErrNotStarted, err)
	}
	if server.Authorizer != nil {
		server.LoginTime = loginTime(s.Shim)
	}
	conn, err := d.network.Open(*server, c)
	if err != nil {
		if server.Authorizer != nil {
			server.Authorizer.Close()
		}
		return nil, fmt.Errorf("%w: %w", relay.ErrNotStarted, err)
	}
	d.remotes.Store(s.Shim.Attachment, conn)
	return &remoteMember{conn, func() { d.remotes.CompareAndDelete(s.Shim.Attachment, conn) }}, nil
}

// remoteMember is a connection whose state is no longer asked for once it is left.
type remoteMember struct {
	*remote.Conn
	forget func()
}

// Leave implements [relay.Member].
func (m *remoteMember) Leave() {
	m.forget()
	m.Conn.Leave()
}

// remoteState implements RemoteState of api.Config.
func (d *Daemon) remoteState(attachment string) (answered bool, failure error) {
	conn, ok := d.remotes.Load(attachment)
	if !ok {
		return false, nil
	}
	return conn.(*remote.Conn).State()
}

// remoteServer returns how the server behind an address of an attachment is reached.
func (d *Daemon) remoteServer(ctx context.Context, s *session.Saved, l *handover.Launch) (*remote.Server, error) {
	r, ok := d.sessions.RemoteOfSaved(s)
	if !ok {
		return nil, unknownRemote(l.Server)
	}
	at, err := d.reach(ctx, r, s.Parent, l)
	if err != nil {
		return nil, err
	}
	if launch := gate.Launch([]string{at.identity}); launch != s.Shim.Launch { // its pins and records are those of another one
		return nil, fmt.Errorf("server %q has another address than when tg-shim was started; restart it", l.Server)
	}
	server := &remote.Server{
		ID: l.Server, Address: at.endpoint.Address, Headers: http.Header{}, Policy: remote.Named, Environ: at.environ, Idempotent: d.idempotent(s),
		Transport: map[agentconf.Transport]remote.Transport{agentconf.HTTP: remote.StreamableHTTP, agentconf.SSE: remote.OldSSE}[r.Transport],
	}
	if at.From != "" {
		server.Policy = remote.PublicOnly
	}
	d.setCertificates(server)
	for _, h := range at.endpoint.Headers {
		server.Headers.Add(h.Name, h.Template)
	}
	if len(r.Helper) > 0 {
		more, err := helperHeaders(ctx, at, l.Cwd)
		if err != nil {
			return nil, fmt.Errorf("server %q: run the command that prints its headers: %w", l.Server, err)
		}
		for name, values := range more {
			server.Headers[name] = values
		}
	}
	for _, name := range []string{"Accept", "Content-Type"} { // the protocol has only one value for them, and entries often have it
		server.Headers.Del(name)
	}
	return server, nil
}

// setCertificates sets the certificates that thoughtgate.yaml names for a server.
func (d *Daemon) setCertificates(server *remote.Server) {
	cfg := d.policies.current.Load().config
	if source := cfg.Source(server.ID); source != nil {
		server.CAFile, server.CertFile, server.KeyFile = nextTo(cfg, source.CAFile), nextTo(cfg, source.CertFile), nextTo(cfg, source.KeyFile)
	}
}

// idempotent returns a function that reports whether a request may be sent twice: thoughtgate.yaml trusts
// the server's annotations, and they say that a second time changes nothing.
func (d *Daemon) idempotent(s *session.Saved) func(line []byte, e *wire.Envelope) bool {
	return func(line []byte, e *wire.Envelope) bool {
		source := d.policies.current.Load().config.Source(s.Shim.Server)
		name, err := wire.Unquote(e.Name, line)
		if e.Method != "tools/call" || source == nil || !source.TrustAnnotations || err != nil {
			return false
		}
		hints, err := rawjson.Members(d.pins.Annotations(&gate.Call{
			Message: gate.Message{Side: wire.FromAgent, Method: e.Method, Subject: name},
			Case:    gate.Case{Attachment: s.Shim.Attachment, Server: s.Shim.Server, Launch: s.Shim.Launch},
		}))
		return err == nil && slices.ContainsFunc(hints, func(m rawjson.Member) bool {
			return (m.Name == "idempotentHint" || m.Name == "readOnlyHint") && string(m.Value) == "true"
		})
	}
}

const (
	helperTimeout  = 10 * time.Second
	maxHelperBytes = 64 << 10
)

// helperHeaders runs the command that prints headers, as a JSON object, in the folder and with the
// environment in which the agent would.
func helperHeaders(ctx context.Context, at *reached, dir string) (http.Header, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, helperTimeout, fmt.Errorf("it has not ended after %s", helperTimeout))
	defer cancel()
	c, err := child.Start(child.Spec{
		Command: at.Helper[0], Args: at.Helper[1:], Dir: dir,
		Env: child.ComposeEnv(at.environ, map[string]string{"CLAUDE_CODE_MCP_SERVER_NAME": at.Server, "CLAUDE_CODE_MCP_SERVER_URL": at.endpoint.Address}, []string{"THOUGHTGATE_*"}),
	})
	if err != nil {
		return nil, err
	}
	_ = c.Stdin().Close() // it gets no input
	stop := context.AfterFunc(ctx, func() { c.Stop(context.Background(), child.Grace{}) })
	defer stop()
	var discarding sync.WaitGroup
	defer discarding.Wait()                                          // ends with Stop
	discarding.Go(func() { _, _ = io.Copy(io.Discard, c.Stderr()) }) // it may say secrets
	text, err := io.ReadAll(io.LimitReader(c.Stdout(), maxHelperBytes+1))
	if err == nil && len(text) <= maxHelperBytes {
		select {
		case <-c.Done():
		case <-ctx.Done():
		}
	}
	state := c.Stop(context.Background(), child.Grace{})
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	case len(text) > maxHelperBytes:
		return nil, fmt.Errorf("it prints more than %d bytes", maxHelperBytes)
	case state.ExitStatus() != 0:
		return nil, fmt.Errorf("it has ended with %s", state)
	}
	members, err := rawjson.Members(text)
	if err != nil {
		return nil, errors.New("it prints no JSON object") // err may quote a secret
	}
	headers := http.Header{}
	for _, m := range members {
		value, err := rawjson.Text(m.Value)
		if err != nil {
			return nil, errors.New("it prints an object whose members are not all texts")
		}
		headers.Add(m.Name, value)
	}
	return headers, nil
}
