package api

import (
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/thoughtgate/thoughtgated/daemon/rehearse"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

func (v policiesService) Backtest(req *pb.BacktestRequest, stream grpc.ServerStreamingServer[pb.BacktestEvent]) error {
	candidate, set, problems, err := v.s.Stages.Candidate(req.GetConfig())
	if err != nil {
		return err
	}
	if candidate == nil {
		return refused(problems)
	}
	send := func(e *pb.BacktestEvent) error { return stream.Send(e) }
	if err := send(&pb.BacktestEvent{Event: &pb.BacktestEvent_Set{Set: &pb.BacktestSet{Set: setTo(set), Warnings: diagnosticsTo(problems)}}}); err != nil {
		return err
	}
	b, err := candidate.Backtest(stream.Context(), timeOf(req.GetSince()), timeOf(req.GetUntil()), func(records uint64) error {
		return send(&pb.BacktestEvent{Event: &pb.BacktestEvent_Progress{Progress: &pb.BacktestProgress{Records: records}}})
	})
	if err != nil {
		return err
	}
	for _, f := range b.Flips() {
		if err := send(&pb.BacktestEvent{Event: &pb.BacktestEvent_Flip{Flip: flipTo(f)}}); err != nil {
			return err
		}
	}
	for _, u := range b.Unknowns() {
		unknown := &pb.BacktestUnknown{
			Server: u.Kind.Server, Method: u.Kind.Method, Subject: u.Kind.Subject, Was: u.Kind.Was, Because: u.Kind.Because,
			Calls: u.Calls, First: u.First, Last: u.Last,
		}
		if err := send(&pb.BacktestEvent{Event: &pb.BacktestEvent_Unknown{Unknown: unknown}}); err != nil {
			return err
		}
	}
	return send(&pb.BacktestEvent{Event: &pb.BacktestEvent_Summary{Summary: summaryTo(&b.Summary)}})
}

func flipTo(f rehearse.Counted[rehearse.Flip]) *pb.BacktestFlip {
	return &pb.BacktestFlip{
		Server: f.Kind.Server, Method: f.Kind.Method, Subject: f.Kind.Subject, Was: f.Kind.Was, Would: f.Kind.Would,
		Loosens: f.Kind.Loosens(), WasBy: f.Kind.WasBy, WouldBy: f.Kind.WouldBy, Reason: f.Kind.Reason,
		Calls: f.Calls, First: f.First, Last: f.Last,
	}
}

func summaryTo(s *rehearse.Summary) *pb.BacktestSummary {
	m := &pb.BacktestSummary{
		Calls: s.Calls, Same: s.Same, Tighter: s.Tighter, Looser: s.Looser, Unknown: s.Unknown, Unread: s.Unread, More: s.More,
	}
	if s.Calls > 0 {
		m.First, m.Last = timestamppb.New(s.First), timestamppb.New(s.Last)
	}
	return m
}
