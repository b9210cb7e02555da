package api

import (
	"context"
	"fmt"
	"os"
	"syscall"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/handover"
	"github.com/thoughtgate/thoughtgated/daemon/session"
	"github.com/thoughtgate/thoughtgated/internal/child"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// relayService serves Relay: what shims hand over goes to the book, once it is known
// who they are and that their server may be started.
type relayService struct {
	pb.UnimplementedRelayServer
	g gateService
}

func (r relayService) Attach(ctx context.Context, req *pb.AttachRequest) (*pb.AttachResponse, error) {
	info, err := infoOf(ctx)
	if err != nil {
		return nil, err
	}
	fds, err := info.descriptors()
	if err != nil {
		return nil, err
	}
	files := handedOver(fds)
	hello, err := r.hello(ctx, req)
	if err != nil {
		files.Close()
		return nil, err
	}
	joined, err := r.g.s.Handed.Attach(ctx, hello, files)
	if err != nil {
		return nil, err
	}
	o := r.g.s.ShimOptions()
	return &pb.AttachResponse{
		Protocol: client.Protocol, Build: r.g.s.Build, Profile: profileTo(joined.Attachment.Profile()),
		Start: !hello.Shared, RawStderr: o.RawStderr, Reattach: durationpb.New(o.Reattach),
	}, nil
}

// hello looks at who attaches, and whether its server may be started.
func (r relayService) hello(ctx context.Context, req *pb.AttachRequest) (*handover.Hello, error) {
	h := &pb.Hello{
		Protocol: req.GetProtocol(), Build: req.GetBuild(), Attachment: req.GetAttachment(), Session: req.GetSession(),
		Server: req.GetServer(), Executable: req.GetExecutable(), Command: req.GetCommand(), Cwd: req.GetCwd(), Profile: req.GetProfile(),
		From: req.GetFrom(), Sets: req.GetSets(), Patience: req.GetPatience(), Extension: req.GetExtension(), Inspects: true,
	}
	if err := checkHello(h); err != nil {
		return nil, err
	}
	who, err := r.g.hello(ctx, h)
	if err != nil {
		return nil, err
	}
	if err := r.g.mayStart(ctx, h, who); err != nil {
		return nil, err
	}
	shared := h.GetExtension() != "" || r.g.s.Policies.Shared(who.Shim.Server, who.Shim.Command)
	who.Shim.Shared = shared
	return &handover.Hello{Hello: who, Shared: shared, Launch: handover.Launch{
		Server: h.GetServer(), Launch: who.Shim.Launch, Executable: h.GetExecutable(), Command: h.GetCommand(),
		Cwd: clean(h.GetCwd()), From: clean(h.GetFrom()), Sets: h.GetSets(),
	}}, nil
}

func handedOver(fds []int) handover.Files {
	file := func(i int, name string) *os.File { return os.NewFile(uintptr(fds[i]), name) }
	return handover.Files{
		AgentInput: file(agentInput, "the agent's input"), AgentOutput: file(agentOutput, "the agent's output"),
		ServerInput: file(serverInput, "the server's input"), ServerOutput: file(serverOutput, "the server's output"),
		Drained: file(drained, "drained"),
	}
}

func (r relayService) Started(ctx context.Context, req *pb.StartedRequest) (*pb.StartedResponse, error) {
	peer, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	return &pb.StartedResponse{}, r.g.s.Handed.Started(ctx, peer, req.GetAttachment(), int(req.GetPid()), req.GetReason())
}

func (r relayService) Signal(ctx context.Context, req *pb.SignalRequest) (*pb.SignalResponse, error) {
	peer, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	return &pb.SignalResponse{}, r.g.s.Handed.Signal(peer, req.GetAttachment())
}

func (r relayService) Ended(ctx context.Context, req *pb.EndedRequest) (*pb.EndedResponse, error) {
	peer, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	if s := req.GetSignal(); s < 0 || s > 127 {
		return nil, fmt.Errorf("there is no signal %d: %w", s, gate.ErrInvalid)
	}
	how := child.State{Code: int(req.GetStatus()), Signal: syscall.Signal(req.GetSignal())}
	return &pb.EndedResponse{}, r.g.s.Handed.Ended(peer, req.GetAttachment(), how)
}

// callerOf is the process that calls.
func callerOf(ctx context.Context) (session.Process, error) {
	p, err := peerOf(ctx)
	if err != nil {
		return session.Process{}, err
	}
	return session.Process{PID: p.PID, Start: p.Start}, nil
}
