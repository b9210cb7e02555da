package api

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/thoughtgate/thoughtgated/daemon/approval"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

var matches = map[pb.GrantMatch]string{
	pb.GrantMatch_GRANT_MATCH_TOOL:      approval.MatchTool,
	pb.GrantMatch_GRANT_MATCH_ARGUMENTS: approval.MatchArgs,
	pb.GrantMatch_GRANT_MATCH_SOME:      approval.MatchSome,
}

var scopes = map[pb.GrantScope]string{
	pb.GrantScope_GRANT_SCOPE_SESSION: approval.InSession,
	pb.GrantScope_GRANT_SCOPE_PROJECT: approval.InProject,
	pb.GrantScope_GRANT_SCOPE_ALWAYS:  approval.Always,
}

// nameOf is the word for an enum in one of the tables above. One that this daemon
// doesn't know is no word, and refused.
func nameOf[K ~int32](words map[K]string, k K) string {
	if k == 0 {
		return ""
	}
	if word, ok := words[k]; ok {
		return word
	}
	return "?"
}

func numberOf[K ~int32](words map[K]string, word string) K {
	for k, w := range words {
		if w == word {
			return k
		}
	}
	return 0
}

// termsOf are the terms of a grant, nil for none.
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
		Rule: g.Rule, Facts: g.Facts, Match: numberOf(matches, g.Match), Scope: numberOf(scopes, g.Scope),
		Approval: g.Approval, Decider: g.Decider, Surface: g.Surface, Level: cmp.Or(g.Level, string(gate.LevelWatch)), Note: g.Note,
		Ended: momentTo(g.Ended),
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
	if err != nil {
		return nil, err
	}
	return &pb.ListGrantsResponse{Grants: each(grants, grantTo)}, nil
}

func (v approvalsService) RevokeGrant(ctx context.Context, req *pb.RevokeGrantRequest) (*pb.RevokeGrantResponse, error) {
	ctx, who, err := v.s.decider(ctx, "revoking "+req.GetId())
	if err != nil {
		return nil, err
	}
	g, err := v.s.Approvals.Revoke(ctx, req.GetId(), who)
	if err != nil {
		return nil, err
	}
	return &pb.RevokeGrantResponse{Grant: grantTo(g)}, nil
}

// grantsOn are the grants in force that would let through what a question is about:
// in that project, if it says one, and with those arguments, if it says any.
func (s *Server) grantsOn(ctx context.Context, req *pb.ExplainRequest) ([]*pb.Grant, error) {
	if s.Approvals == nil { // no daemon, no grants
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
		case len(said) > 0 && !approval.Admits(&g, said):
		default:
			on = append(on, grantTo(g))
		}
	}
	return on, nil
}
