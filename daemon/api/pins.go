package api

import (
	"context"
	"fmt"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/pin"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// pinsService implements the Pins service.
type pinsService struct {
	pb.UnimplementedPinsServer
	s *Server
}

func (v pinsService) List(_ context.Context, req *pb.ListPinsRequest) (*pb.ListPinsResponse, error) {
	return &pb.ListPinsResponse{Pins: each(v.s.Pins.List(req.GetServer()), pinTo)}, nil
}

func (v pinsService) Diff(ctx context.Context, req *pb.PinRef) (*pb.PinDiff, error) {
	d, err := v.s.Pins.Diff(ctx, refOf(req))
	return &pb.PinDiff{
		Pin: pinTo(d.Pin), Before: d.Before, After: d.After,
		Changes: each(d.Changes, func(c pin.Change) *pb.PinChange {
			return &pb.PinChange{Path: c.Path, Grade: grades[c.Grade], Before: c.Before, After: c.After, Note: c.Note}
		}),
	}, err
}

// maxAccepted is how many definitions one call may accept.
const maxAccepted = 4096

func (v pinsService) Accept(ctx context.Context, req *pb.AcceptPinsRequest) (*pb.AcceptPinsResponse, error) {
	ctx, who, err := v.s.decider(ctx, "accepting a definition")
	if err != nil {
		return nil, err
	}
	if n := len(req.GetPins()); n == 0 || n > maxAccepted {
		return nil, fmt.Errorf("accept %d definitions: the number must be 1 to %d: %w", n, maxAccepted, gate.ErrInvalid)
	}
	accepted := each(req.GetPins(), func(a *pb.PinAcceptance) pin.Acceptance {
		return pin.Acceptance{Ref: refOf(a.GetRef()), Digest: a.GetDefinition()}
	})
	pins, err := v.s.Pins.Accept(ctx, accepted, pin.By{Decider: who, Surface: req.GetSurface()})
	return &pb.AcceptPinsResponse{Pins: each(pins, pinTo)}, err
}

var pinKinds = map[pin.Kind]pb.PinKind{
	pin.Tool: pb.PinKind_PIN_KIND_TOOL, pin.Prompt: pb.PinKind_PIN_KIND_PROMPT, pin.Template: pb.PinKind_PIN_KIND_TEMPLATE,
}

var pinReasons = map[pin.Reason]pb.PinReason{
	pin.Changed: pb.PinReason_PIN_REASON_CHANGED, pin.Suspicious: pb.PinReason_PIN_REASON_SUSPICIOUS,
	pin.LookAlike: pb.PinReason_PIN_REASON_LOOK_ALIKE, pin.NewServer: pb.PinReason_PIN_REASON_NEW_SERVER,
}

var grades = map[pin.Grade]pb.ChangeGrade{
	pin.High: pb.ChangeGrade_CHANGE_GRADE_HIGH, pin.Low: pb.ChangeGrade_CHANGE_GRADE_LOW,
}

func refOf(m *pb.PinRef) pin.Ref {
	return pin.Ref{Server: m.GetServer(), Launch: m.GetLaunch(), Kind: keyOf(pinKinds, m.GetKind()), Name: m.GetName()}
}

func pinTo(p pin.Pin) *pb.Pin {
	m := &pb.Pin{
		Ref:    &pb.PinRef{Server: p.Server, Launch: p.Launch, Kind: pinKinds[p.Kind], Name: p.Name},
		Reason: pinReasons[p.Why], Held: p.Held, Decider: p.Decider,
	}
	if p.Accepted != ([32]byte{}) {
		m.Accepted, m.Since = p.Accepted[:], momentTo(p.Since)
	}
	if p.Waiting != ([32]byte{}) {
		m.Waiting, m.Noticed = p.Waiting[:], momentTo(p.Noticed)
	}
	m.Suspicions = each(p.Suspicions, func(s pin.Suspicion) *pb.Suspicion {
		return &pb.Suspicion{What: s.What, Quote: s.Quote, Where: s.Where}
	})
	return m
}
