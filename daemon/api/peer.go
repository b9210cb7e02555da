package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/session"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// peerCredentials hands the kernel's word on who is at the other end of a
// connection to the calls that come over it. The listener has looked at the
// uid already.
type peerCredentials struct{}

// peerInfo is who a connection belongs to.
type peerInfo struct {
	credentials.CommonAuthInfo
	peer *sock.Peer
}

func (peerInfo) AuthType() string { return "so_peercred" }

func (peerCredentials) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	known, ok := c.(interface{ Peer() *sock.Peer })
	if !ok {
		return nil, nil, errors.New("a connection whose peer is not known")
	}
	return c, peerInfo{
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
		peer:           known.Peer(),
	}, nil
}

func (peerCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are a server's")
}

func (peerCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "so_peercred"}
}

func (peerCredentials) Clone() credentials.TransportCredentials { return peerCredentials{} }

func (peerCredentials) OverrideServerName(string) error { return nil }

func peerOf(ctx context.Context) (*sock.Peer, error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil, errors.New("a call without a peer")
	}
	info, ok := p.AuthInfo.(peerInfo)
	if !ok {
		return nil, errors.New("a call whose peer is not known")
	}
	return info.peer, nil
}

// lineOf returns the caller's process and its ancestors, nearest first. It is
// an error when the caller has ended meanwhile: its pid proves nothing then.
func lineOf(ctx context.Context) ([]session.Process, error) {
	p, err := peerOf(ctx)
	if err != nil {
		return nil, err
	}
	ancestors, err := sock.Ancestors(p.PID)
	if err == nil && !p.Alive() {
		err = errors.New("it has ended")
	}
	if err != nil {
		return nil, fmt.Errorf("look at the calling process %d: %w: %w", p.PID, err, gate.ErrForbidden)
	}
	line := []session.Process{{PID: p.PID, Start: p.Start}}
	for _, a := range ancestors {
		line = append(line, session.Process{PID: a.PID, Start: a.Start})
	}
	return line, nil
}

// processOf identifies a process and names its parent.
func processOf(pid int32) (session.Process, int32, error) {
	p, err := sock.ProcessOf(pid)
	return session.Process{PID: p.PID, Start: p.Start}, p.PPID, err
}

// marks are variables that only what a wrap has started carries.
var marks = []string{"THOUGHTGATE_ACTIVE=", "THOUGHTGATE_SESSION=", "THOUGHTGATE_SERVER="}

// decider checks that the caller may decide or loosen something, and says who
// it is. An agent may not, nor anything below one (SECURITY.md, level watch).
// A refusal is written down.
func (s *Server) decider(ctx context.Context, what string) (string, error) {
	line, err := lineOf(ctx)
	if err != nil {
		return "", err
	}
	p, err := sock.ProcessOf(line[0].PID)
	if err != nil {
		return "", fmt.Errorf("%s: look at the calling process: %w: %w", what, err, gate.ErrForbidden)
	}
	who := fmt.Sprintf("pid %d %s", p.PID, p.Exe)
	if p.TTY != "" {
		who += " on " + p.TTY
	}
	why := s.Sessions.Agent(line)
	if why == "" {
		why = marked(p.PID)
	}
	if why == "" {
		why = elsewhere(p.PID)
	}
	if why == "" {
		return who, nil
	}
	s.Logger.Warn("refused a caller", "what", what, "caller", who, "reason", why)
	err = s.Recorder.Record(ctx, &record.Record{Kind: record.KindDenied, Verdict: "deny", Decider: who, Reason: what + ": " + why}, nil, nil)
	if err != nil {
		s.Logger.Error("record the refusal", "err", err)
	}
	return "", fmt.Errorf("%s: %w to an agent, and %s; use a terminal that the agent did not start", what, gate.ErrForbidden, why)
}

// marked reports why the environment of a process shows that an agent started it.
func marked(pid int32) string {
	env, err := sock.Environ(pid)
	if err != nil {
		return fmt.Sprintf("its environment can't be read (%v)", err)
	}
	for _, entry := range env {
		for _, mark := range marks {
			if strings.HasPrefix(entry, mark) {
				return "it carries " + strings.TrimSuffix(mark, "=") + " in its environment"
			}
		}
	}
	return ""
}

// elsewhere reports why the caller's own view of who it is can't be trusted.
func elsewhere(pid int32) string {
	same, err := sock.SameUserNamespace(pid)
	switch {
	case err != nil:
		return fmt.Sprintf("its user namespace can't be looked at (%v)", err)
	case !same:
		return "it runs in another user namespace"
	}
	return ""
}
