package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/test/tempdir"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// noon is the time of the tests, in a zone other than UTC.
var noon = time.Date(2026, time.November, 20, 12, 0, 0, 0, time.FixedZone("", 3600))

// fakeDaemon serves the control socket with what a test has put into it.
type fakeDaemon struct {
	pb.UnimplementedDaemonServer
	pb.UnimplementedProcessesServer
	socket string
	build  string // sent with each response; an old daemon sends none

	status    *pb.StatusResponse
	set       *pb.PolicySet
	validate  *pb.ValidateResponse
	reload    *pb.ReloadResponse
	reloadErr error
	stopped   func()
	processes []*pb.Process
	sessions  []*pb.Session
	records   []*pb.AuditRecord
	pins      []*pb.Pin
	diffs     map[string]*pb.PinDiff // by name
	servers   []*pb.Server
	protected []*pb.Protection
	starts    []*pb.ServerStart

	mu        sync.Mutex
	approvals []*pb.Approval
	decisions []*pb.Decision
	reports   []*pb.ReportRequest
	decideErr error
	query     *pb.AuditQuery // the last one
	auditErr  error
	validated []string
	accepted  []*pb.AcceptPinsRequest
	servants  []*pb.AcceptServerRequest
	agreed    []*pb.AcceptStartRequest
	forgotten []*pb.ForgetStartRequest
	acceptErr error

	protectErr error
	undone     []string // ids of protections

	explain  func(*pb.ExplainRequest) (*pb.Explanation, error)
	explains []*pb.ExplainRequest
	test     func(*pb.TestPoliciesRequest) *pb.TestPoliciesResponse
	ext      fakeExt

	backtest []*pb.BacktestEvent
	back     *pb.BacktestRequest // the last one
}

// startFake serves a fake daemon until the test ends.
func startFake(t *testing.T) *fakeDaemon {
	t.Helper()
	f := &fakeDaemon{socket: filepath.Join(shortDir(t), "control.sock")}
	t.Cleanup(f.serve(t))
	return f
}

// serve serves f at its socket until stop is called.
func (f *fakeDaemon) serve(t *testing.T) (stop func()) {
	t.Helper()
	l, err := net.Listen("unix", f.socket)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(f.socket, 0o600); err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(client.MaxMessage), grpc.MaxSendMsgSize(client.MaxMessage), f.sayBuild())
	pb.RegisterDaemonServer(server, f)
	pb.RegisterProcessesServer(server, f)
	pb.RegisterApprovalsServer(server, fakeApprovals{fakeDaemon: f})
	pb.RegisterAuditServer(server, fakeAudit{fakeDaemon: f})
	pb.RegisterPoliciesServer(server, fakePolicies{fakeDaemon: f})
	pb.RegisterSessionsServer(server, fakeSessions{fakeDaemon: f})
	pb.RegisterPinsServer(server, fakePins{fakeDaemon: f})
	pb.RegisterServersServer(server, fakeServers{fakeDaemon: f})
	pb.RegisterExtensionsServer(server, fakeExtensions{fakeDaemon: f})
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	return sync.OnceFunc(func() {
		server.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Errorf("fake daemon: %v", err)
		}
	})
}

// shortDir returns a private directory with a path short enough for a socket in it.
func shortDir(t *testing.T) string {
	t.Helper()
	dir := tempdir.New(t, "", "tgctl")
	return dir
}

func (f *fakeDaemon) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	return f.status, nil
}

func (f *fakeDaemon) Reload(context.Context, *pb.ReloadRequest) (*pb.ReloadResponse, error) {
	return f.reload, f.reloadErr
}

// Metrics returns one metric in each form.
func (f *fakeDaemon) Metrics(_ context.Context, req *pb.MetricsRequest) (*pb.MetricsResponse, error) {
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

func (f *fakeDaemon) Stop(context.Context, *pb.StopRequest) (*pb.StopResponse, error) {
	f.stopped()
	return &pb.StopResponse{}, nil
}

func (f *fakeDaemon) List(context.Context, *pb.ListProcessesRequest) (*pb.ListProcessesResponse, error) {
	return &pb.ListProcessesResponse{Processes: f.processes}, nil
}

type fakeApprovals struct {
	pb.UnimplementedApprovalsServer
	*fakeDaemon
}

func (f fakeApprovals) List(_ context.Context, req *pb.ListApprovalsRequest) (*pb.ListApprovalsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := &pb.ListApprovalsResponse{}
	for _, q := range f.approvals {
		if req.GetAll() || isOpen(q) {
			out.Approvals = append(out.Approvals, q)
		}
	}
	return out, nil
}

func (f fakeApprovals) Get(_ context.Context, req *pb.GetApprovalRequest) (*pb.Approval, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, q := range f.approvals {
		if q.GetId() == req.GetId() {
			return proto.CloneOf(q), nil
		}
	}
	return nil, client.NewError(client.ReasonNotFound, "there is no question "+req.GetId())
}

// Watch polls for changes.
func (f fakeApprovals) Watch(_ *pb.WatchApprovalsRequest, stream grpc.ServerStreamingServer[pb.ApprovalEvent]) error {
	told := map[string]*pb.Approval{}
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		var news []*pb.Approval
		f.mu.Lock()
		for _, q := range f.approvals {
			if before := told[q.GetId()]; before == nil && isOpen(q) || before != nil && !proto.Equal(before, q) {
				told[q.GetId()] = proto.CloneOf(q)
				news = append(news, told[q.GetId()])
			}
		}
		f.mu.Unlock()
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

func (f fakeApprovals) Report(_ context.Context, r *pb.ReportRequest) (*pb.ReportResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reports = append(f.reports, r)
	return &pb.ReportResponse{}, nil
}

func (f fakeApprovals) DenyFrom(ctx context.Context, r *pb.DenyFromRequest) (*pb.DenyFromResponse, error) {
	out := &pb.DenyFromResponse{}
	open, err := f.List(ctx, &pb.ListApprovalsRequest{})
	for _, q := range open.GetApprovals() {
		if q.GetServer() != r.GetServer() {
			continue
		}
		done, err := f.Decide(ctx, &pb.Decision{Id: q.GetId(), Subject: q.GetSubject(), Answer: pb.Answer_ANSWER_DENY, Note: r.GetNote(), Surface: r.GetSurface()})
		if err != nil {
			return nil, err
		}
		out.Denied = append(out.Denied, done.GetApproval())
	}
	return out, err
}

func (f fakeApprovals) Decide(_ context.Context, d *pb.Decision) (*pb.Decided, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.decisions = append(f.decisions, d)
	if f.decideErr != nil {
		return nil, f.decideErr
	}
	for _, q := range f.approvals {
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
		q.Arguments, q.Note, q.Surface, q.Decider, q.Decided = nil, d.GetNote(), d.GetSurface(), "ana (uid 1000)", timestamppb.New(noon)
		return &pb.Decided{Approval: proto.CloneOf(q)}, nil
	}
	return nil, client.NewError(client.ReasonNotFound, "there is no question "+d.GetId())
}

type fakeAudit struct {
	pb.UnimplementedAuditServer
	*fakeDaemon
}

func (f fakeAudit) Read(q *pb.AuditQuery, stream grpc.ServerStreamingServer[pb.AuditRecord]) error {
	f.mu.Lock()
	f.query = q
	f.mu.Unlock()
	if f.auditErr != nil {
		return f.auditErr
	}
	for _, r := range f.records {
		if r.GetSeq() >= q.GetFrom() {
			if err := stream.Send(r); err != nil {
				return err
			}
		}
	}
	if q.GetFollow() {
		<-stream.Context().Done()
	}
	return nil
}

type fakePolicies struct {
	pb.UnimplementedPoliciesServer
	*fakeDaemon
}

func (f fakePolicies) Validate(_ context.Context, req *pb.ValidateRequest) (*pb.ValidateResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.validated = append(f.validated, req.GetPath())
	return f.validate, nil
}

func (f fakePolicies) Get(context.Context, *pb.GetPolicySetRequest) (*pb.PolicySet, error) {
	return f.set, nil
}

func (f fakePolicies) Explain(stream grpc.BidiStreamingServer[pb.ExplainRequest, pb.Explanation]) error {
	for {
		q, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		f.mu.Lock()
		f.explains = append(f.explains, q)
		f.mu.Unlock()
		e, err := f.explain(q)
		if err != nil {
			return err
		}
		if err := stream.Send(e); err != nil {
			return err
		}
	}
}

func (f fakePolicies) Test(_ context.Context, req *pb.TestPoliciesRequest) (*pb.TestPoliciesResponse, error) {
	return f.test(req), nil
}

func (f fakePolicies) Backtest(req *pb.BacktestRequest, stream grpc.ServerStreamingServer[pb.BacktestEvent]) error {
	f.mu.Lock()
	f.back = req
	f.mu.Unlock()
	for _, e := range f.backtest {
		if err := stream.Send(e); err != nil {
			return err
		}
	}
	return nil
}

type fakeSessions struct {
	pb.UnimplementedSessionsServer
	*fakeDaemon
}

func (f fakeSessions) List(context.Context, *pb.ListSessionsRequest) (*pb.ListSessionsResponse, error) {
	return &pb.ListSessionsResponse{Sessions: f.sessions}, nil
}

func (f fakeSessions) ListProtections(context.Context, *pb.ListProtectionsRequest) (*pb.ListProtectionsResponse, error) {
	return &pb.ListProtectionsResponse{Protections: f.protected}, nil
}

func (f fakeSessions) Protect(_ context.Context, req *pb.ProtectRequest) (*pb.ProtectResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.protectErr != nil {
		return nil, f.protectErr
	}
	f.protected = append(f.protected, &pb.Protection{Id: req.GetId(), Agent: "claude-code", Text: req.GetText()})
	return &pb.ProtectResponse{}, nil
}

func (f fakeSessions) Unprotect(_ context.Context, req *pb.UnprotectRequest) (*pb.UnprotectResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.undone = append(f.undone, req.GetId())
	return &pb.UnprotectResponse{Attached: 1}, nil
}

type fakePins struct {
	pb.UnimplementedPinsServer
	*fakeDaemon
}

func (f fakePins) List(_ context.Context, req *pb.ListPinsRequest) (*pb.ListPinsResponse, error) {
	out := &pb.ListPinsResponse{}
	for _, p := range f.pins {
		if req.GetServer() == "" || req.GetServer() == p.GetRef().GetServer() {
			out.Pins = append(out.Pins, p)
		}
	}
	return out, nil
}

func (f fakePins) Diff(_ context.Context, ref *pb.PinRef) (*pb.PinDiff, error) {
	for _, p := range f.pins {
		if proto.Equal(p.GetRef(), ref) {
			d := f.diffs[ref.GetName()]
			if d == nil {
				d = &pb.PinDiff{}
			}
			d.Pin = p
			return d, nil
		}
	}
	return nil, client.NewError(client.ReasonNotFound, "there is no pin "+ref.GetName())
}

func (f fakePins) Accept(_ context.Context, req *pb.AcceptPinsRequest) (*pb.AcceptPinsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.accepted = append(f.accepted, req)
	if f.acceptErr != nil {
		return nil, f.acceptErr
	}
	out := &pb.AcceptPinsResponse{}
	for _, a := range req.GetPins() {
		for _, p := range f.pins {
			if proto.Equal(p.GetRef(), a.GetRef()) {
				done := proto.CloneOf(p)
				done.Reason, done.Waiting, done.Noticed, done.Held = 0, nil, nil, false
				done.Accepted, done.Since, done.Decider = a.GetDefinition(), timestamppb.New(noon), "ana (uid 1000)"
				out.Pins = append(out.Pins, done)
			}
		}
	}
	return out, nil
}

type fakeServers struct {
	pb.UnimplementedServersServer
	*fakeDaemon
}

func (f fakeServers) List(context.Context, *pb.ListServersRequest) (*pb.ListServersResponse, error) {
	return &pb.ListServersResponse{Servers: f.servers}, nil
}

func (f fakeServers) Accept(_ context.Context, req *pb.AcceptServerRequest) (*pb.AcceptServerResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.servants = append(f.servants, req)
	return &pb.AcceptServerResponse{Accepted: 3}, f.acceptErr
}

func (f fakeServers) ListStarts(context.Context, *pb.ListStartsRequest) (*pb.ListStartsResponse, error) {
	return &pb.ListStartsResponse{Starts: f.starts}, nil
}

func (f fakeServers) AcceptStart(_ context.Context, req *pb.AcceptStartRequest) (*pb.ServerStart, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.agreed = append(f.agreed, req)
	for _, s := range f.starts {
		if bytes.Equal(s.GetDigest(), req.GetDigest()) && f.acceptErr == nil {
			done := proto.CloneOf(s)
			done.Accepted, done.Decider = timestamppb.New(noon), "ana (uid 1000)"
			return done, nil
		}
	}
	return nil, f.acceptErr
}

func (f fakeServers) ForgetStart(_ context.Context, req *pb.ForgetStartRequest) (*pb.ForgetStartResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgotten = append(f.forgotten, req)
	return &pb.ForgetStartResponse{}, f.acceptErr
}

// console runs tgctl and keeps its output.
type console struct {
	app      *app
	out, err bytes.Buffer
	env      map[string]string
}

// newConsole returns a terminal of 80 columns whose tgctl connects to socket.
func newConsole(socket string) *console {
	c := &console{env: map[string]string{"THOUGHTGATE_CONTROL": socket}}
	c.app = &app{App: &connect.App{
		App: &ui.App{
			In: strings.NewReader(""), Out: &c.out, Err: &c.err,
			InTerminal: true, OutTerminal: true, ErrTerminal: true, Columns: 80,
			Getenv: func(name string) string { return c.env[name] },
			Now:    func() time.Time { return noon },
		},
		Skew:       &connect.Skew{},
		Environ:    func() []string { return nil },
		Executable: func() (string, error) { return "/nowhere/tgctl", nil },
	}}
	return c
}

// pipe replaces the terminal by pipes.
func (c *console) pipe() *console {
	c.app.InTerminal, c.app.OutTerminal, c.app.ErrTerminal, c.app.Columns = false, false, false, 0
	return c
}

// run runs one command line and returns its exit code.
func (c *console) run(t *testing.T, args ...string) int {
	t.Helper()
	c.out.Reset()
	c.err.Reset()
	return c.app.run(t.Context(), args)
}

// at returns the time d after noon.
func at(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(noon.Add(d)) }
