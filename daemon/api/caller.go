package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/proc"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// peerCredentials passes the kernel's information about the process at the other end of a
// connection to the calls on it, and the descriptors that were sent with it. The listener has
// checked the uid.
type peerCredentials struct {
	arrivals *arrivals // nil if descriptors are not received
}

// peerInfo describes the process at the other end of a connection.
type peerInfo struct {
	credentials.CommonAuthInfo
	peer   *sock.Peer
	seen   *seen
	passed *sock.Passed // nil if no descriptors were sent
}

// seen is what was found out about the process at the other end of a connection while it could be
// inspected. It stays valid: the environment is fixed when a program starts. The ancestors of the
// process are not kept; they are looked up each time.
type seen struct {
	mu     sync.Mutex // guards the fields below
	passed bool       // a check found nothing against the process
	exe    string     // its program at that time
}

func (peerInfo) AuthType() string { return "so_peercred" }

// ServerHandshake is bounded by the server's timeout for new connections, which is set as the
// connection's deadline.
func (p peerCredentials) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if a, ok := c.(*arrival); ok {
		a.taken()
	}
	var passed *sock.Passed
	if from, ok := c.(*sock.Conn); ok && p.arrivals != nil {
		var err error
		if passed, err = p.arrivals.receive(from); err != nil {
			return nil, nil, err // the server closes c
		}
	}
	known, ok := c.(interface{ Peer() *sock.Peer })
	if !ok {
		return nil, nil, errors.New("a connection with an unknown peer")
	}
	return c, peerInfo{
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
		peer:           known.Peer(), seen: &seen{}, passed: passed,
	}, nil
}

func (peerCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are for servers")
}

func (peerCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "so_peercred"}
}

func (p peerCredentials) Clone() credentials.TransportCredentials { return p }

func (peerCredentials) OverrideServerName(string) error { return nil }

func infoOf(ctx context.Context) (peerInfo, error) {
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(peerInfo); ok {
			return info, nil
		}
	}
	return peerInfo{}, errors.New("a call with an unknown peer")
}

func peerOf(ctx context.Context) (*sock.Peer, error) {
	info, err := infoOf(ctx)
	return info.peer, err
}

// lineOf returns the caller's process and its ancestors, nearest first. It fails if the caller has
// ended, since its pid then proves nothing.
func lineOf(ctx context.Context) ([]proc.Process, error) {
	line, _, err := lineAndPrograms(ctx)
	return line, err
}

// lineAndPrograms is lineOf with the program of each process. The program is empty for the caller
// and for processes whose program can't be seen.
func lineAndPrograms(ctx context.Context) ([]proc.Process, []string, error) {
	p, err := peerOf(ctx)
	if err != nil {
		return nil, nil, err
	}
	ancestors, err := proc.Ancestors(p.PID)
	if err == nil && !p.Alive() {
		err = errors.New("it has ended")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("inspect the calling process %d: %w: %w", p.PID, err, gate.ErrForbidden)
	}
	line, programs := []proc.Process{p.Process}, []string{""}
	for _, a := range ancestors {
		line, programs = append(line, a.Process), append(programs, a.Exe)
	}
	return line, programs, nil
}

// caller is what the kernel shows about the process that makes a call, and about its ancestors.
type caller struct {
	proc.Info
	line   []proc.Process // the process and its ancestors, nearest first
	above  []proc.Info
	groups []string     // see cgroups; nil until first used
	seen   *record.Peer // what is recorded
	known  bool         // it passed a check on this connection before, and may hide its memory since
}

// inspectCaller inspects the calling process. All the information is about one process, which is still
// alive: a caller that has ended proves nothing. If look fails, it returns what it could see with
// the error.
func inspectCaller(ctx context.Context) (*caller, error) {
	info, err := infoOf(ctx)
	if err != nil {
		return &caller{}, err
	}
	p := info.peer
	c := &caller{
		Info: proc.Info{Process: p.Process},
		line: []proc.Process{p.Process},
		seen: &record.Peer{UID: p.UID, PID: p.PID, Start: p.Start, Handle: p.File() != nil},
	}
	err = c.read()
	info.seen.mu.Lock()
	if c.known = info.seen.passed; c.known && c.Exe == "" {
		c.Exe, c.seen.Exe = info.seen.exe, info.seen.exe
	}
	info.seen.mu.Unlock()
	if err == nil && !p.Alive() {
		err = errors.New("it has ended")
	}
	if err != nil {
		return c, fmt.Errorf("inspect the calling process %d: %w: %w", p.PID, err, gate.ErrForbidden)
	}
	return c, nil
}

// read gets everything that is recorded from the system.
func (c *caller) read() error {
	p, err := proc.Look(c.PID)
	if err != nil {
		return err
	}
	if p.Process != c.Process {
		return errors.New("its pid belongs to another process now")
	}
	c.Info = p
	c.seen.Exe, c.seen.TTY = p.Exe, p.TTY
	if p.Foreground != 0 {
		c.seen.Foreground = named(p.Foreground)
	}
	if c.seen.Cgroup, err = proc.Cgroup(p.PID); err != nil {
		return err
	}
	if c.above, err = proc.Ancestors(p.PID); err != nil {
		return err
	}
	for _, a := range c.above {
		c.line = append(c.line, a.Process)
		c.seen.Above = append(c.seen.Above, nameOfProcess(a))
	}
	return nil
}

// named returns the pid and program of a process for the record. For a process that has ended it
// returns only the pid.
func named(pid int32) string {
	p, err := proc.Look(pid)
	if err != nil {
		return fmt.Sprint(pid)
	}
	return nameOfProcess(p)
}

// nameOfProcess returns the pid and the program's path, or the process's own name if the path can't
// be seen.
func nameOfProcess(p proc.Info) string {
	name := p.Exe
	if name == "" {
		name = "(" + p.Name + ")"
	}
	return fmt.Sprintf("%d %s", p.PID, name)
}

// who describes the caller in one line.
func (c *caller) who() string {
	who := fmt.Sprintf("pid %d %s", c.PID, c.Exe)
	if c.TTY != "" {
		who += " on " + c.TTY
	}
	return who
}

// decider checks that the caller may decide or loosen something, and returns who it is. An agent
// may not, nor any process below one (SECURITY.md, level watch). A refusal is recorded. With the
// returned context, each record that names the caller includes what the kernel showed about it.
func (s *Server) decider(ctx context.Context, what string) (context.Context, string, error) {
	c, err := inspectCaller(ctx)
	why := ""
	if err != nil {
		why = err.Error()
	} else if why = s.suspect(c); why != "" {
		err = fmt.Errorf("%w for agents: %s; use a terminal that no agent has started", gate.ErrForbidden, why)
	}
	if err != nil {
		s.refused(ctx, c, what, why)
		return ctx, "", fmt.Errorf("%s: %w", what, err)
	}
	if err := markCallerPassed(ctx, c); err != nil {
		return ctx, "", err
	}
	return gate.WithCaller(ctx, c.who(), c.seen), c.who(), nil
}

// markCallerPassed notes on the connection that the caller passed a check.
func markCallerPassed(ctx context.Context, c *caller) error {
	info, err := infoOf(ctx)
	if err != nil {
		return err
	}
	info.seen.mu.Lock()
	defer info.seen.mu.Unlock()
	info.seen.passed, info.seen.exe = true, c.Exe
	return nil
}

// atTerminal is like decider, and also requires that the caller has a terminal.
func (s *Server) atTerminal(ctx context.Context, what string) (context.Context, string, error) {
	ctx, who, err := s.decider(ctx, what)
	if err != nil {
		return ctx, "", err
	}
	c, err := inspectCaller(ctx)
	if err == nil && c.TTY == "" {
		s.refused(ctx, c, what, "it has no terminal")
		err = fmt.Errorf("%w for a program without a terminal", gate.ErrForbidden)
	}
	if err != nil {
		return ctx, "", fmt.Errorf("%s: %w", what, err)
	}
	return ctx, who, nil
}

// refused logs and records that a caller was refused.
func (s *Server) refused(ctx context.Context, c *caller, what, why string) {
	s.Logger.Warn("caller refused", "what", what, "caller", c.who(), "reason", why)
	err := s.Recorder.Record(context.WithoutCancel(ctx), &record.Record{
		Kind: record.KindDenied, Verdict: "deny", Decider: c.who(), Peer: c.seen, Reason: what + ": " + why,
	}, nil, nil)
	if err != nil {
		s.Logger.Error("record the refusal", "err", err)
	}
}

// surfaceOf returns the surface of an answer by who. It is the client's claim, with one exception
// that the kernel can check: a process without a terminal is not on the terminal surface.
func surfaceOf(ctx context.Context, who, claimed string) string {
	if p := gate.PeerOf(ctx, who); claimed == string(config.SurfaceTerminal) && (p == nil || p.TTY == "") {
		return string(config.SurfaceScript)
	}
	return claimed
}
