package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/proc"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// peerCredentials hands the kernel's word on who is at the other end of a
// connection to the calls that come over it, and the descriptors that came with it.
// The listener has looked at the uid already.
type peerCredentials struct {
	arrivals *arrivals // nil where no descriptors are taken in
}

// peerInfo is who a connection belongs to.
type peerInfo struct {
	credentials.CommonAuthInfo
	peer   *sock.Peer
	seen   *seen
	passed *sock.Passed // nil where no descriptors came
}

// seen is what was found out about the process at the other end of a connection
// while it could be looked at. It does not change afterwards: what an environment
// was is known when a program begins, and a program begins once. What a process
// descends from is not kept, and looked at each time.
type seen struct {
	mu     sync.Mutex // guards what follows
	passed bool       // nothing spoke against it
	exe    string     // its program, then
}

func (peerInfo) AuthType() string { return "so_peercred" }

// ServerHandshake has the time that the server gives to new connections, which has
// set their deadline.
func (p peerCredentials) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if a, ok := c.(*arrival); ok {
		a.taken()
	}
	var passed *sock.Passed
	if from, ok := c.(*sock.Conn); ok && p.arrivals != nil {
		var err error
		if passed, err = p.arrivals.receive(from); err != nil {
			return nil, nil, err // and the server closes c
		}
	}
	known, ok := c.(interface{ Peer() *sock.Peer })
	if !ok {
		return nil, nil, errors.New("a connection whose peer is not known")
	}
	return c, peerInfo{
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
		peer:           known.Peer(), seen: &seen{}, passed: passed,
	}, nil
}

func (peerCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are a server's")
}

func (peerCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "so_peercred"}
}

func (p peerCredentials) Clone() credentials.TransportCredentials { return p }

func (peerCredentials) OverrideServerName(string) error { return nil }

func infoOf(ctx context.Context) (peerInfo, error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return peerInfo{}, errors.New("a call without a peer")
	}
	info, ok := p.AuthInfo.(peerInfo)
	if !ok {
		return peerInfo{}, errors.New("a call whose peer is not known")
	}
	return info, nil
}

func peerOf(ctx context.Context) (*sock.Peer, error) {
	info, err := infoOf(ctx)
	return info.peer, err
}

// lineOf returns the caller's process and its ancestors, nearest first. It is
// an error when the caller has ended meanwhile: its pid proves nothing then.
func lineOf(ctx context.Context) ([]proc.Process, error) {
	line, _, err := lineAndPrograms(ctx)
	return line, err
}

// lineAndPrograms is lineOf with the program that each of them runs, empty for the
// caller and where it may not be seen.
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
		return nil, nil, fmt.Errorf("look at the calling process %d: %w: %w", p.PID, err, gate.ErrForbidden)
	}
	line, programs := []proc.Process{p.Process}, []string{""}
	for _, a := range ancestors {
		line, programs = append(line, a.Process), append(programs, a.Exe)
	}
	return line, programs, nil
}
