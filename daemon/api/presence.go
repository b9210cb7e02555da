package api

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/thoughtgate/thoughtgated/daemon/approval/presence"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// presenceService implements the Presence service.
type presenceService struct {
	pb.UnimplementedPresenceServer
	s *Server
}

// Status with Deciding checks the caller as Decide would, and the result is kept for the
// connection: a client that is about to read a secret then hides its memory, and can't be inspected
// any more.
func (v presenceService) Status(ctx context.Context, req *pb.PresenceStatusRequest) (*pb.PresenceStatusResponse, error) {
	if req.GetDeciding() {
		if _, _, err := v.s.decider(ctx, "giving a proof of presence"); err != nil {
			return nil, err
		}
	}
	return &pb.PresenceStatusResponse{State: presenceTo(v.s.Presence.State())}, nil
}

func (v presenceService) Enrol(ctx context.Context, req *pb.EnrolPresenceRequest) (*pb.EnrolPresenceResponse, error) {
	e := enrolmentOf(req.GetSecret())
	defer wipe(e.Passphrase, e.Key, e.Code)
	ctx, who, err := v.s.atTerminal(ctx, "enrolling presence")
	if err != nil {
		return nil, err
	}
	if err := v.s.Presence.Enrol(ctx, e, who); err != nil {
		return nil, fmt.Errorf("enrol presence: %w", err)
	}
	return &pb.EnrolPresenceResponse{State: presenceTo(v.s.Presence.State())}, nil
}

func (v presenceService) Rotate(ctx context.Context, req *pb.RotatePresenceRequest) (*pb.RotatePresenceResponse, error) {
	e := enrolmentOf(req.GetSecret())
	e.Keep = req.GetKeepCodes()
	defer wipe(req.GetPassphrase(), e.Passphrase, e.Key, e.Code)
	ctx, who, err := v.s.atTerminal(ctx, "rotating presence")
	if err != nil {
		return nil, err
	}
	if err := v.s.Presence.Rotate(ctx, req.GetPassphrase(), e, who); err != nil {
		return nil, fmt.Errorf("rotate presence: %w", err)
	}
	return &pb.RotatePresenceResponse{State: presenceTo(v.s.Presence.State())}, nil
}

func (v presenceService) Remove(ctx context.Context, req *pb.RemovePresenceRequest) (*pb.RemovePresenceResponse, error) {
	defer wipe(req.GetPassphrase())
	ctx, who, err := v.s.atTerminal(ctx, "removing presence")
	if err != nil {
		return nil, err
	}
	switch recover := req.GetRecover(); {
	case recover && len(req.GetPassphrase()) > 0:
		return nil, fmt.Errorf("remove presence: both with and without a passphrase: %w", gate.ErrInvalid)
	case recover:
		err = v.s.Presence.Recover(ctx, who)
	default:
		err = v.s.Presence.Remove(ctx, req.GetPassphrase(), who)
	}
	if err != nil {
		return nil, fmt.Errorf("remove presence: %w", err)
	}
	return &pb.RemovePresenceResponse{}, nil
}

// enrolmentOf returns an Enrolment that shares the memory of m, so that wiping one wipes the other.
func enrolmentOf(m *pb.PresenceSecret) *presence.Enrolment {
	e := &presence.Enrolment{Passphrase: m.GetPassphrase(), Key: m.GetKey(), Code: m.GetCode()}
	if len(e.Key) == 0 {
		e.Key = nil
	}
	return e
}

// proofOf returns a Proof that shares the memory of m, or nil if m is empty.
func proofOf(m *pb.Proof) *gate.Proof {
	if len(m.GetPassphrase())+len(m.GetCode()) == 0 {
		return nil
	}
	return &gate.Proof{Passphrase: m.GetPassphrase(), Code: m.GetCode()}
}

func wipe(secrets ...[]byte) {
	for _, secret := range secrets {
		clear(secret)
	}
}

func presenceTo(st presence.State) *pb.PresenceState {
	m := &pb.PresenceState{
		Enrolled: st.Enrolled, Since: momentTo(st.Since), By: st.By, Codes: st.Codes, Asleep: st.Asleep, Failures: st.Failures,
		Recovered: momentTo(st.Recovered), Recoverer: st.Recoverer,
	}
	if st.Locked > 0 {
		m.Locked = durationpb.New(st.Locked)
	}
	return m
}
