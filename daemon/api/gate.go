package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/daemon/extension/offer"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/session"
	"github.com/thoughtgate/thoughtgated/internal/wire"
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
	out := newOutbox(stream)
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
	for {
		up, err := stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return false, err
		}
		switch m := up.GetMsg().(type) {
		case *pb.Up_Submit:
			s := submission(m.Submit)
			if err := shared.submitted(s); err != nil {
				return false, toStatus(err)
			}
			out.cork()
			a.Submit(s)
			out.flush()
		case *pb.Up_Cancel:
			a.Cancel(m.Cancel.GetSeq())
			shared.cancelled(m.Cancel.GetSeq())
		case *pb.Up_Observe:
			out.cork()
			observe(ctx, a, m.Observe)
			if echo := m.Observe.GetEcho(); echo > 0 {
				out.heard(echo)
			}
			out.flush()
		case *pb.Up_Started:
			if err := g.started(ctx, joined, m.Started.GetPid()); err != nil {
				return false, toStatus(err)
			}
		case *pb.Up_Exit:
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
	line, err := lineOf(ctx)
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
		Unclaimed: h.GetExtension() != "", Reattach: h.GetReattach(), Build: h.GetBuild(), Peer: line[0], Line: line,
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
		RawStderr: o.RawStderr, Alone: j.Attachment.Shim().Session == "",
		Limits: &pb.Limits{
			Window: o.Window, Pending: o.Pending, MaxMessage: o.MaxMessage, Reattach: durationpb.New(o.Reattach),
		},
	}
}

// started takes note of the server's process, which must be the shim's child.
func (g gateService) started(ctx context.Context, joined *session.Joined, pid int32) error {
	server, parent, err := processOf(pid)
	if err != nil {
		return nil // it has ended already; the shim will say so
	}
	line, err := lineOf(ctx)
	if err != nil {
		return err
	}
	if parent != line[0].PID {
		return fmt.Errorf("process %d is no child of the shim: %w", pid, gate.ErrForbidden)
	}
	g.s.Sessions.Started(joined, server)
	return nil
}

func submission(m *pb.Submit) gate.Submission {
	return gate.Submission{
		Seq: m.GetSeq(), Side: side(m.GetDirection()), Line: m.GetLine(),
		Answers: m.GetAnswers(), Call: m.GetCall(), Modern: m.GetModern(),
		Request: m.GetRequest(), About: m.GetAbout(),
	}
}

func side(d pb.Direction) wire.Side {
	if d == pb.Direction_DIRECTION_SERVER_TO_AGENT {
		return wire.FromServer
	}
	return wire.FromAgent
}

var outcomes = map[pb.Outcome]string{
	pb.Outcome_OUTCOME_OK:             "ok",
	pb.Outcome_OUTCOME_TOOL_ERROR:     "tool_error",
	pb.Outcome_OUTCOME_PROTOCOL_ERROR: "protocol_error",
	pb.Outcome_OUTCOME_CANCELLED:      "cancelled",
	pb.Outcome_OUTCOME_LOST:           "lost",
	pb.Outcome_OUTCOME_NOT_WRITTEN:    "not_written",
}

// maxCounts bounds how many counts a shim may tell at once.
const maxCounts = 256

// observe takes note of what a shim tells. What was said is in the memory when it
// returns, so that it counts for whatever the shim submits next.
func observe(ctx context.Context, a *gate.Attachment, m *pb.Observe) {
	from := side(m.GetDirection())
	if m.GetRefused() != "" {
		a.Refused(ctx, from, m.GetRefused(), m.GetLine())
		return
	}
	for _, c := range m.GetCounts()[:min(len(m.GetCounts()), maxCounts)] {
		a.Read(side(c.GetDirection()), c.GetMethod(), min(c.GetMessages(), math.MaxUint32))
	}
	if len(m.GetLine()) > 0 || m.GetMissing() > 0 {
		a.Hear(from, m.GetMethod(), m.GetLine(), m.GetMissing())
	}
	if m.GetOutcome() != pb.Outcome_OUTCOME_UNSPECIFIED {
		a.Outcome(ctx, m.GetCall(), outcomes[m.GetOutcome()])
	} else if !m.GetUnrecorded() {
		a.Message(ctx, from, m.GetMethod(), m.GetLine())
	}
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
