package api

import (
	"context"
	"fmt"
	"os"
	"syscall"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/handover"
	"github.com/thoughtgate/thoughtgated/daemon/hook"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/offer"
	"github.com/thoughtgate/thoughtgated/daemon/session"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/child"
	"github.com/thoughtgate/thoughtgated/internal/proc"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// gateService implements the Gate service. It identifies the shim, checks that its server may be
// started, and passes the shim's descriptors to Handed.
type gateService struct {
	pb.UnimplementedGateServer
	s *Server
}

func (g gateService) Attach(ctx context.Context, req *pb.AttachRequest) (*pb.AttachResponse, error) {
	info, err := infoOf(ctx)
	if err != nil {
		return nil, err
	}
	fds, err := info.descriptors()
	if err != nil {
		return nil, err
	}
	files := handedOver(fds)
	hello, err := g.hello(ctx, req)
	if err != nil {
		files.Close()
		return nil, err
	}
	joined, err := g.s.Handed.Attach(ctx, hello, files)
	if err != nil {
		return nil, err
	}
	o := g.s.Policies.Options()
	return &pb.AttachResponse{
		Protocol: client.Protocol, Build: g.s.Build, Profile: profileTo(joined.Attachment.Profile()),
		Start: !hello.InMemory, RawStderr: o.Stderr == config.StderrRaw, Reattach: durationpb.New(o.Reattach),
	}, nil
}

func handedOver(fds []int) handover.Files {
	file := func(i int, name string) *os.File { return os.NewFile(uintptr(fds[i]), name) }
	return handover.Files{
		AgentInput: file(agentInput, "the agent's input"), AgentOutput: file(agentOutput, "the agent's output"),
		ServerInput: file(serverInput, "the server's input"), ServerOutput: file(serverOutput, "the server's output"),
		Drained: file(drained, "drained"),
	}
}

// hello describes the process that attaches, and checks that its server may be started.
func (g gateService) hello(ctx context.Context, req *pb.AttachRequest) (*handover.Hello, error) {
	if err := checkAttach(req); err != nil {
		return nil, err
	}
	line, programs, err := lineAndPrograms(ctx)
	if err != nil {
		return nil, err
	}
	if req.GetBuild() != g.s.Build {
		g.s.Logger.Warn("a tg-shim of another build has attached", "server_id", req.GetServer(), "shim", req.GetBuild(), "daemon", g.s.Build)
	}
	all, launch := commandAndLaunch(req)
	hello := &handover.Hello{
		Hello: session.Hello{Build: req.GetBuild(), Peer: line[0], Line: line, Programs: programs, Shim: gate.Shim{
			Attachment: req.GetAttachment(), Session: req.GetSession(), Project: req.GetCwd(), Cwd: req.GetCwd(),
			Server: req.GetServer(), Launch: launch, Command: all, Requested: profileOf[req.GetProfile()],
			Patience: max(0, req.GetPatience().AsDuration()), Remote: req.GetRemote(),
		}},
		Launch: handover.Launch{
			Server: req.GetServer(), Launch: launch, Executable: req.GetExecutable(), Command: req.GetCommand(),
			Cwd: clean(req.GetCwd()), From: clean(req.GetFrom()), Sets: req.GetSets(),
		},
	}
	if len(line) > 1 && !reaper(line[1].PID) {
		hello.Parent = line[1]
	}
	if err := g.mayStart(ctx, hello); err != nil {
		return nil, err
	}
	hello.InMemory = req.GetExtension() != "" || req.GetRemote() || g.s.Policies.Shared(req.GetServer(), all)
	hello.Shim.InMemory = hello.InMemory
	return hello, nil
}

// maxID is the largest id that a shim may choose, in bytes.
const maxID = 128

func checkAttach(req *pb.AttachRequest) error {
	switch {
	case req.GetProtocol() != client.Protocol:
		return wrongProtocol(req.GetBuild(), req.GetProtocol())
	case len(req.GetAttachment()) < 16 || len(req.GetAttachment()) > maxID:
		return fmt.Errorf("the attachment id has %d bytes; it must have 16 to %d: %w", len(req.GetAttachment()), maxID, gate.ErrInvalid)
	case req.GetServer() == "" || len(req.GetServer()) > maxID:
		return fmt.Errorf("the server id has %d bytes; it must have 1 to %d: %w", len(req.GetServer()), maxID, gate.ErrInvalid)
	case req.GetServer() == agenthook.Server:
		return fmt.Errorf("the server id %q stands for the agent's own tools; give the server another name in the agent's configuration: %w", agenthook.Server, gate.ErrInvalid)
	case req.GetExtension() != "" && (req.GetServer() != offer.ID(req.GetExtension()) || len(req.GetCommand()) > 0 || req.GetExecutable() != "" || req.GetFrom() != "" || req.GetRemote()):
		return fmt.Errorf("the tools of an extension have the server id %s and no command: %w", offer.ID(req.GetExtension()), gate.ErrInvalid)
	case req.GetRemote() && (len(req.GetCommand()) > 0 || req.GetExecutable() != ""):
		return fmt.Errorf("a server behind an address has no command: %w", gate.ErrInvalid)
	case !absoluteOrNone(req.GetFrom()) || !absoluteOrNone(req.GetExecutable()) || !absoluteOrNone(req.GetCwd()):
		return fmt.Errorf("a path of the request is not absolute: %w", gate.ErrInvalid)
	}
	return nil
}

func wrongProtocol(build string, protocol uint32) error {
	return fmt.Errorf("tg-shim (%s) uses protocol %d, the daemon protocol %d; install both from one release and restart the daemon: %w",
		build, protocol, client.Protocol, gate.ErrVersion)
}

// commandAndLaunch returns the resolved command line, to which policies tie server ids, and what
// identifies what is started under a server id, or the extension whose tools have it.
func commandAndLaunch(req *pb.AttachRequest) (command []string, launch string) {
	if req.GetExtension() != "" {
		return offer.Command(req.GetExtension()), offer.Launch(req.GetExtension())
	}
	all := append([]string(nil), req.GetCommand()...)
	if len(all) > 0 && req.GetExecutable() != "" {
		all[0] = req.GetExecutable()
	}
	return all, gate.Launch(all)
}

func (g gateService) Started(ctx context.Context, req *pb.StartedRequest) (*pb.StartedResponse, error) {
	peer, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	return &pb.StartedResponse{}, g.s.Handed.Started(ctx, peer, req.GetAttachment(), int(req.GetPid()), req.GetReason())
}

func (g gateService) Signal(ctx context.Context, req *pb.SignalRequest) (*pb.SignalResponse, error) {
	peer, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	return &pb.SignalResponse{}, g.s.Handed.Signal(peer, req.GetAttachment())
}

func (g gateService) Ended(ctx context.Context, req *pb.EndedRequest) (*pb.EndedResponse, error) {
	peer, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	if s := req.GetSignal(); s < 0 || s > 127 {
		return nil, fmt.Errorf("unknown signal %d: %w", s, gate.ErrInvalid)
	}
	how := child.State{Code: int(req.GetStatus()), Signal: syscall.Signal(req.GetSignal())}
	return &pb.EndedResponse{}, g.s.Handed.Ended(peer, req.GetAttachment(), how)
}

func (g gateService) Hook(ctx context.Context, req *pb.HookRequest) (*pb.HookResponse, error) {
	if req.GetProtocol() != client.Protocol {
		return nil, wrongProtocol(req.GetBuild(), req.GetProtocol())
	}
	line, programs, err := lineAndPrograms(ctx)
	if err != nil {
		return nil, err
	}
	out, err := g.s.AgentHooks.Handle(ctx, hook.Request{
		Agent: req.GetAgent(), Event: req.GetEvent(), Session: req.GetSession(), Cwd: clean(req.GetCwd()), Patience: max(0, req.GetPatience().AsDuration()),
		Build: req.GetBuild(), Line: line, Programs: programs,
	})
	if err != nil {
		return nil, err
	}
	return &pb.HookResponse{Stdout: out.Stdout, Stderr: out.Stderr, Status: int32(out.Status)}, nil
}

// callerOf returns the process that makes the call.
func callerOf(ctx context.Context) (proc.Process, error) {
	p, err := peerOf(ctx)
	if err != nil {
		return proc.Process{}, err
	}
	return p.Process, nil
}

var profileOf = map[pb.Profile]gate.Profile{
	pb.Profile_PROFILE_PRODUCTION: gate.Production, pb.Profile_PROFILE_DEVELOPMENT: gate.Development,
}

func profileTo(p gate.Profile) pb.Profile {
	if p == gate.Development {
		return pb.Profile_PROFILE_DEVELOPMENT
	}
	return pb.Profile_PROFILE_PRODUCTION
}
