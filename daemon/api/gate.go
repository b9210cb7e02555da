package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/daemon/extension/offer"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/metrics"
	"github.com/thoughtgate/thoughtgated/daemon/session"
	"github.com/thoughtgate/thoughtgated/internal/sock"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// gateService serves Gate: it turns what comes up a shim's stream into calls on
// its attachment, and verdicts into what goes down.
type gateService struct {
	pb.UnimplementedGateServer
	s *Server
}

func (g gateService) Attach(stream grpc.BidiStreamingServer[pb.Up, pb.Down]) error {
	ctx := stream.Context()
	up, err := stream.Recv()
	if err != nil {
		return err
	}
	h := up.GetHello()
	if err := checkHello(h); err != nil {
		return toStatus(err)
	}
	hello, err := g.hello(ctx, h)
	if err != nil {
		return toStatus(err)
	}
	if err := g.mayStart(ctx, h, hello); err != nil {
		return toStatus(err)
	}
	out := newOutbox(stream, h.GetTogether())
	shared := g.way(h, hello, out)
	hello.Shim.Shared = shared.way != nil
	joined, number, err := g.s.Sessions.Join(ctx, hello, session.Stream{Verdict: shared.verdict, Deliver: out.deliver, Leave: out.drain})
	if err != nil {
		shared.unused()
		return toStatus(err)
	}
	said := false
	defer func() { g.s.Sessions.Part(joined, number, said) }()
	defer shared.part()
	if err := stream.Send(&pb.Down{Msg: &pb.Down_Welcome{Welcome: shared.welcome(g.welcome(joined))}}); err != nil {
		return err
	}
	var sending sync.WaitGroup
	sending.Go(out.run)
	defer sending.Wait()
	defer out.close()
	said, err = g.listen(ctx, stream, joined, out, shared)
	return err
}

// listen handles what comes up until the stream ends; it reports whether the
// shim said goodbye.
func (g gateService) listen(ctx context.Context, stream grpc.BidiStreamingServer[pb.Up, pb.Down], joined *session.Joined, out *outbox, shared *wayOf) (bool, error) {
	a := joined.Attachment
	receiver := g.s.newReceiver(stream, a.Cancel)
	defer receiver.stop()
	for {
		up, err := receiver.next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return false, err
		}
		switch m := up.GetMsg().(type) {
		case *pb.Up_Submit, *pb.Up_Observe:
			if err := hear(ctx, a, up, out, shared); err != nil {
				return false, toStatus(err)
			}
		case *pb.Up_Cancel:
			a.Cancel(m.Cancel.GetSeq())
			shared.cancelled(m.Cancel.GetSeq())
		case *pb.Up_Started:
			if err := g.started(ctx, joined, m.Started.GetPid()); err != nil {
				return false, toStatus(err)
			}
		case *pb.Up_Exit:
			g.ended(a.Shim(), m.Exit.GetServer())
			return true, nil
		default:
			if err := shared.heed(ctx, a, up); err != nil {
				return false, toStatus(err)
			}
		}
	}
}

// maxID bounds the ids that a shim may choose.
const maxID = 128

func checkHello(h *pb.Hello) error {
	switch {
	case h == nil:
		return fmt.Errorf("the first message is no hello: %w", gate.ErrInvalid)
	case h.GetProtocol() != client.Protocol:
		return fmt.Errorf("the shim (%s) speaks protocol %d and the daemon (protocol %d) does not; install both from one release and restart the daemon: %w",
			h.GetBuild(), h.GetProtocol(), client.Protocol, gate.ErrVersion)
	case len(h.GetAttachment()) < 16 || len(h.GetAttachment()) > maxID:
		return fmt.Errorf("the attachment id has %d bytes; 16 to %d are needed: %w", len(h.GetAttachment()), maxID, gate.ErrInvalid)
	case h.GetServer() == "" || len(h.GetServer()) > maxID:
		return fmt.Errorf("the server id has %d bytes; 1 to %d are needed: %w", len(h.GetServer()), maxID, gate.ErrInvalid)
	case h.GetExtension() != "" && (h.GetServer() != offer.ID(h.GetExtension()) || len(h.GetCommand()) > 0 || h.GetExecutable() != "" || h.GetFrom() != ""):
		return fmt.Errorf("the tools of an extension have the server id %s and no command: %w", offer.ID(h.GetExtension()), gate.ErrInvalid)
	}
	return nil
}

func (g gateService) hello(ctx context.Context, h *pb.Hello) (session.Hello, error) {
	line, programs, err := lineAndPrograms(ctx)
	if err != nil {
		return session.Hello{}, err
	}
	if h.GetBuild() != g.s.Build {
		g.s.Logger.Warn("a shim of another build has joined", "server_id", h.GetServer(), "shim", h.GetBuild(), "daemon", g.s.Build)
	}
	hello := session.Hello{
		Shim: gate.Shim{
			Attachment: h.GetAttachment(), Session: h.GetSession(), Project: h.GetCwd(), Cwd: h.GetCwd(),
			Server: h.GetServer(), Launch: launch(h), Command: command(h), Requested: profileOf(h.GetProfile()),
			Patience: max(0, h.GetPatience().AsDuration()), Blind: !h.GetInspects(),
		},
		Reattach: h.GetReattach(), Build: h.GetBuild(), Peer: line[0], Line: line, Programs: programs,
	}
	if len(line) > 1 && !reaper(line[1].PID) {
		hello.Parent = line[1]
	}
	return hello, nil
}

// command is the resolved command line, which policies tie server ids to.
func command(h *pb.Hello) []string {
	if h.GetExtension() != "" {
		return offer.Command(h.GetExtension())
	}
	all := append([]string(nil), h.GetCommand()...)
	if len(all) > 0 && h.GetExecutable() != "" {
		all[0] = h.GetExecutable()
	}
	return all
}

// launch identifies what is started, or which extension's tools are, under a server
// id.
func launch(h *pb.Hello) string {
	if h.GetExtension() != "" {
		return offer.Launch(h.GetExtension())
	}
	return gate.Launch(command(h))
}

func (g gateService) welcome(j *session.Joined) *pb.Welcome {
	o := g.s.ShimOptions()
	return &pb.Welcome{
		Protocol: client.Protocol, Build: g.s.Build, Profile: profileTo(j.Attachment.Profile()),
		RawStderr: o.RawStderr, Alone: j.Attachment.Shim().Session == "", Together: maxMore,
		Limits: &pb.Limits{
			Window: o.Window, Pending: o.Pending, MaxMessage: o.MaxMessage, Reattach: durationpb.New(o.Reattach),
		},
	}
}

// started takes note of the server's process, which must be the shim's child.
func (g gateService) started(ctx context.Context, joined *session.Joined, pid int32) error {
	line, err := lineOf(ctx)
	if err != nil {
		return err
	}
	p, err := sock.ChildOf(line[0].PID, pid)
	if errors.Is(err, sock.ErrNoChild) {
		return fmt.Errorf("process %d is no child of the shim: %w", pid, gate.ErrForbidden)
	}
	if err == nil { // else it has ended already; the shim will say so
		g.s.Sessions.Started(joined, session.Process{PID: p.PID, Start: p.Start})
	}
	return nil
}

// ended counts how the server's process has ended that was the shim's own. Those that
// are shared are counted where they are kept, but for what the shim did not find.
func (g gateService) ended(shim gate.Shim, how pb.Ended) {
	state, known := endings[how]
	if known && (!shim.Shared || state == metrics.Failed) && g.s.Config.Metrics != nil {
		g.s.Config.Metrics.Ended(shim.Server, state)
	}
}

var endings = map[pb.Ended]metrics.Ending{
	pb.Ended_ENDED_EXITED: metrics.Exited, pb.Ended_ENDED_SIGNALLED: metrics.Signalled, pb.Ended_ENDED_FAILED: metrics.Failed,
}

func profileOf(p pb.Profile) gate.Profile {
	switch p {
	case pb.Profile_PROFILE_PRODUCTION:
		return gate.Production
	case pb.Profile_PROFILE_DEVELOPMENT:
		return gate.Development
	}
	return ""
}

func profileTo(p gate.Profile) pb.Profile {
	if p == gate.Development {
		return pb.Profile_PROFILE_DEVELOPMENT
	}
	return pb.Profile_PROFILE_PRODUCTION
}
