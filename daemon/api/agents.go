package api

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/agent"
	"github.com/thoughtgate/thoughtgated/internal/proc"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// agentsService implements the Agents service.
type agentsService struct {
	pb.UnimplementedAgentsServer
	s *Server

	mu      sync.Mutex              // guards the fields below
	callers map[string]proc.Process // callers of the runs under way, by run id
}

// waitingEvents is the capacity of the channel of a run's events.
const waitingEvents = 64

// Run starts a program that does not descend from the caller. So it requires a caller that may
// decide: an agent must not have another agent do what it may not.
func (v *agentsService) Run(req *pb.RunAgentRequest, stream grpc.ServerStreamingServer[pb.RunEvent]) error {
	ctx, _, err := v.s.decider(stream.Context(), fmt.Sprintf("running the agent %q", req.GetName()))
	if err != nil {
		return err
	}
	line, err := lineOf(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(v.s.ending, func() { cancel(fmt.Errorf("the daemon is stopping: %w", gate.ErrNotRunning)) })()

	events := make(chan agent.Event, waitingEvents)
	var result agent.Result
	var failed error
	var running sync.WaitGroup
	running.Go(func() {
		defer close(events)
		result, failed = v.s.Agents.Run(ctx, agent.Request{
			Name: req.GetName(), Prompt: req.GetPrompt(), Cwd: req.GetCwd(), Timeout: req.GetTimeout().AsDuration(), Env: req.GetEnv(),
		}, events)
	})
	defer running.Wait()
	var unsent error
	id := "" // no caller is recorded while id is empty
	defer func() { v.setRunCaller(id, proc.Process{}) }()
	for e := range events {
		if e.Kind == agent.KindStarted {
			id = e.ID
			v.setRunCaller(id, line[0])
		}
		if unsent == nil {
			if unsent = stream.Send(runEventTo(e)); unsent != nil {
				cancel(unsent)
			}
		}
	}
	if failed != nil {
		return failed
	}
	if unsent != nil {
		return unsent
	}
	return stream.Send(&pb.RunEvent{Event: &pb.RunEvent_Ended{Ended: &pb.RunEnded{
		Exit: int32(result.Exit), Reason: result.Reason, StopReason: result.Stop, Result: result.Raw,
	}}})
}

// setRunCaller records the caller of a run; the zero Process removes the run.
func (v *agentsService) setRunCaller(id string, caller proc.Process) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if caller == (proc.Process{}) {
		delete(v.callers, id)
		return
	}
	v.callers[id] = caller
}

func runEventTo(e agent.Event) *pb.RunEvent {
	switch e.Kind {
	case agent.KindStarted:
		return &pb.RunEvent{Event: &pb.RunEvent_Started{Started: &pb.RunStarted{Id: e.ID, Session: e.Session, Pid: int32(e.PID)}}}
	case agent.KindText:
		return &pb.RunEvent{Event: &pb.RunEvent_Text{Text: &pb.RunText{Text: e.Text}}}
	case agent.KindUpdate:
		return &pb.RunEvent{Event: &pb.RunEvent_Update{Update: &pb.RunUpdate{Kind: strings.ToValidUTF8(e.Word, ""), Line: strings.ToValidUTF8(e.Text, "\uFFFD"), Raw: e.Raw}}}
	case agent.KindStderr:
		return &pb.RunEvent{Event: &pb.RunEvent_Stderr{Stderr: &pb.RunStderr{Line: strings.ToValidUTF8(e.Text, "\uFFFD")}}}
	case agent.KindHeld, agent.KindDenied:
		return &pb.RunEvent{Event: &pb.RunEvent_Asked{Asked: &pb.RunAsked{
			Tool: e.Tool, Denied: e.Kind == agent.KindDenied, Approval: e.Approval, Reason: strings.ToValidUTF8(e.Text, "\uFFFD"),
		}}}
	}
	return &pb.RunEvent{Event: &pb.RunEvent_Note{Note: &pb.RunNote{Text: strings.ToValidUTF8(e.Text, "\uFFFD")}}}
}

// Cancel is allowed for the process that started the run, and for callers that may decide.
func (v *agentsService) Cancel(ctx context.Context, req *pb.CancelRunRequest) (*pb.CancelRunResponse, error) {
	line, err := lineOf(ctx)
	if err != nil {
		return nil, err
	}
	v.mu.Lock()
	own := v.callers[req.GetId()] == line[0]
	v.mu.Unlock()
	if !own {
		if _, _, err := v.s.decider(ctx, "ending a run"); err != nil {
			return nil, err
		}
	}
	if !v.s.Agents.Cancel(req.GetId()) {
		return nil, fmt.Errorf("no run %q: %w", req.GetId(), gate.ErrNotFound)
	}
	return &pb.CancelRunResponse{}, nil
}

func (v *agentsService) List(context.Context, *pb.ListAgentsRequest) (*pb.ListAgentsResponse, error) {
	return &pb.ListAgentsResponse{Agents: each(v.s.Agents.Agents(), func(a agent.Known) *pb.Agent {
		return &pb.Agent{
			Name: a.Name, Description: a.Description, Protocol: string(a.Protocol), Command: a.Command,
			Timeout: durationpb.New(a.Timeout), Pass: a.Pass, Servers: slices.Sorted(maps.Keys(a.Servers)), Running: uint32(a.Running),
		}
	})}, nil
}
