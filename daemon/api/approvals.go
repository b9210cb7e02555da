package api

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
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
	resp := &pb.ListApprovalsResponse{}
	for _, q := range v.s.Approvals.List(req.GetAll()) {
		resp.Approvals = append(resp.Approvals, inShort(questionTo(q), q.Params))
	}
	return resp, nil
}

// inShort puts a preview of params into m, and how long they are where that is less.
func inShort(m *pb.Approval, params []byte) *pb.Approval {
	m.Arguments = preview(params)
	if len(m.Arguments) != len(params) {
		m.ArgumentsBytes = uint64(len(params))
	}
	return m
}

const (
	// longestPreview is how much of a question's params a list shows, in bytes: many
	// of them have to go into one message.
	longestPreview = 4 << 10
	longestShown   = 256 // of a string or number in a preview
)

// preview returns params, JSON, in short: long strings and numbers are cut, and say how
// long they are, and what comes after longestPreview is left out.
func preview(params []byte) []byte {
	if len(params) <= longestPreview {
		return params
	}
	var out bytes.Buffer
	anyhow := []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
	from, to := jsontext.NewDecoder(bytes.NewBuffer(params), anyhow...), jsontext.NewEncoder(&out, anyhow...)
	for to.OutputOffset() < longestPreview {
		token, err := from.ReadToken()
		if err != nil {
			break
		}
		if text := token.String(); len(text) > longestShown {
			token = jsontext.String(fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(text[:longestShown], ""), len(text)))
		}
		if to.WriteToken(token) != nil {
			break
		}
	}
	for to.StackDepth() > 0 {
		kind, n := to.StackIndex(to.StackDepth())
		end := jsontext.EndArray
		if kind == '{' {
			if end = jsontext.EndObject; n%2 == 1 {
				_ = to.WriteToken(jsontext.String("…")) // can't fail: a value is due
			}
		}
		if to.WriteToken(end) != nil {
			break
		}
	}
	return bytes.TrimSpace(out.Bytes())
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
		resp.Denied = append(resp.Denied, inShort(questionTo(denied), q.Params))
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
		decided.Grant = grantTo(q.Given)
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
	m := &pb.Approval{
		Id: q.ID, State: states[q.State], Created: timestamppb.New(q.Created), Expires: timestamppb.New(q.Expires),
		Session: q.Session, Agent: q.Agent, Server: q.Server, Launch: q.Launch, Method: q.Method, Tool: q.Tool,
		Arguments: q.Params, Subject: q.Subject[:], Reason: q.Reason, Rule: q.Rule, Workflow: q.Workflow, Facts: q.Facts,
		Call: q.Call, Attachment: q.Attachment, Decider: q.Decider, Surface: q.Surface, Approver: q.Approver, Note: q.Note,
		Waiting: uint32(q.Waiting), Parked: q.Parked, Spent: q.Spent, Edited: q.Edited, Level: cmp.Or(q.Level, string(gate.LevelWatch)),
	}
	if !q.Good.IsZero() {
		m.Good = timestamppb.New(q.Good)
	}
	if !q.Decided.IsZero() {
		m.Decided = timestamppb.New(q.Decided)
	}
	return m
}
