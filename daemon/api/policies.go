package api

import (
	"cmp"
	"context"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/policy"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// policiesService serves Policies.
type policiesService struct {
	pb.UnimplementedPoliciesServer
	s *Server
}

func (v policiesService) Validate(_ context.Context, req *pb.ValidateRequest) (*pb.ValidateResponse, error) {
	path, set, problems := v.s.Policies.Validate(req.GetPath())
	resp := &pb.ValidateResponse{Path: path, Problems: diagnosticsTo(problems)}
	if set != nil {
		resp.Set = setTo(*set)
	}
	return resp, nil
}

func (v policiesService) Get(context.Context, *pb.GetPolicySetRequest) (*pb.PolicySet, error) {
	set := v.s.Policies.Describe()
	m := setTo(set)
	for i, f := range set.Files {
		if f.Changed {
			m.Files[i].Loaded = f.Loaded
		}
	}
	m.Detail = detailTo(v.s.Policies.Detail())
	return m, nil
}

func detailTo(d policy.Detail) *pb.PolicyDetail {
	m := &pb.PolicyDetail{Sources: entriesTo(d.Sources), Rules: entriesTo(d.Rules), Policies: entriesTo(d.Policies)}
	for _, w := range d.Workflows {
		one := &pb.PolicyWorkflow{
			Name: w.Name, File: w.Place.File, Line: uint32(w.Place.Line), Asks: string(w.Destination.Type), Timeout: durationpb.New(w.Timeout),
			Require: cmp.Or(string(w.Require), "default"), Redact: w.RedactFields,
		}
		for _, surface := range w.Surfaces {
			one.Surfaces = append(one.Surfaces, string(surface))
		}
		if s := &w.Destination; s.Type == config.DestinationSlack {
			one.Slack = &pb.SlackDestination{
				Channel: s.Channel, BotToken: s.BotTokenEnv, AppToken: s.AppTokenEnv, Mention: s.Mention, Approvers: s.Approvers,
			}
		}
		m.Workflows = append(m.Workflows, one)
	}
	return m
}

func entriesTo(entries []policy.Entry) []*pb.PolicyEntry {
	var all []*pb.PolicyEntry
	for _, e := range entries {
		all = append(all, &pb.PolicyEntry{
			Cited: citationTo(e.Cited), Sources: e.Sources, Agents: e.Agents, Methods: e.Methods, Workflow: e.Workflow,
		})
	}
	return all
}
