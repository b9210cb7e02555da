package consoletest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/test/tempdir"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Noon is the time of the tests, in a zone other than UTC.
var Noon = time.Date(2026, time.November, 20, 12, 0, 0, 0, time.FixedZone("", 3600))

// Daemon serves the control socket with what a test has put into it. Once a program uses the socket, a test holds Mu
// while it changes something; so do the handlers.
type Daemon struct {
	Socket string

	Mu    sync.Mutex
	Build string // sent with each response; an old daemon sends none

	Status    *pb.StatusResponse
	Set       *pb.PolicySet
	Validate  *pb.ValidateResponse
	Reload    *pb.ReloadResponse
	ReloadErr error
	Stopped   func()
	Processes []*pb.Process
	Sessions  []*pb.Session
	Records   []*pb.AuditRecord
	Pins      []*pb.Pin
	Diffs     map[string]*pb.PinDiff // by name
	Servers   []*pb.Server
	Protected []*pb.Protection
	Starts    []*pb.ServerStart
	Logins    *pb.ListLoginsResponse
	Presence  *pb.PresenceState

	Approvals []*pb.Approval
	Sample    *pb.Approval // what Ask asks; one of Questions by default
	Grants    []*pb.Grant
	Decisions []*pb.Decision
	Reports   []*pb.ReportRequest
	DecideErr error
	Query     *pb.AuditQuery    // the last one
	Later     []*pb.AuditRecord // sent to who follows the log, after Records
	AuditErr  error
	Validated []string
	Accepted  []*pb.AcceptPinsRequest
	Servants  []*pb.AcceptServerRequest
	Agreed    []*pb.AcceptStartRequest
	Forgotten []*pb.ForgetStartRequest
	AcceptErr error
	Login     []*pb.LoginEvent // of each login
	LoginErr  error            // that of a login to a server without an address
	LoggingIn []*pb.LoginRequest
	Logout    *pb.LogoutResponse
	LoggedOut []*pb.LogoutRequest

	ProtectErr error
	Undone     []string // ids of protections

	Copies   []*pb.Copy
	Plan     *pb.UndoPlan
	Restored []*pb.RestoreRequest

	Explain  func(*pb.ExplainRequest) (*pb.Explanation, error)
	Explains []*pb.ExplainRequest
	Test     func(*pb.TestPoliciesRequest) *pb.TestPoliciesResponse
	Ext      extensions

	Backtest []*pb.BacktestEvent
	Back     *pb.BacktestRequest // the last one
}

// Start serves a fake daemon until the test ends.
func Start(t *testing.T) *Daemon {
	t.Helper()
	f := &Daemon{Socket: filepath.Join(ShortDir(t), "control.sock")}
	t.Cleanup(f.Serve(t))
	return f
}

// Serve serves f at its socket until stop is called.
func (f *Daemon) Serve(t *testing.T) (stop func()) {
	t.Helper()
	l, err := net.Listen("unix", f.Socket)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(f.Socket, 0o600); err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(client.MaxMessage), grpc.MaxSendMsgSize(client.MaxMessage), grpc.UnaryInterceptor(f.handle), grpc.StreamInterceptor(f.handleStream))
	pb.RegisterDaemonServer(server, daemonServer{d: f})
	pb.RegisterProcessesServer(server, daemonServer{d: f})
	pb.RegisterApprovalsServer(server, approvalsServer{d: f})
	pb.RegisterPresenceServer(server, presenceServer{d: f})
	pb.RegisterAuditServer(server, auditServer{d: f})
	pb.RegisterPoliciesServer(server, policiesServer{d: f})
	pb.RegisterSessionsServer(server, sessionsServer{d: f})
	pb.RegisterUndoServer(server, undoServer{d: f})
	pb.RegisterPinsServer(server, pinsServer{d: f})
	pb.RegisterServersServer(server, serversServer{d: f})
	pb.RegisterExtensionsServer(server, extensionsServer{d: f})
	pb.RegisterLoginsServer(server, loginsServer{d: f})
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	return sync.OnceFunc(func() {
		server.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Errorf("fake daemon: %v", err)
		}
	})
}

// Workflows returns workflows that list a surface, and one, term, that lists the terminal only.
func Workflows(surface string) *pb.PolicySet {
	return &pb.PolicySet{Detail: &pb.PolicyDetail{Workflows: []*pb.PolicyWorkflow{
		{Name: "ops", Asks: "local", Require: "any", Surfaces: []string{"terminal", surface}},
		{Name: "term", Asks: "local", Require: "any", Surfaces: []string{"terminal"}},
		{Name: "presence", Asks: "local", Require: "presence", Surfaces: []string{"terminal", surface}},
		{Name: "team", Asks: "slack", Require: "any", Surfaces: []string{"slack", surface}},
	}}}
}

// Ask adds questions of a workflow, like Sample. Their subject names their id.
func (f *Daemon) Ask(workflow string, ids ...string) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	for _, id := range ids {
		q := proto.CloneOf(cmp.Or(f.Sample, Questions()[1]))
		q.Id, q.Workflow, q.Subject = id, workflow, []byte("the subject of "+id)
		f.Approvals = append(f.Approvals, q)
	}
}

// Change changes a question.
func (f *Daemon) Change(id string, change func(*pb.Approval)) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	for _, q := range f.Approvals {
		if q.GetId() == id {
			change(q)
		}
	}
}

// Decided returns the answers that came, as "ANSWER ID SUBJECT SURFACE".
func (f *Daemon) Decided() []string {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	all := []string{}
	for _, d := range f.Decisions {
		all = append(all, fmt.Sprintf("%s %s %s %s", d.GetAnswer(), d.GetId(), d.GetSubject(), d.GetSurface()))
	}
	return all
}

// ShortDir returns a private directory with a path short enough for a socket in it.
func ShortDir(t *testing.T) string {
	t.Helper()
	return tempdir.New(t, "", "tgctl")
}

type daemonServer struct {
	pb.UnimplementedDaemonServer
	pb.UnimplementedProcessesServer
	d *Daemon
}

func (s daemonServer) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	return s.d.Status, nil
}

func (s daemonServer) Reload(context.Context, *pb.ReloadRequest) (*pb.ReloadResponse, error) {
	return s.d.Reload, s.d.ReloadErr
}

// Metrics returns one metric in each form.
func (s daemonServer) Metrics(_ context.Context, req *pb.MetricsRequest) (*pb.MetricsResponse, error) {
	if !req.GetSamples() {
		return &pb.MetricsResponse{Text: []byte("# TYPE thoughtgate_sessions gauge\nthoughtgate_sessions 2\n")}, nil
	}
	return &pb.MetricsResponse{Samples: []*pb.Sample{
		{Name: "thoughtgate_sessions", Kind: "gauge", Value: 2},
		{Name: "thoughtgate_shims", Kind: "gauge"},
		{Name: "thoughtgate_judge_duration_seconds", Kind: "histogram", Value: 0.5, Count: 3, Buckets: []*pb.Bucket{{Bound: 0.0005, Value: 2}, {Bound: 1, Value: 3}}},
		{Name: "go_gc_duration_seconds", Kind: "summary", Buckets: []*pb.Bucket{{Bound: 0.5, Value: math.NaN()}}},
	}}, nil
}

func (s daemonServer) Stop(context.Context, *pb.StopRequest) (*pb.StopResponse, error) {
	s.d.Stopped()
	return &pb.StopResponse{}, nil
}

func (s daemonServer) List(context.Context, *pb.ListProcessesRequest) (*pb.ListProcessesResponse, error) {
	return &pb.ListProcessesResponse{Processes: s.d.Processes}, nil
}

type undoServer struct {
	pb.UnimplementedUndoServer
	d *Daemon
}

func (s undoServer) List(context.Context, *pb.ListCopiesRequest) (*pb.ListCopiesResponse, error) {
	return &pb.ListCopiesResponse{Copies: s.d.Copies}, nil
}

func (s undoServer) Plan(_ context.Context, req *pb.PlanUndoRequest) (*pb.UndoPlan, error) {
	if req.GetId() != s.d.Plan.GetCopy().GetId() {
		return nil, client.NewError(client.ReasonNotFound, "there is no copy "+req.GetId())
	}
	return s.d.Plan, nil
}

func (s undoServer) Restore(_ context.Context, req *pb.RestoreRequest) (*pb.Restored, error) {
	s.d.Restored = append(s.d.Restored, req)
	return &pb.Restored{Written: s.d.Plan.GetWrites() + s.d.Plan.GetReplaces(), Same: s.d.Plan.GetSame(), Kept: []*pb.Kept{{Name: "notes/b.txt", Now: "notes/b.txt.before-undo-1"}}}, nil
}

type approvalsServer struct {
	pb.UnimplementedApprovalsServer
	d *Daemon
}

func (s approvalsServer) List(_ context.Context, req *pb.ListApprovalsRequest) (*pb.ListApprovalsResponse, error) {
	out := &pb.ListApprovalsResponse{}
	for _, q := range s.d.Approvals {
		if req.GetAll() || q.GetState() == pb.ApprovalState_APPROVAL_STATE_OPEN {
			out.Approvals = append(out.Approvals, q)
		}
	}
	return out, nil
}

func (s approvalsServer) Get(_ context.Context, req *pb.GetApprovalRequest) (*pb.Approval, error) {
	for _, q := range s.d.Approvals {
		if q.GetId() == req.GetId() {
			return q, nil
		}
	}
	return nil, client.NewError(client.ReasonNotFound, "there is no question "+req.GetId())
}

// Watch polls for changes.
func (s approvalsServer) Watch(_ *pb.WatchApprovalsRequest, stream grpc.ServerStreamingServer[pb.ApprovalEvent]) error {
	told := map[string]*pb.Approval{}
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		var news []*pb.Approval
		s.d.Mu.Lock()
		for _, q := range s.d.Approvals {
			if before := told[q.GetId()]; before == nil && q.GetState() == pb.ApprovalState_APPROVAL_STATE_OPEN || before != nil && !proto.Equal(before, q) {
				told[q.GetId()] = proto.CloneOf(q)
				news = append(news, told[q.GetId()])
			}
		}
		s.d.Mu.Unlock()
		for _, q := range news {
			if err := stream.Send(&pb.ApprovalEvent{Approval: q}); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-stream.Context().Done():
			return nil
		}
	}
}

func (s approvalsServer) Report(_ context.Context, r *pb.ReportRequest) (*pb.ReportResponse, error) {
	s.d.Reports = append(s.d.Reports, r)
	return &pb.ReportResponse{}, nil
}

func (s approvalsServer) DenyFrom(ctx context.Context, r *pb.DenyFromRequest) (*pb.DenyFromResponse, error) {
	out := &pb.DenyFromResponse{}
	open, err := s.List(ctx, &pb.ListApprovalsRequest{})
	for _, q := range open.GetApprovals() {
		if q.GetServer() != r.GetServer() {
			continue
		}
		done, err := s.Decide(ctx, &pb.Decision{Id: q.GetId(), Subject: q.GetSubject(), Answer: pb.Answer_ANSWER_DENY, Note: r.GetNote(), Surface: r.GetSurface()})
		if err != nil {
			return nil, err
		}
		out.Denied = append(out.Denied, done.GetApproval())
	}
	return out, err
}

func (s approvalsServer) Decide(_ context.Context, d *pb.Decision) (*pb.Decided, error) {
	s.d.Decisions = append(s.d.Decisions, d)
	if s.d.DecideErr != nil {
		return nil, s.d.DecideErr
	}
	for _, q := range s.d.Approvals {
		if q.GetId() != d.GetId() {
			continue
		}
		if !bytes.Equal(q.GetSubject(), d.GetSubject()) {
			return nil, client.NewError(client.ReasonChanged, "the question is about something else now")
		}
		q.State = pb.ApprovalState_APPROVAL_STATE_APPROVED
		if d.GetAnswer() == pb.Answer_ANSWER_DENY {
			q.State = pb.ApprovalState_APPROVAL_STATE_REJECTED
		}
		q.Arguments, q.Note, q.Surface, q.Decider, q.Decided = nil, d.GetNote(), d.GetSurface(), "ana (uid 1000)", timestamppb.New(Noon)
		return &pb.Decided{Approval: q}, nil
	}
	return nil, client.NewError(client.ReasonNotFound, "there is no question "+d.GetId())
}

type auditServer struct {
	pb.UnimplementedAuditServer
	d *Daemon
}

// selects reports whether q selects r. Records that can't be read are selected by their number alone.
func selects(q *pb.AuditQuery, r *pb.AuditRecord) bool {
	rec, err := record.Parse(r.GetLine())
	glob := func(pattern, name string) bool {
		ok, _ := path.Match(pattern, name)
		return pattern == "" || ok
	}
	return r.GetSeq() >= q.GetFrom() && (err != nil || glob(q.GetServer(), rec.Server) && glob(q.GetTool(), rec.Tool) &&
		(q.GetKind() == "" || q.GetKind() == string(rec.Kind)) && (q.GetVerdict() == "" || q.GetVerdict() == rec.Verdict) &&
		(q.GetSession() == "" || q.GetSession() == rec.Session) && (q.Since == nil || !rec.Time.Before(q.Since.AsTime())) &&
		(q.Until == nil || rec.Time.Before(q.Until.AsTime())))
}

func (s auditServer) Read(q *pb.AuditQuery, stream grpc.ServerStreamingServer[pb.AuditRecord]) error {
	found, err := s.find(q)
	if err != nil {
		return err
	}
	for _, r := range found {
		if err := stream.Send(r); err != nil {
			return err
		}
	}
	if q.GetFollow() {
		<-stream.Context().Done()
	}
	return nil
}

// find returns the records that q selects.
func (s auditServer) find(q *pb.AuditQuery) ([]*pb.AuditRecord, error) {
	s.d.Mu.Lock()
	defer s.d.Mu.Unlock()
	s.d.Query = q
	var found []*pb.AuditRecord
	for _, r := range s.d.Records {
		if selects(q, r) {
			found = append(found, r)
		}
	}
	if n := int(q.GetLast()); n > 0 && len(found) > n {
		found = found[len(found)-n:]
	}
	if q.GetFollow() {
		found = append(found, s.d.Later...)
	}
	return found, s.d.AuditErr
}

type policiesServer struct {
	pb.UnimplementedPoliciesServer
	d *Daemon
}

func (s policiesServer) Validate(_ context.Context, req *pb.ValidateRequest) (*pb.ValidateResponse, error) {
	s.d.Validated = append(s.d.Validated, req.GetPath())
	return s.d.Validate, nil
}

func (s policiesServer) Get(context.Context, *pb.GetPolicySetRequest) (*pb.PolicySet, error) {
	return s.d.Set, nil
}

func (s policiesServer) Explain(stream grpc.BidiStreamingServer[pb.ExplainRequest, pb.Explanation]) error {
	for {
		q, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		s.d.Mu.Lock()
		s.d.Explains = append(s.d.Explains, q)
		s.d.Mu.Unlock()
		e, err := s.d.Explain(q)
		if err != nil {
			return err
		}
		if err := stream.Send(e); err != nil {
			return err
		}
	}
}

func (s policiesServer) Test(_ context.Context, req *pb.TestPoliciesRequest) (*pb.TestPoliciesResponse, error) {
	return s.d.Test(req), nil
}

func (s policiesServer) Backtest(req *pb.BacktestRequest, stream grpc.ServerStreamingServer[pb.BacktestEvent]) error {
	s.d.Mu.Lock()
	s.d.Back = req
	events := s.d.Backtest
	s.d.Mu.Unlock()
	for _, e := range events {
		if err := stream.Send(e); err != nil {
			return err
		}
	}
	return nil
}

type sessionsServer struct {
	pb.UnimplementedSessionsServer
	d *Daemon
}

func (s sessionsServer) List(context.Context, *pb.ListSessionsRequest) (*pb.ListSessionsResponse, error) {
	return &pb.ListSessionsResponse{Sessions: s.d.Sessions}, nil
}

func (s sessionsServer) ListProtections(context.Context, *pb.ListProtectionsRequest) (*pb.ListProtectionsResponse, error) {
	return &pb.ListProtectionsResponse{Protections: s.d.Protected}, nil
}

func (s sessionsServer) Protect(_ context.Context, req *pb.ProtectRequest) (*pb.ProtectResponse, error) {
	if s.d.ProtectErr != nil {
		return nil, s.d.ProtectErr
	}
	s.d.Protected = append(s.d.Protected, &pb.Protection{Id: req.GetId(), Agent: "claude-code", Text: req.GetText()})
	return &pb.ProtectResponse{}, nil
}

func (s sessionsServer) Unprotect(_ context.Context, req *pb.UnprotectRequest) (*pb.UnprotectResponse, error) {
	s.d.Undone = append(s.d.Undone, req.GetId())
	return &pb.UnprotectResponse{Attached: 1}, nil
}

type pinsServer struct {
	pb.UnimplementedPinsServer
	d *Daemon
}

func (s pinsServer) List(_ context.Context, req *pb.ListPinsRequest) (*pb.ListPinsResponse, error) {
	out := &pb.ListPinsResponse{}
	for _, p := range s.d.Pins {
		if req.GetServer() == "" || req.GetServer() == p.GetRef().GetServer() {
			out.Pins = append(out.Pins, p)
		}
	}
	return out, nil
}

func (s pinsServer) Diff(_ context.Context, ref *pb.PinRef) (*pb.PinDiff, error) {
	for _, p := range s.d.Pins {
		if proto.Equal(p.GetRef(), ref) {
			d := s.d.Diffs[ref.GetName()]
			if d == nil {
				d = &pb.PinDiff{}
			}
			d.Pin = p
			return d, nil
		}
	}
	return nil, client.NewError(client.ReasonNotFound, "there is no pin "+ref.GetName())
}

func (s pinsServer) Accept(_ context.Context, req *pb.AcceptPinsRequest) (*pb.AcceptPinsResponse, error) {
	s.d.Accepted = append(s.d.Accepted, req)
	if s.d.AcceptErr != nil {
		return nil, s.d.AcceptErr
	}
	out := &pb.AcceptPinsResponse{}
	for _, a := range req.GetPins() {
		for _, p := range s.d.Pins {
			if proto.Equal(p.GetRef(), a.GetRef()) {
				done := proto.CloneOf(p)
				done.Reason, done.Waiting, done.Noticed, done.Held = 0, nil, nil, false
				done.Accepted, done.Since, done.Decider = a.GetDefinition(), timestamppb.New(Noon), "ana (uid 1000)"
				out.Pins = append(out.Pins, done)
			}
		}
	}
	return out, nil
}

type serversServer struct {
	pb.UnimplementedServersServer
	d *Daemon
}

func (s serversServer) List(context.Context, *pb.ListServersRequest) (*pb.ListServersResponse, error) {
	return &pb.ListServersResponse{Servers: s.d.Servers}, nil
}

func (s serversServer) Accept(_ context.Context, req *pb.AcceptServerRequest) (*pb.AcceptServerResponse, error) {
	s.d.Servants = append(s.d.Servants, req)
	return &pb.AcceptServerResponse{Accepted: 3}, s.d.AcceptErr
}

func (s serversServer) ListStarts(context.Context, *pb.ListStartsRequest) (*pb.ListStartsResponse, error) {
	return &pb.ListStartsResponse{Starts: s.d.Starts}, nil
}

func (s serversServer) AcceptStart(_ context.Context, req *pb.AcceptStartRequest) (*pb.ServerStart, error) {
	s.d.Agreed = append(s.d.Agreed, req)
	for _, start := range s.d.Starts {
		if bytes.Equal(start.GetDigest(), req.GetDigest()) && s.d.AcceptErr == nil {
			done := proto.CloneOf(start)
			done.Accepted, done.Decider = timestamppb.New(Noon), "ana (uid 1000)"
			return done, nil
		}
	}
	return nil, s.d.AcceptErr
}

func (s serversServer) ForgetStart(_ context.Context, req *pb.ForgetStartRequest) (*pb.ForgetStartResponse, error) {
	s.d.Forgotten = append(s.d.Forgotten, req)
	return &pb.ForgetStartResponse{}, s.d.AcceptErr
}

// extensions holds what a test has put into a fake daemon about programs that the daemon
// runs.
type extensions struct {
	Installed []*pb.Extension
	Look      *pb.LookExtensionResponse
	Err       error // of requests that change something
	Events    []*pb.InvokeEvent
	Hang      bool // commands do not end by themselves
	Logs      []*pb.LogLine
	Failure   string // error of a program after a restart

	Looked    []string
	Installs  []*pb.InstallExtensionRequest
	Removals  []*pb.RemoveExtensionRequest
	Invoked   []*pb.InvokeRequest
	Set       []*pb.SetExtensionConfigRequest
	Restarts  []*pb.RestartProcessRequest
	Logged    []*pb.LogsRequest
	Cancelled chan struct{} // closed when a hanging command was cancelled
	Following chan struct{} // closed when a follower has got all lines
	Gone      error         // returned to a follower when ended is closed
	Ended     chan struct{}
}

func (s daemonServer) Restart(_ context.Context, req *pb.RestartProcessRequest) (*pb.RestartProcessResponse, error) {
	s.d.Ext.Restarts = append(s.d.Ext.Restarts, req)
	if s.d.Ext.Err != nil {
		return nil, s.d.Ext.Err
	}
	for _, p := range s.d.Processes {
		if p.GetKind() == req.GetKind() && p.GetName() == req.GetName() {
			if s.d.Ext.Failure == "" {
				p.State, p.Pid = "running", 4020
			}
			return &pb.RestartProcessResponse{Process: p, Failure: s.d.Ext.Failure}, nil
		}
	}
	return nil, client.NewError(client.ReasonNotFound, "the daemon keeps no such thing")
}

func (s daemonServer) Logs(req *pb.LogsRequest, stream grpc.ServerStreamingServer[pb.LogLine]) error {
	s.d.Mu.Lock()
	s.d.Ext.Logged = append(s.d.Ext.Logged, req)
	lines := s.d.Ext.Logs
	s.d.Mu.Unlock()
	if n := int(req.GetLast()); n > 0 && len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	for _, line := range lines {
		if err := stream.Send(line); err != nil {
			return err
		}
	}
	if !req.GetFollow() {
		return nil
	}
	if s.d.Ext.Following != nil {
		close(s.d.Ext.Following)
	}
	select {
	case <-s.d.Ext.Ended:
		return s.d.Ext.Gone
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
}

type extensionsServer struct {
	pb.UnimplementedExtensionsServer
	d *Daemon
}

func (s extensionsServer) find(name string) (*pb.Extension, error) {
	for _, e := range s.d.Ext.Installed {
		if e.GetManifest().GetName() == name {
			return e, nil
		}
	}
	return nil, client.NewError(client.ReasonNotFound, "no extension \""+name+"\" is installed")
}

func (s extensionsServer) List(context.Context, *pb.ListExtensionsRequest) (*pb.ListExtensionsResponse, error) {
	return &pb.ListExtensionsResponse{Extensions: s.d.Ext.Installed}, nil
}

func (s extensionsServer) Get(_ context.Context, req *pb.GetExtensionRequest) (*pb.Extension, error) {
	return s.find(req.GetName())
}

func (s extensionsServer) Look(_ context.Context, req *pb.LookExtensionRequest) (*pb.LookExtensionResponse, error) {
	s.d.Ext.Looked = append(s.d.Ext.Looked, req.GetDir())
	if s.d.Ext.Look == nil {
		return nil, client.NewError(client.ReasonInvalid, "the manifest is not valid", &pb.Diagnostic{
			File: req.GetDir() + "/extension.yaml", Line: 3, Column: 1, Severity: pb.Severity_SEVERITY_ERROR, Message: `unknown key "nmae"`, Hint: `did you mean "name"?`})
	}
	return s.d.Ext.Look, nil
}

func (s extensionsServer) Install(_ context.Context, req *pb.InstallExtensionRequest) (*pb.Extension, error) {
	s.d.Ext.Installs = append(s.d.Ext.Installs, req)
	if s.d.Ext.Err != nil {
		return nil, s.d.Ext.Err
	}
	return &pb.Extension{Manifest: s.d.Ext.Look.GetManifest(), Digest: req.GetDigest(), Dir: "/home/ana/.config/thoughtgate/extensions/scrubber",
		Process: &pb.Process{Kind: "extension", Name: "scrubber", State: "running", Pid: 4012}}, nil
}

func (s extensionsServer) Remove(_ context.Context, req *pb.RemoveExtensionRequest) (*pb.RemoveExtensionResponse, error) {
	s.d.Ext.Removals = append(s.d.Ext.Removals, req)
	if s.d.Ext.Err != nil {
		return nil, s.d.Ext.Err
	}
	out := &pb.RemoveExtensionResponse{}
	if !req.GetPurge() {
		out.Records, out.Values = 3, 1
	}
	return out, nil
}

func (s extensionsServer) Invoke(req *pb.InvokeRequest, stream grpc.ServerStreamingServer[pb.InvokeEvent]) error {
	s.d.Mu.Lock()
	s.d.Ext.Invoked = append(s.d.Ext.Invoked, req)
	events, err := s.d.Ext.Events, s.d.Ext.Err
	s.d.Mu.Unlock()
	if err != nil {
		return err
	}
	for _, e := range events {
		if err := stream.Send(e); err != nil {
			return err
		}
	}
	if s.d.Ext.Hang {
		<-stream.Context().Done()
		close(s.d.Ext.Cancelled)
	}
	return nil
}

func (s extensionsServer) GetConfig(_ context.Context, req *pb.GetExtensionConfigRequest) (*pb.ExtensionConfig, error) {
	e, err := s.find(req.GetName())
	return &pb.ExtensionConfig{Values: e.GetConfig()}, err
}

func (s extensionsServer) SetConfig(_ context.Context, req *pb.SetExtensionConfigRequest) (*pb.ExtensionConfig, error) {
	s.d.Ext.Set = append(s.d.Ext.Set, req)
	e, err := s.find(req.GetName())
	if err == nil {
		err = s.d.Ext.Err
	}
	if err != nil {
		return nil, err
	}
	e.Config = append(slices.Clone(e.GetConfig()), &pb.ExtensionValue{Key: req.GetKey(), Value: req.GetValue(), Set: true})
	return &pb.ExtensionConfig{Values: e.GetConfig()}, nil
}

// handle holds Mu while a request is handled, and answers with a copy: a test may change what it has put into f
// while gRPC encodes the answer. The answer reports the build, as that of the real daemon does.
func (f *Daemon) handle(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	if f.Build != "" {
		if err := grpc.SetHeader(ctx, metadata.Pairs(client.BuildHeader, f.Build)); err != nil {
			return nil, err
		}
	}
	resp, err := handle(ctx, req)
	if err != nil {
		return nil, err
	}
	return proto.Clone(resp.(proto.Message)), nil
}

// handleStream sends copies, as handle does. Its handlers hold Mu themselves where they look into f.
func (f *Daemon) handleStream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	return handle(srv, copying{stream, f})
}

type copying struct {
	grpc.ServerStream
	d *Daemon
}

func (s copying) SendMsg(m any) error {
	s.d.Mu.Lock()
	m = proto.Clone(m.(proto.Message))
	s.d.Mu.Unlock()
	return s.ServerStream.SendMsg(m)
}

type loginsServer struct {
	pb.UnimplementedLoginsServer
	d *Daemon
}

func (s loginsServer) List(context.Context, *pb.ListLoginsRequest) (*pb.ListLoginsResponse, error) {
	if s.d.Logins == nil {
		return &pb.ListLoginsResponse{}, nil
	}
	return s.d.Logins, nil
}

func (s loginsServer) Login(req *pb.LoginRequest, stream grpc.ServerStreamingServer[pb.LoginEvent]) error {
	s.d.Mu.Lock()
	s.d.LoggingIn = append(s.d.LoggingIn, req)
	events, err := s.d.Login, s.d.LoginErr
	s.d.Mu.Unlock()
	if err != nil && req.GetServer().GetAddress() == "" {
		return err
	}
	for _, event := range events {
		if err := stream.Send(event); err != nil {
			return err
		}
	}
	return nil
}

func (s loginsServer) Logout(_ context.Context, req *pb.LogoutRequest) (*pb.LogoutResponse, error) {
	s.d.LoggedOut = append(s.d.LoggedOut, req)
	if s.d.Logout == nil {
		return &pb.LogoutResponse{}, s.d.LoginErr
	}
	return s.d.Logout, nil
}
