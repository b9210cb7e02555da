package api

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/hook"
	"github.com/thoughtgate/thoughtgated/daemon/session"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// sessionsService implements the Sessions service.
type sessionsService struct {
	pb.UnimplementedSessionsServer
	s *Server
}

func (v sessionsService) Open(req *pb.OpenSessionRequest, stream grpc.ServerStreamingServer[pb.SessionEvent]) error {
	ctx := stream.Context()
	spec, err := specOf(req.GetSpec())
	if err != nil {
		return err
	}
	if err := v.checkProfile(ctx, &spec); err != nil {
		return err
	}
	line, err := lineOf(ctx)
	if err != nil {
		return err
	}
	if !v.s.Sessions.Owns(line[0], spec.ID) { // the owner was checked when it first opened the session
		if err := v.outside(ctx); err != nil {
			return err
		}
		if err := v.checkLeft(req.GetSpec()); err != nil {
			return err
		}
	}
	opened, err := v.s.Sessions.Open(ctx, line[0], spec)
	if err != nil {
		return err
	}
	defer func() {
		if v.s.ending.Err() != nil {
			v.s.Sessions.Suspend(opened)
		} else {
			v.s.Sessions.Leave(opened)
		}
	}()
	set := v.s.Policies.Describe()
	profile := cmp.Or(spec.Profile, set.Profile)
	err = stream.Send(&pb.SessionEvent{Event: &pb.SessionEvent_Opened{Opened: &pb.SessionOpened{
		ShimSocket: v.s.Shim, Profile: profileTo(profile), Config: set.Source,
		Warnings: append(v.s.Warnings(), v.s.projectWarnings(spec.Project)...),
	}}})
	if err != nil {
		return err
	}
	return v.s.standing(ctx, func(ctx context.Context) error { return sendEvents(ctx, opened, stream) })
}

// checkProfile checks that a session that is looser than the set in force is opened by a caller
// that may decide.
func (v sessionsService) checkProfile(ctx context.Context, spec *session.Spec) error {
	if spec.Profile != gate.Development {
		return nil
	}
	// Only a checked session keeps the development profile, now and after a reload. Any other has
	// the profile of the set in force.
	if v.s.Policies.Describe().Profile == gate.Development {
		spec.Profile = ""
		return nil
	}
	_, _, err := v.s.decider(ctx, "a session with the development profile")
	return err
}

// maxNamed is how many ungoverned servers an error names.
const maxNamed = 20

// checkLeft refuses a session in which servers stay ungoverned, if the configuration wants that.
func (v sessionsService) checkLeft(spec *pb.SessionSpec) error {
	set, left := v.s.Policies.Describe(), spec.GetLeft()
	if !set.FailUngoverned || len(left) == 0 {
		return nil
	}
	names := each(left[:min(len(left), maxNamed)], func(l *pb.LeftServer) string {
		if l.GetServer() == "" {
			return l.GetWhy()
		}
		return fmt.Sprintf("%s in %s: %s", l.GetServer(), l.GetPath(), l.GetWhy())
	})
	if more := len(left) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("%w, since servers of %s would stay ungoverned (%s), and %s says `fail_on: ungoverned`; remove or disable these servers, or change that setting",
		gate.ErrForbidden, spec.GetAgent(), strings.Join(names, "; "), set.Source)
}

// sendEvents sends the events of a session's shims to its wrap until ctx ends.
func sendEvents(ctx context.Context, opened *session.Session, stream grpc.ServerStreamingServer[pb.SessionEvent]) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-opened.Events():
			err := stream.Send(&pb.SessionEvent{Event: &pb.SessionEvent_Shim{Shim: &pb.ShimEvent{
				Attachment: e.Attachment, Server: e.Server, Gone: e.Gone, Attached: uint32(e.Attached), Pid: e.Agent.PID, Start: e.Agent.Start,
				Claimed: e.Claimed,
			}}})
			if err != nil {
				return err
			}
		}
	}
}

// outside checks that a session is not opened by a process below another session or below an agent.
// The agent could otherwise choose another type and folder for itself, and so other rules and
// grants.
func (v sessionsService) outside(ctx context.Context) error {
	const what = "a session within another"
	c, err := inspectCaller(ctx)
	if err != nil {
		return err
	}
	// A process that was started while a killed wrap ran is accepted here: a wrap that starts a
	// daemon does so before that daemon knows when the killed one ran.
	why := v.s.below(c, true)
	if why == "" {
		return markCallerPassed(ctx, c)
	}
	v.s.refused(ctx, c, what, why)
	return fmt.Errorf("%s: %w for agents: %s; open it from a terminal that no agent has started", what, gate.ErrForbidden, why)
}

// projectWarnings returns what a person should know about the project's own files.
func (s *Server) projectWarnings(folder string) []string {
	var all []string
	for _, f := range s.Projects(folder) {
		if len(f.Problems) > 0 {
			all = append(all, fmt.Sprintf("%s is invalid, so every call is denied here; see: tgctl policy check %s", f.Path, f.Path))
		} else {
			all = append(all, fmt.Sprintf("%s tightens the rules here", f.Path))
		}
	}
	return all
}

// specOf checks and converts what a wrap says about itself.
func specOf(m *pb.SessionSpec) (session.Spec, error) {
	if id, err := hex.DecodeString(m.GetId()); err != nil || len(id) < 16 || len(id) > 32 {
		return session.Spec{}, fmt.Errorf("the session id %q must be 16 to 32 random bytes in hex: %w", m.GetId(), gate.ErrInvalid)
	}
	if !filepath.IsAbs(m.GetProject()) {
		return session.Spec{}, fmt.Errorf("the project folder %q is not absolute: %w", m.GetProject(), gate.ErrInvalid)
	}
	remotes, err := remotesOf(m.GetRemotes())
	if err != nil {
		return session.Spec{}, err
	}
	return session.Spec{
		Remotes: remotes,
		ID:      m.GetId(), Agent: m.GetAgent(), Command: m.GetCommand(), Project: m.GetProject(),
		Profile: profileOf[m.GetProfile()], Keep: m.GetKeep(), Outlasting: m.GetOutlasting(), Tools: m.GetTools(),
		Files: filesOf(m.GetFiles()), Ungoverned: ungovernedOf(m.GetUngoverned()),
	}, nil
}

func filesOf(files []*pb.ConfigFile) []session.File {
	return each(files, func(f *pb.ConfigFile) session.File { return session.File{Path: f.GetPath(), Journal: f.GetJournal()} })
}

// Limits of what a wrap says about servers behind an address.
const (
	maxRemotes     = 512
	maxRemoteBytes = 256 << 10 // of one, as a message
)

// remotesOf checks and converts servers behind an address. No error quotes one.
func remotesOf(servers []*pb.RemoteServer) ([]agentconf.Remote, error) {
	if len(servers) > maxRemotes {
		return nil, fmt.Errorf("%d servers behind an address, of at most %d: %w", len(servers), maxRemotes, gate.ErrInvalid)
	}
	for _, r := range servers {
		if size := proto.Size(r); r.GetServer() == "" || size > maxRemoteBytes || r.GetFrom() != "" && !filepath.IsAbs(r.GetFrom()) {
			return nil, fmt.Errorf("server %q behind an address: it needs a name, an absolute path of a file, and at most %d bytes: %w", r.GetServer(), maxRemoteBytes, gate.ErrInvalid)
		}
	}
	return each(servers, remoteOf), nil
}

func remoteOf(r *pb.RemoteServer) agentconf.Remote {
	return agentconf.Remote{
		Server: r.GetServer(), Address: r.GetAddress(), Transport: agentconf.Transport(r.GetTransport()), From: r.GetFrom(), Helper: r.GetHelper(),
		Login: r.GetLogin(), Syntax: r.GetSyntax(), Own: r.GetOwn(),
		Headers: each(r.GetHeaders(), func(h *pb.RemoteHeader) agentconf.Header {
			return agentconf.Header{Name: h.GetName(), Template: h.GetTemplate(), Variable: h.GetVariable(), Optional: h.GetOptional()}
		}),
	}
}

func ungovernedOf(servers []*pb.UngovernedServer) []session.Ungoverned {
	return each(servers, func(u *pb.UngovernedServer) session.Ungoverned {
		return session.Ungoverned{Server: u.GetServer(), Path: u.GetPath(), How: u.GetHow()}
	})
}

// Amend is allowed only for the wrap that opened the session, since it changes how files are
// restored.
func (v sessionsService) Amend(ctx context.Context, req *pb.AmendSessionRequest) (*pb.AmendSessionResponse, error) {
	line, err := lineOf(ctx)
	if err != nil {
		return nil, err
	}
	remotes, err := remotesOf(req.GetRemotes())
	if err != nil {
		return nil, err
	}
	err = v.s.Sessions.Amend(ctx, line[0], req.GetId(), filesOf(req.GetFiles()), remotes, ungovernedOf(req.GetUngoverned()))
	return &pb.AmendSessionResponse{}, err
}

// Close is allowed for the wrap that opened the session, and for callers that may decide. It ends
// the session's servers.
func (v sessionsService) Close(ctx context.Context, req *pb.CloseSessionRequest) (*pb.CloseSessionResponse, error) {
	line, err := lineOf(ctx)
	if err != nil {
		return nil, err
	}
	own := v.s.Sessions.Owns(line[0], req.GetId())
	if !own {
		if _, _, err := v.s.decider(ctx, "closing a session"); err != nil {
			return nil, err
		}
	}
	if req.GetRestored() {
		return &pb.CloseSessionResponse{}, v.s.Sessions.Restored(line[0], req.GetId())
	}
	served := v.s.Sessions.Served(req.GetId())
	drained, remaining, err := v.s.Sessions.Drain(ctx, req.GetId(), own)
	return &pb.CloseSessionResponse{Drained: uint32(drained), Remaining: uint32(remaining), Served: uint32(served)}, err
}

func (v sessionsService) List(_ context.Context, req *pb.ListSessionsRequest) (*pb.ListSessionsResponse, error) {
	resp := &pb.ListSessionsResponse{}
	for _, st := range v.s.Sessions.List() {
		if !st.Present && st.Problem == "" && !req.GetRestoring() {
			continue // it has ended, and its files are being checked again
		}
		spec := st.Session.Spec
		m := &pb.Session{
			Spec: &pb.SessionSpec{
				Id: spec.ID, Agent: spec.Agent, Command: spec.Command, Project: spec.Project,
				Profile: profileTo(spec.Profile), Keep: spec.Keep,
			},
			Opened: timestamppb.New(st.Session.Opened), Attached: uint32(st.Attached),
			Orphaned: !st.Present, Problem: st.Problem, HooksSilent: st.Silent,
		}
		if spec.Profile == "" {
			m.Spec.Profile = pb.Profile_PROFILE_UNSPECIFIED
		}
		if st.Present {
			m.Pid = st.Session.Wrap.PID
		}
		m.Spec.Files = each(st.Files, func(f session.File) *pb.ConfigFile { return &pb.ConfigFile{Path: f.Path} })
		m.Spec.Ungoverned = each(st.Ungoverned, func(u session.Ungoverned) *pb.UngovernedServer {
			return &pb.UngovernedServer{Server: u.Server, Path: u.Path, How: u.How}
		})
		resp.Sessions = append(resp.Sessions, m)
	}
	for _, run := range v.s.Sessions.AgentRuns() {
		resp.Sessions = append(resp.Sessions, runTo(run))
	}
	for _, a := range v.s.Sessions.Attachments() {
		for _, m := range resp.Sessions {
			if id := m.GetSpec().GetId(); a.Shim.Remote && (id == a.Shim.Session || id == a.Claims) {
				m.Remote++
			}
		}
	}
	resp.Sessions = withUnseen(resp.Sessions, v.s.AgentHooks.Unseen())
	return resp, nil
}

// withUnseen adds warnings to their sessions. A session that has ended is added for them.
func withUnseen(sessions []*pb.Session, all []hook.Unseen) []*pb.Session {
	for _, u := range all {
		i := slices.IndexFunc(sessions, func(s *pb.Session) bool { return s.GetSpec().GetId() == u.Session })
		if i < 0 {
			i = len(sessions)
			sessions = append(sessions, &pb.Session{
				Spec: &pb.SessionSpec{Id: u.Session, Agent: u.Agent, Project: u.Project}, Opened: timestamppb.New(u.Since), Ended: timestamppb.New(u.At),
			})
		}
		sessions[i].Unseen = append(sessions[i].Unseen, unseenTo(u))
	}
	return sessions
}

func unseenTo(u hook.Unseen) *pb.Unseen {
	return &pb.Unseen{At: timestamppb.New(u.At), Session: u.Session, Agent: u.Agent, Count: uint32(u.Count), Calls: u.Calls, Text: u.Text}
}

// Protect requires a caller that may decide, although it tightens: it makes the daemon write to an
// agent's files for a long time.
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

// attachedTo counts the shims that command lines of a protection started.
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
	v.s.Guard.Look() // start a check, whose result a later call returns
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

// runTo describes a run of a protected agent as a session.
func runTo(run session.AgentRun) *pb.Session {
	return &pb.Session{
		Spec:   &pb.SessionSpec{Id: run.ID, Agent: run.Agent, Project: run.Project},
		Opened: timestamppb.New(run.Since), Pid: run.PID, Attached: uint32(run.Attached), Protection: run.Protection, HooksSilent: run.Silent,
	}
}
