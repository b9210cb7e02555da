package api

import (
	"cmp"
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/thoughtgate/thoughtgated/daemon/approval"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/record"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// approvalsService serves Approvals.
type approvalsService struct {
	pb.UnimplementedApprovalsServer
	s *Server
}

func (v approvalsService) List(_ context.Context, req *pb.ListApprovalsRequest) (*pb.ListApprovalsResponse, error) {
	return &pb.ListApprovalsResponse{Approvals: each(v.s.Approvals.List(req.GetAll()), questionTo)}, nil
}

func (v approvalsService) DenyFrom(ctx context.Context, req *pb.DenyFromRequest) (*pb.DenyFromResponse, error) {
	ctx, who, err := v.s.decider(ctx, "an answer to all questions of "+req.GetServer())
	if err != nil {
		return nil, err
	}
	resp := &pb.DenyFromResponse{}
	for _, q := range v.s.Approvals.List(false) {
		if q.Server != req.GetServer() {
			continue
		}
		denied, err := v.s.Approvals.Decide(ctx, approval.Decision{
			ID: q.ID, Subject: q.Subject[:], Note: req.GetNote(), Decider: who, Surface: surfaceOf(ctx, who, req.GetSurface()),
		})
		if err != nil {
			resp.Failed = append(resp.Failed, err.Error())
			continue
		}
		m := questionTo(denied)
		m.Arguments, m.ArgumentsBytes = q.Params, uint64(q.ParamsBytes)
		resp.Denied = append(resp.Denied, m)
	}
	return resp, nil
}

func (v approvalsService) Get(ctx context.Context, req *pb.GetApprovalRequest) (*pb.Approval, error) {
	q, err := v.s.Approvals.Get(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	return questionTo(q), nil
}

func (v approvalsService) Watch(_ *pb.WatchApprovalsRequest, stream grpc.ServerStreamingServer[pb.ApprovalEvent]) error {
	return v.s.standing(stream.Context(), func(ctx context.Context) error {
		for q, err := range v.s.Approvals.Watch(ctx) {
			if err != nil {
				return err
			}
			if err := stream.Send(&pb.ApprovalEvent{Approval: questionTo(q)}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (v approvalsService) Decide(ctx context.Context, d *pb.Decision) (*pb.Decided, error) {
	defer wipe(d.GetProof().GetPassphrase(), d.GetProof().GetCode())
	ctx, who, err := v.s.decider(ctx, "an answer to "+d.GetId())
	if err != nil {
		return nil, err
	}
	approve := d.GetAnswer() == pb.Answer_ANSWER_APPROVE
	if !approve && d.GetAnswer() != pb.Answer_ANSWER_DENY {
		return nil, fmt.Errorf("a decision that neither approves nor denies: %w", gate.ErrInvalid)
	}
	edit := d.GetEdit()
	if len(edit) == 0 {
		edit = nil
	}
	q, err := v.s.Approvals.Decide(ctx, approval.Decision{
		ID: d.GetId(), Subject: d.GetSubject(), Approve: approve, Note: d.GetNote(), Decider: who, Surface: surfaceOf(ctx, who, d.GetSurface()),
		Approver: d.GetApprover(), Terms: termsOf(d.GetGrant()), Edit: edit, Proof: proofOf(d.GetProof()),
	})
	if err != nil {
		return nil, err
	}
	decided := &pb.Decided{Approval: questionTo(q)}
	if q.Given != nil {
		decided.Grant = grantTo(*q.Given)
	}
	return decided, nil
}

// longestReport bounds what a surface says of an answer, in bytes.
const longestReport = 512

func (v approvalsService) Report(ctx context.Context, req *pb.ReportRequest) (*pb.ReportResponse, error) {
	ctx, who, err := v.s.decider(ctx, "a report of an answer to "+req.GetId())
	if err != nil {
		return nil, err
	}
	if n := len(req.GetReason()); n == 0 || n > longestReport || len(req.GetId()) > maxID || len(req.GetSurface()) > maxID {
		return nil, fmt.Errorf("a report with a reason of %d bytes, 1 to %d are needed, and of short names: %w", n, longestReport, gate.ErrInvalid)
	}
	err = v.s.Recorder.Record(ctx, &record.Record{
		Kind: record.KindDenied, Verdict: "deny", Approval: req.GetId(), Decider: who, Surface: surfaceOf(ctx, who, req.GetSurface()),
		Reason: "an answer that was not believed, it says: " + req.GetReason(),
	}, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("record an answer that was not believed: %w", err)
	}
	return &pb.ReportResponse{}, nil
}

var states = map[store.State]pb.ApprovalState{
	store.StateOpen:      pb.ApprovalState_APPROVAL_STATE_OPEN,
	store.StateApproved:  pb.ApprovalState_APPROVAL_STATE_APPROVED,
	store.StateRejected:  pb.ApprovalState_APPROVAL_STATE_REJECTED,
	store.StateExpired:   pb.ApprovalState_APPROVAL_STATE_EXPIRED,
	store.StateWithdrawn: pb.ApprovalState_APPROVAL_STATE_WITHDRAWN,
}

func questionTo(q approval.Question) *pb.Approval {
	return &pb.Approval{
		Id: q.ID, State: states[q.State], Created: timestamppb.New(q.Created), Expires: timestamppb.New(q.Expires),
		Session: q.Session, Agent: q.Agent, Server: q.Server, Launch: q.Launch, Method: q.Method, Tool: q.Tool,
		Arguments: q.Params, ArgumentsBytes: uint64(q.ParamsBytes), Subject: q.Subject[:], Reason: q.Reason, Rule: q.Rule, Workflow: q.Workflow, Facts: q.Facts,
		Call: q.Call, Attachment: q.Attachment, Decider: q.Decider, Surface: q.Surface, Approver: q.Approver, Note: q.Note,
		Waiting: uint32(q.Waiting), Parked: q.Parked, Spent: q.Spent, Edited: q.Edited, Level: cmp.Or(q.Level, string(gate.LevelWatch)),
		Good: momentTo(q.Good), Decided: momentTo(q.Decided),
	}
}
