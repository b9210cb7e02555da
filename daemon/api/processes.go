package api

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/offer"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/supervise"
	"github.com/thoughtgate/thoughtgated/daemon/session"
	"github.com/thoughtgate/thoughtgated/internal/proc"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Kinds of attached shims. Their processes are not kept running by the daemon.
const (
	kindServer = "server" // with a server of its own
	kindClient = "client" // of a shared server
	kindRemote = "remote" // of a server behind an address
)

// processesService implements the Processes service.
type processesService struct {
	pb.UnimplementedProcessesServer
	s *Server
}

func (v processesService) List(context.Context, *pb.ListProcessesRequest) (*pb.ListProcessesResponse, error) {
	var kept []*pb.Process
	for _, fleet := range v.s.Fleets {
		for _, i := range fleet.List() {
			kept = append(kept, keptTo(i))
		}
	}
	var all []*pb.Process
	for _, a := range v.s.Sessions.Attachments() {
		// isRun does not find a run whose process has just ended; Host shows that it is not a
		// server.
		if m := v.s.attachedTo(a); !isRun(kept, m) && !a.Shim.Host {
			v.s.noteLogin(m)
			all = append(all, m)
		}
	}
	all = append(all, kept...)
	weigh(all)
	return &pb.ListProcessesResponse{Processes: all}, nil
}

// isRun reports whether m is the attachment of an agent run in kept, which submits the requests of
// an agent to its host. If so, it copies the attachment's data to the run.
func isRun(kept []*pb.Process, m *pb.Process) bool {
	for _, k := range kept {
		if k.GetKind() == supervise.KindAgent && k.GetPid() != 0 && k.GetPid() == m.GetShimPid() {
			k.Attachment, k.Session, k.Agent, k.Profile = m.GetAttachment(), m.GetSession(), m.GetAgent(), m.GetProfile()
			k.Judged, k.Denied, k.Pending = m.GetJudged(), m.GetDenied(), m.GetPending()
			return true
		}
	}
	return false
}

// Restart requires a caller that may decide: it ends a program that others use.
func (v processesService) Restart(ctx context.Context, req *pb.RestartProcessRequest) (*pb.RestartProcessResponse, error) {
	kind, name, id := req.GetKind(), req.GetName(), req.GetId()
	ctx, who, err := v.s.decider(ctx, fmt.Sprintf("restarting the %s %q", kind, name))
	if err != nil {
		return nil, err
	}
	v.s.Logger.Info("asked to restart", "kind", kind, "name", name, "by", who)
	return v.s.restart(ctx, kind, name, id)
}

func (s *Server) restart(ctx context.Context, kind, name, id string) (*pb.RestartProcessResponse, error) {
	for _, fleet := range s.Fleets {
		there, err := fleet.Restart(ctx, kind, name, id)
		if !there {
			continue
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		resp := &pb.RestartProcessResponse{}
		if err != nil {
			resp.Failure = err.Error()
		}
		if i, ok := s.kept(kind, name, id); ok {
			resp.Process = keptTo(i)
		}
		return resp, nil
	}
	return nil, notKept(kind, name)
}

// kept returns the information of the fleets about one program.
func (s *Server) kept(kind, name, id string) (supervise.Info, bool) {
	for _, fleet := range s.Fleets {
		for _, i := range fleet.List() {
			if i.Kind == kind && i.Name == name && (id == "" || i.ID == id) {
				return i, true
			}
		}
	}
	return supervise.Info{}, false
}

func notKept(kind, name string) error {
	return fmt.Errorf("the daemon runs no %s %q: %w", kind, name, gate.ErrNotFound)
}

// attachedTo describes a shim and the server behind it. A client of a shared server, or of an
// extension's tools, has the state of that server.
func (s *Server) attachedTo(a session.Attached) *pb.Process {
	m := &pb.Process{
		Attachment: a.Shim.Attachment, Server: a.Shim.Server, Launch: a.Shim.Launch, Command: a.Shim.Command,
		Session: a.Shim.Session, Agent: a.Shim.Agent, Profile: string(a.Profile),
		ShimPid: a.Peer.PID, ServerPid: a.Server.PID, Since: timestamppb.New(a.Since),
		Judged: a.Judged, Denied: a.Denied, Pending: uint32(a.Held), Build: a.Build,
		Unanswered: uint32(a.Unanswered), UnansweredSince: momentTo(a.Silent),

		Kind: kindServer, Name: a.Shim.Server, Id: a.Shim.Attachment, Pid: a.Server.PID, State: supervise.Running.String(),
	}
	shared, ok := supervise.Info{}, false
	switch {
	case a.Shim.Remote:
		state, failure := s.remoteStateOf(a)
		m.Kind, m.State = kindRemote, state.String()
		if failure != nil {
			m.Error = failure.Error()
		}
		return m
	case a.Shim.InMemory:
		m.Kind = kindClient
		if shared, ok = s.kept(supervise.KindBackend, a.Shim.Server, ""); !ok {
			shared, ok = s.kept(supervise.KindExtension, strings.TrimPrefix(a.Shim.Server, offer.Prefix), "")
		}
	}
	switch {
	case ok:
		m.State = shared.Status.State.String()
	case a.Server.PID == 0:
		m.State = supervise.Starting.String()
	case !lives(a.Server):
		m.State, m.Pid = supervise.Stopped.String(), 0
	}
	return m
}

// remoteStateOf returns the state of a server behind an address, as one session knows it.
func (s *Server) remoteStateOf(a session.Attached) (supervise.State, error) {
	switch answered, failure := s.RemoteState(a.Shim.Attachment); {
	case failure != nil:
		return supervise.Degraded, failure
	case answered:
		return supervise.Running, nil
	}
	return supervise.Starting, nil
}

// lives reports whether a process is alive, as far as the system shows.
func lives(p proc.Process) bool {
	now, err := proc.Look(p.PID)
	return err == nil && now.Process == p || err != nil && !errors.Is(err, os.ErrProcessDone)
}

// keptTo describes a program that the daemon keeps running.
func keptTo(i supervise.Info) *pb.Process {
	m := &pb.Process{
		Command: i.Command, Since: momentTo(i.Began), Kind: i.Kind, Name: i.Name, Id: i.ID, State: i.Status.State.String(),
		StateSince: momentTo(i.Status.Since), Pid: int32(i.Status.PID), Restarts: uint32(i.Status.Restarts),
		Budget: uint32(i.Status.Budget), Next: momentTo(i.Status.Next), Clients: uint32(i.Clients),
	}
	if err := i.Status.Err; err != nil {
		m.Error = err.Error()
	}
	return m
}

// weigh sets the memory use of each process.
func weigh(all []*pb.Process) {
	var pids []int32
	var of []*pb.Process
	for _, p := range all {
		if p.GetPid() != 0 {
			pids, of = append(pids, p.GetPid()), append(of, p)
		}
	}
	for i, m := range proc.MemoryOf(pids...) {
		of[i].Memory, of[i].SharedTwice = m.Bytes, m.Twice
	}
}

// lookAgain is the interval at which a follower checks whether its program is still kept or was
// replaced. There is no notification.
const lookAgain = time.Second

// Logs is allowed for any caller: the lines are what the program chose to write.
func (v processesService) Logs(req *pb.LogsRequest, stream grpc.ServerStreamingServer[pb.LogLine]) error {
	f := &follower{s: v.s, req: req, stream: stream}
	tail, ok := f.tail()
	if !ok {
		return notKept(req.GetKind(), req.GetName())
	}
	lines := tail.Lines()
	if last := int(req.GetLast()); last > 0 && len(lines) > last {
		lines = lines[len(lines)-last:]
	}
	if err := f.send(lines...); err != nil || !req.GetFollow() {
		return err
	}
	return v.s.standing(stream.Context(), func(ctx context.Context) error { return f.follow(ctx, tail) })
}

// follower sends the standard error of one program to a stream.
type follower struct {
	s      *Server
	req    *pb.LogsRequest
	stream grpc.ServerStreamingServer[pb.LogLine]
	number uint64 // of the last line sent
}

func (f *follower) tail() (*supervise.Tail, bool) {
	for _, fleet := range f.s.Fleets {
		if tail, ok := fleet.Tail(f.req.GetKind(), f.req.GetName(), f.req.GetId()); ok {
			return tail, true
		}
	}
	return nil, false
}

func (f *follower) send(lines ...supervise.Line) error {
	for _, line := range lines {
		if line.Number <= f.number {
			continue
		}
		f.number = line.Number
		if err := f.stream.Send(&pb.LogLine{Number: line.Number, Time: timestamppb.New(line.Time), Text: line.Text}); err != nil {
			return err
		}
	}
	return nil
}

// follow sends each line as it comes, until ctx ends or the program is not kept any more. If the
// program is replaced, for example by a newer version, it follows the new one.
func (f *follower) follow(ctx context.Context, tail *supervise.Tail) error {
	for {
		if err := f.followOne(ctx, tail); err != nil || ctx.Err() != nil {
			return err
		}
		next, ok := f.tail()
		switch {
		case !ok && f.req.GetKind() == supervise.KindAgent:
			return nil // its run has ended
		case !ok:
			return notKept(f.req.GetKind(), f.req.GetName())
		case next == tail:
			return nil // it has ended for good
		}
		tail, f.number = next, 0
	}
}

// followOne sends the lines of one tail until no more can come.
func (f *follower) followOne(ctx context.Context, tail *supervise.Tail) error {
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		defer cancel()
		f.await(ctx, tail)
	})
	defer watch.Wait()
	defer cancel()
	for line := range tail.Follow(ctx, f.number) {
		if err := f.send(line); err != nil {
			return err
		}
	}
	return f.send(tail.Lines()...) // the last lines
}

// await returns when the program has another tail than this one, or when nothing more will be
// written to it.
func (f *follower) await(ctx context.Context, tail *supervise.Tail) {
	ticker := time.NewTicker(lookAgain)
	defer ticker.Stop()
	for {
		if now, ok := f.tail(); !ok || now != tail {
			return
		}
		i, ok := f.s.kept(f.req.GetKind(), f.req.GetName(), f.req.GetId())
		if ok && i.Kind == supervise.KindAgent && (i.Status.State == supervise.Stopped || i.Status.State == supervise.Failed) {
			return // an agent's run is never restarted
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
