package api

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/thoughtgate/thoughtgated/daemon/approval"
	"github.com/thoughtgate/thoughtgated/daemon/audit"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	"github.com/thoughtgate/thoughtgated/internal/record"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// approvalsService implements the Approvals service.
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
	m := questionTo(q)
	if err == nil && q.State == store.StateOpen && q.Grain != nil {
		v.s.offer(ctx, &q, m)
	}
	return m, err
}

const (
	// maxCounted is the number of calls of a session of which it is counted how many a grant would have
	// covered, and countTimeout how long that may take.
	maxCounted   = 1000
	countTimeout = time.Second
)

// offer adds to m the grants that q can be approved with. What of the audit log could not be read in
// time is not counted.
func (s *Server) offer(ctx context.Context, q *approval.Question, m *pb.Approval) {
	same := &pb.GrantOffer{Match: pb.GrantMatch_GRANT_MATCH_ARGUMENTS}
	m.Offers = []*pb.GrantOffer{same}
	match, why := approval.GrainOffered(q)
	like := &pb.GrantOffer{Match: keyOf(matches, match), Grain: grainTo(q.Grain)}
	if m.Alone = why; match != "" {
		m.Offers = append(m.Offers, like)
	}
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	asked, seen := rawjson.Read(q.Params).Get("arguments"), map[string]bool{q.Call: true}
	past := audit.Query{Kind: record.KindCall, Session: q.Session, Server: agenthook.Server, Tool: agenthook.Shell, Last: maxCounted}
	err := s.Audit.Read(ctx, past, func(_ uint64, line, values []byte) error {
		r, err := record.Parse(line)
		if err != nil || r.Session != q.Session || q.Session == "" && r.Attachment != q.Attachment || seen[r.ID] || ctx.Err() != nil {
			return ctx.Err()
		}
		seen[r.ID] = true // a held call has two records
		arguments := rawjson.Read(values).Get("arguments")
		if bytes.Equal(arguments, asked) {
			same.Covers++
		}
		if match != "" && !slices.ContainsFunc(r.Facts, func(f string) bool { return !gate.Widens(r.Server, f) }) && q.Grain.Covers(s.Grain(ctx, q.Project, arguments)) {
			like.Covers++
		}
		return nil
	})
	if err != nil {
		s.Logger.Warn("count what a grant would have covered", "approval", q.ID, "err", err)
	}
}

// grainTo returns nil for a grain that no grant covers.
func grainTo(g *gate.Grain) *pb.Grain {
	if g == nil || g.Alone != "" {
		return nil
	}
	return &pb.Grain{Program: g.Program, Verb: g.Verb, Folder: g.Folder}
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
		return nil, fmt.Errorf("the decision must approve or deny: %w", gate.ErrInvalid)
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

// longestReport is the largest reason of a report, in bytes.
const longestReport = 512

func (v approvalsService) Report(ctx context.Context, req *pb.ReportRequest) (*pb.ReportResponse, error) {
	ctx, who, err := v.s.decider(ctx, "a report of an answer to "+req.GetId())
	if err != nil {
		return nil, err
	}
	if n := len(req.GetReason()); n == 0 || n > longestReport || len(req.GetId()) > maxID || len(req.GetSurface()) > maxID {
		return nil, fmt.Errorf("the reason of the report has %d bytes; it must have 1 to %d, and names must be short: %w", n, longestReport, gate.ErrInvalid)
	}
	err = v.s.Recorder.Record(ctx, &record.Record{
		Kind: record.KindDenied, Verdict: "deny", Approval: req.GetId(), Decider: who, Surface: surfaceOf(ctx, who, req.GetSurface()),
		Reason: "an untrusted answer, reported as: " + req.GetReason(),
	}, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("record an untrusted answer: %w", err)
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

// factsTo returns the facts of a question. How its files are brought back is known once the
// question has its id.
func factsTo(q approval.Question) []string {
	return each(q.Facts, func(fact string) string {
		if strings.HasPrefix(fact, gate.Undo+": ") {
			fact += "; to bring them back: tgctl undo " + q.ID
		}
		return fact
	})
}

func questionTo(q approval.Question) *pb.Approval {
	return &pb.Approval{
		Id: q.ID, State: states[q.State], Created: timestamppb.New(q.Created), Expires: timestamppb.New(q.Expires),
		Session: q.Session, Agent: q.Agent, Server: q.Server, Launch: q.Launch, Method: q.Method, Tool: q.Tool,
		Arguments: q.Params, ArgumentsBytes: uint64(q.ParamsBytes), Subject: q.Subject[:], Reason: q.Reason, Rule: q.Rule, Workflow: q.Workflow, Facts: factsTo(q),
		Call: q.Call, Attachment: q.Attachment, Decider: q.Decider, Surface: q.Surface, Approver: q.Approver, Note: q.Note,
		Waiting: uint32(q.Waiting), Parked: q.Parked, Spent: q.Spent, Edited: q.Edited, Level: cmp.Or(q.Level, string(gate.LevelWatch)),
		Good: momentTo(q.Good), Decided: momentTo(q.Decided),
		Device: q.Device, Colleagues: q.Device == "" && len(q.Statement) > 0, OnlyColleagues: approval.OnlyColleagues(&q),
	}
}

var matches = map[pb.GrantMatch]string{
	pb.GrantMatch_GRANT_MATCH_TOOL:      approval.MatchTool,
	pb.GrantMatch_GRANT_MATCH_ARGUMENTS: approval.MatchArgs,
	pb.GrantMatch_GRANT_MATCH_SOME:      approval.MatchSome,
	pb.GrantMatch_GRANT_MATCH_VERB:      approval.MatchVerb,
	pb.GrantMatch_GRANT_MATCH_PROGRAM:   approval.MatchProgram,
}

var scopes = map[pb.GrantScope]string{
	pb.GrantScope_GRANT_SCOPE_SESSION: approval.InSession,
	pb.GrantScope_GRANT_SCOPE_PROJECT: approval.InProject,
	pb.GrantScope_GRANT_SCOPE_ALWAYS:  approval.Always,
}

// nameOf returns the word for an enum value in one of the tables above, and "" for zero. A value
// that this daemon doesn't know becomes "?", which is refused.
func nameOf[K ~int32](words map[K]string, k K) string {
	if k == 0 {
		return ""
	}
	if word, ok := words[k]; ok {
		return word
	}
	return "?"
}

// keyOf returns the key of a value in a table, and the zero key for a value that is not in it.
func keyOf[K, V comparable](table map[K]V, value V) (key K) {
	for k, v := range table {
		if v == value {
			return k
		}
	}
	return key
}

// termsOf returns the terms of a grant, or nil if m is nil.
func termsOf(m *pb.GrantTerms) *approval.Terms {
	if m == nil {
		return nil
	}
	return &approval.Terms{
		For: m.GetFor().AsDuration(), Times: m.GetTimes(), Match: nameOf(matches, m.GetMatch()), Args: m.GetArguments(),
		Scope: nameOf(scopes, m.GetScope()),
	}
}

func grantTo(g approval.Grant) *pb.Grant {
	m := &pb.Grant{
		Id: g.ID, Created: timestamppb.New(g.Created), Expires: timestamppb.New(g.Expires), Times: g.Times, Used: g.Used,
		End: g.End, Agent: g.Agent, Server: g.Server, Launch: g.Launch, Method: g.Method, Tool: g.Tool, Workflow: g.Workflow,
		Rule: g.Rule, Facts: g.Facts, Match: keyOf(matches, g.Match), Scope: keyOf(scopes, g.Scope),
		Approval: g.Approval, Decider: g.Decider, Surface: g.Surface, Level: cmp.Or(g.Level, string(gate.LevelWatch)), Note: g.Note,
		Ended: momentTo(g.Ended), Grain: grainTo(g.Grain),
	}
	switch g.Scope {
	case approval.InSession:
		m.Session = g.Session
	case approval.InProject:
		m.Project = g.Project
	}
	if g.Match == approval.MatchSome {
		m.Arguments = slices.Sorted(maps.Keys(g.Members))
	}
	return m
}

func (v approvalsService) ListGrants(ctx context.Context, req *pb.ListGrantsRequest) (*pb.ListGrantsResponse, error) {
	grants, err := v.s.Approvals.Grants(ctx, req.GetAll())
	return &pb.ListGrantsResponse{Grants: each(grants, grantTo)}, err
}

func (v approvalsService) RevokeGrant(ctx context.Context, req *pb.RevokeGrantRequest) (*pb.RevokeGrantResponse, error) {
	ctx, who, err := v.s.decider(ctx, "revoking "+req.GetId())
	if err != nil {
		return nil, err
	}
	g, err := v.s.Approvals.Revoke(ctx, req.GetId(), who)
	return &pb.RevokeGrantResponse{Grant: grantTo(g)}, err
}

// grantsOn returns the grants in force that would approve the call that req describes. Project and
// arguments are compared only if req has them.
func (s *Server) grantsOn(ctx context.Context, req *pb.ExplainRequest) ([]*pb.Grant, error) {
	if s.Approvals == nil { // there are no grants without a daemon
		return nil, nil
	}
	grants, err := s.Approvals.Grants(ctx, false)
	if err != nil {
		return nil, err
	}
	method := cmp.Or(req.GetMethod(), "tools/call")
	said := req.GetArguments()
	if len(said) == 0 && method != "tools/call" {
		said = req.GetParams()
	}
	var on []*pb.Grant
	for _, g := range grants {
		switch {
		case g.Server != req.GetServer() || g.Method != method || g.Tool != req.GetSubject():
		case req.GetAgent() != "" && g.Agent != req.GetAgent():
		case g.Scope == approval.InProject && req.GetProject() != "" && g.Project != req.GetProject():
		case approval.IsGrain(g.Match) && !g.Grain.Covers(s.Grain(ctx, cmp.Or(req.GetProject(), g.Project), said)):
		case len(said) > 0 && !approval.Admits(&g, said):
		default:
			on = append(on, grantTo(g))
		}
	}
	return on, nil
}
