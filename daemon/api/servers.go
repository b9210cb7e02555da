package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/handover"
	"github.com/thoughtgate/thoughtgated/daemon/pin"
	"github.com/thoughtgate/thoughtgated/daemon/session/trust"
	"github.com/thoughtgate/thoughtgated/internal/child"
	"github.com/thoughtgate/thoughtgated/internal/proc"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// serversService implements the Servers service.
type serversService struct {
	pb.UnimplementedServersServer
	s *Server
}

func (v serversService) List(context.Context, *pb.ListServersRequest) (*pb.ListServersResponse, error) {
	return &pb.ListServersResponse{Servers: each(v.s.Pins.Servers(), func(s pin.Server) *pb.Server {
		return &pb.Server{
			Id: s.ID, Launch: s.Launch, Command: s.Command, First: momentTo(s.First), Seen: momentTo(s.Seen),
			New: s.New, Decider: s.Decider, Pins: uint32(s.Pins), Waiting: uint32(s.Waiting),
		}
	})}, nil
}

func (v serversService) Accept(ctx context.Context, req *pb.AcceptServerRequest) (*pb.AcceptServerResponse, error) {
	ctx, who, err := v.s.decider(ctx, fmt.Sprintf("accepting the server %q", req.GetId()))
	if err != nil {
		return nil, err
	}
	n, err := v.s.Pins.AcceptServer(ctx, req.GetId(), req.GetLaunch(), pin.By{Decider: who, Surface: req.GetSurface()})
	return &pb.AcceptServerResponse{Accepted: uint32(n)}, err
}

// mayStart checks that the shim may start its server, or that the daemon may connect to it. It reads the
// environment of the shim, which the server will inherit, from the kernel.
func (g gateService) mayStart(ctx context.Context, h *handover.Hello) error {
	l := &h.Launch
	var err error
	if h.Shim.Remote {
		h.Shim.Command, err = g.s.Remote(ctx, &h.Hello, l)
		h.Shim.Launch = gate.Launch(h.Shim.Command)
		l.Launch = h.Shim.Launch
	} else {
		var env []string
		if env, err = proc.Environ(h.Peer.PID); err != nil {
			return fmt.Errorf("read the environment of tg-shim: %w: %w", err, gate.ErrForbidden)
		}
		_, err = g.s.Trust.Judge(ctx, trust.Launch{
			Server: l.Server, From: l.From, Cwd: l.Cwd, Program: l.Executable, Command: l.Command, Sets: l.Sets, Env: env,
		})
	}
	if errors.Is(err, gate.ErrWithheld) {
		g.s.Logger.Warn("a server is withheld", "server_id", l.Server, "reason", err.Error())
		return fmt.Errorf("server %q is %w", l.Server, err)
	}
	return err
}

func absoluteOrNone(path string) bool { return path == "" || filepath.IsAbs(path) }

func clean(path string) string {
	if path == "" {
		return ""
	}
	return filepath.Clean(path)
}

func (v serversService) Look(ctx context.Context, req *pb.LookRequest) (*pb.LookResponse, error) {
	remotes, err := remotesOf(given(req.GetRemote()))
	if err != nil {
		return nil, err
	}
	if (len(req.GetCommand()) == 0) == (len(remotes) == 0) || req.GetServer() == "" || !filepath.IsAbs(req.GetFrom()) || !filepath.IsAbs(req.GetCwd()) {
		return nil, fmt.Errorf("inspect server %q: it needs a name, a command, and absolute paths: %w", req.GetServer(), gate.ErrInvalid)
	}
	p, err := peerOf(ctx)
	if err != nil {
		return nil, err
	}
	own, err := proc.Environ(p.PID)
	if err != nil {
		return nil, fmt.Errorf("read the environment of the caller: %w: %w", err, gate.ErrForbidden)
	}
	l := trust.Launch{
		Server: req.GetServer(), From: clean(req.GetFrom()), Cwd: clean(req.GetCwd()), Command: req.GetCommand(),
		Sets: slices.Sorted(maps.Keys(req.GetSets())), Env: child.ComposeEnv(own, req.GetSets(), nil),
	}
	if len(remotes) > 0 {
		l.Remote, l.Command = &remotes[0], remotes[0].Helper
	}
	// A missing program needs no acceptance. The agent gets an error when it starts the server.
	if len(l.Command) > 0 {
		l.Program, _ = child.Resolve(l.Command[0], l.Env, l.Cwd)
	}
	k, err := v.s.Trust.Look(ctx, l)
	if k == nil || err != nil {
		return &pb.LookResponse{}, err
	}
	return &pb.LookResponse{Start: startTo(k)}, nil
}

// given returns the servers behind an address that a request has: one or none.
func given(r *pb.RemoteServer) []*pb.RemoteServer {
	if r == nil {
		return nil
	}
	return []*pb.RemoteServer{r}
}

func (v serversService) ListStarts(context.Context, *pb.ListStartsRequest) (*pb.ListStartsResponse, error) {
	starts := each(v.s.Trust.List(), func(k trust.Kept) *pb.ServerStart { return startTo(&k) })
	return &pb.ListStartsResponse{Starts: starts}, nil
}

func (v serversService) AcceptStart(ctx context.Context, req *pb.AcceptStartRequest) (*pb.ServerStart, error) {
	ctx, who, err := v.s.decider(ctx, fmt.Sprintf("accepting the start of the server %q", req.GetServer()))
	if err != nil {
		return nil, err
	}
	k, err := v.s.Trust.Accept(ctx, trust.Name{Project: req.GetProject(), Server: req.GetServer(), Digest: req.GetDigest()},
		trust.By{Decider: who, Surface: req.GetSurface()})
	if err != nil {
		return nil, err
	}
	return startTo(k), nil
}

func (v serversService) ForgetStart(ctx context.Context, req *pb.ForgetStartRequest) (*pb.ForgetStartResponse, error) {
	ctx, who, err := v.s.decider(ctx, fmt.Sprintf("forgetting the accepted start of the server %q", req.GetServer()))
	if err != nil {
		return nil, err
	}
	err = v.s.Trust.Forget(ctx, trust.Name{Project: req.GetProject(), Server: req.GetServer(), Digest: req.GetDigest()},
		trust.By{Decider: who, Surface: req.GetSurface()})
	return &pb.ForgetStartResponse{}, err
}

func startTo(k *trust.Kept) *pb.ServerStart {
	m := &pb.ServerStart{
		Digest: k.Digest[:], Server: k.Server, Project: k.Project, From: k.From, Command: k.Command, Sets: k.Sets,
		Alarms: k.Alarms, Gaps: k.Gaps, Noticed: momentTo(k.Noticed), Accepted: momentTo(k.Accepted), Decider: k.Decider,
	}
	if r := k.Remote; r != nil {
		m.Remote = &pb.RemoteStart{Host: r.Host, Headers: r.Headers, Variables: r.Variables, Terms: r.Terms}
	}
	for _, l := range k.Loaders {
		m.Loaders = append(m.Loaders, &pb.StartLoader{Name: l.Name, Value: l.Value})
	}
	for _, f := range k.Files {
		m.Files = append(m.Files, &pb.StartFile{Role: string(f.Role), Path: f.Path, Digest: f.Digest})
	}
	return m
}
