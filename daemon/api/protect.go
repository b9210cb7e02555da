package api

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/thoughtgate/thoughtgated/daemon/session"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Protect is for people only, although it tightens: it makes the daemon write to
// an agent's files for a long time to come.
func (v sessionsService) Protect(ctx context.Context, req *pb.ProtectRequest) (*pb.ProtectResponse, error) {
	ctx, who, err := v.s.decider(ctx, "protecting an agent")
	if err != nil {
		return nil, err
	}
	return &pb.ProtectResponse{}, v.s.Guard.Put(ctx, who, req.GetId(), req.GetText())
}

func (v sessionsService) Unprotect(ctx context.Context, req *pb.UnprotectRequest) (*pb.UnprotectResponse, error) {
	ctx, who, err := v.s.decider(ctx, "unprotecting an agent")
	if err != nil {
		return nil, err
	}
	reports, err := v.s.Guard.End(ctx, who, req.GetId())
	if err != nil {
		return nil, err
	}
	files := each(reports, func(r agentconf.Report) *pb.FileReport {
		return &pb.FileReport{Path: r.Path, State: string(r.State), Notes: r.Notes}
	})
	return &pb.UnprotectResponse{Attached: v.attachedTo(req.GetId()), Files: files}, nil
}

// attachedTo counts the shims that lines of a protection have started.
func (v sessionsService) attachedTo(protection string) uint32 {
	n := uint32(0)
	for _, a := range v.s.Sessions.Attachments() {
		if a.Lasts == protection {
			n++
		}
	}
	return n
}

func (v sessionsService) ListProtections(_ context.Context, req *pb.ListProtectionsRequest) (*pb.ListProtectionsResponse, error) {
	v.s.Guard.Look() // who asks again is told how it is by then
	resp := &pb.ListProtectionsResponse{}
	for _, st := range v.s.Guard.List() {
		p := st.Protection
		m := &pb.Protection{
			Id: p.ID, Agent: p.Agent, Paths: p.Paths(), Servers: p.Servers(), Since: timestamppb.New(st.Since), Repair: p.Repair,
			Lost: st.Decay.Lost, Added: st.Decay.Added, Problem: st.Problem, Repairs: uint32(st.Repairs),
			Ending: st.Ending, Shim: p.Line.Shim, Attached: v.attachedTo(p.ID), Backups: p.Backups(), Checked: momentTo(st.Checked),
		}
		if req.GetWhole() {
			text, err := p.Text()
			if err != nil {
				return nil, err
			}
			m.Text = text
		}
		resp.Protections = append(resp.Protections, m)
	}
	return resp, nil
}

// runTo describes a run of a protected agent as the session that it is.
func runTo(run session.AgentRun) *pb.Session {
	return &pb.Session{
		Spec:   &pb.SessionSpec{Id: run.ID, Agent: run.Agent, Project: run.Project},
		Opened: timestamppb.New(run.Since), Pid: run.PID, Attached: uint32(run.Attached), Protection: run.Protection,
	}
}
