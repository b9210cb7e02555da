package api

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/daemon/audit"
	"github.com/thoughtgate/thoughtgated/daemon/fleet"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	forms "github.com/thoughtgate/thoughtgated/internal/fleet"
	"github.com/thoughtgate/thoughtgated/internal/tuf"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// fleet.sock is served only while the machine is in a fleet: nobody who is in none has one more
// socket, and no courier starts a daemon.

const (
	// maxCourierStreams is the maximum of calls of one connection of the courier, most of which wait
	// for a person.
	maxCourierStreams = 256
	// maxReaders is how many streams of records there may be at once: that of a courier, and that
	// of the one before, which has not ended yet.
	maxReaders = 2
	// stateInterval is how often a courier is told the state if nothing else changes but the log.
	stateInterval = time.Minute
)

// ServeFleet serves the courier of a fleet on l, whose connections must know the process at the
// other end, until the returned function is called.
func (s *Server) ServeFleet(l net.Listener) (stop func()) {
	server := grpc.NewServer(append(s.options(), grpc.MaxConcurrentStreams(maxCourierStreams), grpc.ConnectionTimeout(newConnection),
		grpc.Creds(peerCredentials{}), grpc.ChainUnaryInterceptor(s.courierUnary), grpc.ChainStreamInterceptor(s.courierStream))...)
	pb.RegisterFleetServer(server, fleetService{s: s, reading: make(chan struct{}, maxReaders)})
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			s.Logger.Error("listen on fleet.sock", "err", err)
		}
	}()
	return func() {
		server.Stop()
		<-done
	}
}

// courierUnary refuses agents, and what runs below them, as on the control socket.
func (s *Server) courierUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	ctx, _, err := s.decider(ctx, "a call of "+info.FullMethod)
	if err != nil {
		return nil, err
	}
	return handler(ctx, req)
}

func (s *Server) courierStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if _, _, err := s.decider(stream.Context(), "a call of "+info.FullMethod); err != nil {
		return err
	}
	return handler(srv, stream)
}

// fleetService implements the Fleet service.
type fleetService struct {
	pb.UnimplementedFleetServer
	s       *Server
	reading chan struct{} // has an element for each stream of records
}

func (v fleetService) Watch(_ *pb.WatchFleetRequest, stream grpc.ServerStreamingServer[pb.FleetState]) error {
	return v.s.standing(stream.Context(), func(ctx context.Context) error {
		tick := time.NewTicker(stateInterval)
		defer tick.Stop()
		for {
			rules := v.s.Fleet.RulesChanged() // before the state, so that no change is missed
			m, changed := v.s.fleetState()
			if err := stream.Send(m); err != nil {
				return err
			}
			select {
			case <-changed:
			case <-rules:
			case <-tick.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
}

var fleetModes = map[forms.Mode]pb.FleetMode{
	forms.ModeFloor: pb.FleetMode_FLEET_MODE_FLOOR,
	forms.ModeFull:  pb.FleetMode_FLEET_MODE_FULL,
}

// fleetState returns the state of the membership, and a channel that is closed when it changes.
func (s *Server) fleetState() (*pb.FleetState, <-chan struct{}) {
	now, changed := s.Fleet.State()
	if !now.Joins() {
		return &pb.FleetState{}, changed
	}
	m := &pb.FleetState{
		Device: now.Device, Fleet: now.Fleet, Group: now.Group, Mode: fleetModes[now.Mode], Engine: now.Engine, Policy: now.Policy, Otlp: now.OTLP, Values: now.Member.Values,
		Joined: timestamppb.New(time.Unix(now.Joined, 0)), SendsValues: now.Values, Build: s.Build,
		Log: now.Head.Log, LogSeq: now.Head.Seq,
	}
	m.LogHash, _ = hex.DecodeString(now.Head.Sum) // it is a digest of ours
	s.policyState(m)
	for _, q := range s.Approvals.List(false) {
		if len(q.Statement) > 0 && q.Device == "" {
			m.Pending++
		}
	}
	return m, changed
}

var fleetFreshness = map[fleet.Freshness]pb.FleetFreshness{
	fleet.Fresh:   pb.FleetFreshness_FLEET_FRESHNESS_FRESH,
	fleet.Stale:   pb.FleetFreshness_FLEET_FRESHNESS_STALE,
	fleet.Old:     pb.FleetFreshness_FLEET_FRESHNESS_OLD,
	fleet.Expired: pb.FleetFreshness_FLEET_FRESHNESS_EXPIRED,
}

// policyState sets what m says of the policy.
func (s *Server) policyState(m *pb.FleetState) {
	p := s.FleetPolicy.State()
	m.BundleVersion, m.BundleDigest, m.TimestampVersion, m.RootVersion = p.Version, p.Digest, p.Timestamp, p.Root
	m.Freshness, m.Failure, m.Overflow = fleetFreshness[p.Freshness], p.Failure, string(p.Overflow)
	if !p.Confirmed.IsZero() {
		m.Confirmed = timestamppb.New(p.Confirmed)
	}
}

func (v fleetService) InstallPolicy(ctx context.Context, req *pb.InstallPolicyRequest) (*pb.InstallPolicyResponse, error) {
	installed, err := v.s.FleetPolicy.Install(ctx, tuf.Update{
		Roots: req.GetRoots(), Timestamp: part(req.GetTimestamp()), Snapshot: part(req.GetSnapshot()),
		Targets: part(req.GetTargets()), Delegated: part(req.GetDelegated()), Target: part(req.GetBundle()),
	})
	if err != nil {
		return nil, err
	}
	m, _ := v.s.fleetState()
	return &pb.InstallPolicyResponse{State: m, Installed: installed}, nil
}

// part returns nil for what a request leaves out.
func part(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

func (v fleetService) ReadAudit(req *pb.FleetAuditRequest, stream grpc.ServerStreamingServer[pb.FleetAuditRecord]) error {
	select {
	case v.reading <- struct{}{}:
		defer func() { <-v.reading }()
	default:
		return fmt.Errorf("read the audit log: %d couriers read it already: %w", maxReaders, gate.ErrTooMany)
	}
	return v.s.standing(stream.Context(), func(ctx context.Context) error {
		ctx, end := v.s.Fleet.UntilChange(ctx) // before it is asked what may leave
		defer end()
		may, err := v.s.Fleet.Read(req.GetLog(), req.GetFrom())
		if errors.Is(err, fleet.ErrBeyond) {
			return &client.Error{Message: err.Error(), Code: codes.OutOfRange}
		} else if err != nil {
			return err
		}
		var pace fleet.Pace
		return v.s.Audit.Read(ctx, audit.Query{From: may.From, Follow: true}, func(seq uint64, line, values []byte) error {
			if !may.Values || len(values) > fleet.MaxValues {
				values = nil
			}
			if err := errors.Join(v.s.Audit.Stable(ctx, seq), pace.Wait(ctx, len(line)+len(values))); err != nil {
				return err
			}
			return stream.Send(&pb.FleetAuditRecord{Log: may.Log, Seq: seq, Line: line, Values: values})
		})
	})
}

func (v fleetService) WatchQuestions(_ *pb.WatchFleetQuestionsRequest, stream grpc.ServerStreamingServer[pb.FleetQuestion]) error {
	return v.s.standing(stream.Context(), func(ctx context.Context) error {
		for q, err := range v.s.Fleet.Watch(ctx) {
			if err != nil {
				return err
			}
			m := &pb.FleetQuestion{Id: q.ID, Statement: q.Statement, Shown: q.Shown, Recipients: q.Recipients, Expires: momentTo(q.Expires), End: q.End, Ended: q.End != ""}
			if err := stream.Send(m); err != nil {
				return err
			}
		}
		return nil
	})
}

func (v fleetService) Decide(ctx context.Context, req *pb.FleetDecision) (*pb.FleetDecided, error) {
	end, err := v.s.Fleet.Decide(ctx, fleet.Decision{ID: req.GetId(), Statement: req.GetStatement(), Signature: req.GetSignature()})
	if err != nil {
		return nil, err
	}
	return &pb.FleetDecided{End: end}, nil
}

func (v fleetService) Ask(ctx context.Context, req *pb.ForeignQuestion) (*pb.ForeignAnswer, error) {
	var answer fleet.Answer
	err := v.s.standing(ctx, func(ctx context.Context) (err error) {
		answer, err = v.s.Fleet.Ask(ctx, fleet.Foreign{
			Device: req.GetDevice(), Statement: req.GetStatement(), Shown: req.GetShown(), Expires: timeOf(req.GetExpires()), Key: req.GetKey(),
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return &pb.ForeignAnswer{Approved: answer.Approved, Note: answer.Note, Statement: answer.Statement, Level: answer.Level}, nil
}

// membershipService implements the Membership service.
type membershipService struct {
	pb.UnimplementedMembershipServer
	s *Server
}

func (v membershipService) Get(context.Context, *pb.GetMembershipRequest) (*pb.FleetState, error) {
	m, _ := v.s.fleetState()
	return m, nil
}

func (v membershipService) Join(ctx context.Context, req *pb.JoinFleetRequest) (*pb.FleetState, error) {
	ctx, who, level, err := v.s.loosening(ctx, "joining a fleet", req.GetProof())
	if err != nil {
		return nil, err
	}
	err = v.s.Fleet.Join(ctx, fleet.Member{
		Device: req.GetDevice(), Fleet: req.GetFleet(), Group: req.GetGroup(), Mode: keyOf(fleetModes, req.GetMode()), Engine: req.GetEngine(), Policy: req.GetPolicy(), OTLP: req.GetOtlp(),
		Root: hex.EncodeToString(req.GetRootDigest()), Values: req.GetValues(),
	}, req.GetRoot(), who, level)
	if err != nil {
		return nil, err
	}
	m, _ := v.s.fleetState()
	return m, nil
}

func (v membershipService) Leave(ctx context.Context, req *pb.LeaveFleetRequest) (*pb.FleetState, error) {
	ctx, who, level, err := v.s.loosening(ctx, "leaving a fleet", req.GetProof())
	if err != nil {
		return nil, err
	}
	if err := v.s.Fleet.Leave(ctx, who, level); err != nil {
		return nil, err
	}
	m, _ := v.s.fleetState()
	return m, nil
}

// loosening checks that the caller may change what is in force: it is no agent and below none, and
// proves presence if a secret is enrolled. The proof is wiped.
func (s *Server) loosening(ctx context.Context, what string, proof *pb.Proof) (_ context.Context, who string, level gate.Level, err error) {
	defer wipe(proof.GetPassphrase(), proof.GetCode())
	ctx, who, err = s.decider(ctx, what)
	if err != nil || !s.Presence.Enrolled() {
		return ctx, who, gate.LevelWatch, err
	}
	given := proofOf(proof)
	if given == nil {
		return ctx, who, "", gate.ErrProofNeeded
	}
	return ctx, who, gate.LevelPresence, s.Presence.Prove(ctx, given, what, who)
}
