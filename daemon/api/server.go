// Package api serves the daemon's two sockets.
//
// It is a table of services, each a file that translates: a request into a
// call of the package that knows, its answer into a message, its error into a
// status. Nothing is decided here but who may call. shim.sock serves Gate and
// nothing else, so that what an agent is given can ask but not approve;
// control.sock serves the rest.
package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/daemon/agent"
	"github.com/thoughtgate/thoughtgated/daemon/approval"
	"github.com/thoughtgate/thoughtgated/daemon/audit"
	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/handover"
	"github.com/thoughtgate/thoughtgated/daemon/metrics"
	"github.com/thoughtgate/thoughtgated/daemon/pin"
	"github.com/thoughtgate/thoughtgated/daemon/policy"
	"github.com/thoughtgate/thoughtgated/daemon/presence"
	"github.com/thoughtgate/thoughtgated/daemon/protect"
	"github.com/thoughtgate/thoughtgated/daemon/session"
	"github.com/thoughtgate/thoughtgated/daemon/supervise"
	"github.com/thoughtgate/thoughtgated/daemon/trust"
	"github.com/thoughtgate/thoughtgated/internal/proc"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Config is what a server stands on.
type Config struct {
	Sessions   *session.Registry
	Agents     *agent.Runs
	Approvals  *approval.Queue
	Audit      *audit.Log
	Recorder   gate.Recorder
	Metrics    *metrics.Metrics
	Policies   Policies
	Pins       *pin.Book
	Trust      *trust.Book
	Handed     *handover.Book
	Stages     Stages
	Guard      *protect.Guard
	Presence   *presence.Guard
	Fleets     []supervise.Fleet // of the programs that the daemon keeps
	Extensions Extensions
	Logger     *slog.Logger
	Build      string
	Started    time.Time
	Activated  bool   // the sockets came from the service manager
	Control    string // path of control.sock
	Shim       string // path of shim.sock
	AuditDir   string
	Warnings   func() []string
	Projects   func(folders ...string) []ProjectFile // that count in the folders, or with none wherever agents work now
	Stop       func()                                // asks the daemon to end
}

// Server serves the API.
type Server struct {
	Config
	control, shim *grpc.Server
	health        *health.Server

	self   proc.Info // this one
	cgroup string
	uid    int

	ending context.Context // is over when the server is to end
	end    context.CancelFunc

	mu     sync.Mutex
	closed bool
	quiet  *quietListener // of control; nil until it is served
}

// Policies is the policy set in force and what can be done about it.
type Policies interface {
	// Describe tells of the set in force.
	Describe() PolicySet
	// Detail tells all that the set in force says.
	Detail() policy.Detail
	// Reload puts what is on disk in force as a whole, or fails with
	// everything that is wrong and changes nothing.
	Reload(ctx context.Context, by string) (PolicySet, []config.Diagnostic, error)
	// Failure tells of the last reload, when it failed.
	Failure() (string, time.Time)
	// Validate reads the file at path (empty: the one in force) and puts
	// nothing in force. The set is nil when there are errors.
	Validate(path string) (string, *PolicySet, []config.Diagnostic)
	// Shared reports whether a server with this id and command line is to be one
	// process for all sessions.
	Shared(server string, command []string) bool
	// Options is what shims are told.
	Options() config.Shim
}

// PolicySet describes one set.
type PolicySet struct {
	policy.Description
	Changed []string // paths of files that are something else on disk now
	Since   time.Time
	By      string
	Project bool // it is a project's own file, which is judged beside another set
	Checked int  // policies that were checked whole
	Waiting []policy.Waiting
	Refused []policy.Refused
}

// ProjectFile is a .thoughtgate.yaml that counts for an agent at work.
type ProjectFile struct {
	Path     string
	Digest   string // empty when it can't be used
	Rules    int
	Problems []config.Diagnostic // why it can't be used
}

// newConnection is how long a connection may take to say that it speaks HTTP/2.
const newConnection = 5 * time.Second

// New returns a server that is ready to serve.
func New(c Config) *Server {
	s := &Server{Config: c, health: health.NewServer(), uid: os.Getuid()}
	s.ending, s.end = context.WithCancel(context.Background()) // a lifetime: until Close
	pid := int32(os.Getpid())
	s.self, _ = proc.Look(pid) // where it can't be told, nobody is mistaken for a child of ours
	s.cgroup, _ = proc.Cgroup(pid)
	options := append(s.options(), grpc.MaxConcurrentStreams(64), grpc.ConnectionTimeout(newConnection))
	s.shim = grpc.NewServer(append(slices.Clip(options), grpc.Creds(peerCredentials{arrivals: newArrivals(newConnection)}))...)
	pb.RegisterGateServer(s.shim, gateService{s: s})

	s.control = grpc.NewServer(append(slices.Clip(options), grpc.Creds(peerCredentials{}))...)
	pb.RegisterSessionsServer(s.control, sessionsService{s: s})
	pb.RegisterApprovalsServer(s.control, approvalsService{s: s})
	pb.RegisterPoliciesServer(s.control, policiesService{s: s})
	pb.RegisterPresenceServer(s.control, presenceService{s: s})
	pb.RegisterPinsServer(s.control, pinsService{s: s})
	pb.RegisterServersServer(s.control, serversService{s: s})
	pb.RegisterAuditServer(s.control, auditService{s: s})
	pb.RegisterProcessesServer(s.control, processesService{s: s})
	pb.RegisterExtensionsServer(s.control, extensionsService{s: s})
	pb.RegisterAgentsServer(s.control, &agentsService{s: s, callers: map[string]proc.Process{}})
	pb.RegisterDaemonServer(s.control, daemonService{s: s})
	grpc_health_v1.RegisterHealthServer(s.control, s.health)
	return s
}

// options are those of every server here.
func (s *Server) options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(client.MaxMessage), grpc.MaxSendMsgSize(client.MaxMessage),
		grpc.InitialWindowSize(client.Window), grpc.InitialConnWindowSize(client.Window), // see client.Dial
		grpc.WaitForHandlers(true), // what they stand on is closed next
		grpc.ChainUnaryInterceptor(s.guardUnary), grpc.ChainStreamInterceptor(s.guardStream),
	}
}

// Serve serves both listeners until Close is called or one of them fails. The
// listeners must hand out connections that know their peer.
func (s *Server) Serve(control, shim net.Listener) error {
	var group errgroup.Group
	group.Go(func() error { return s.serve(s.shim, shim, "shim.sock") })
	quiet := quietly(control)
	s.mu.Lock()
	s.quiet = quiet
	s.mu.Unlock()
	group.Go(func() error { return s.serve(s.control, quiet, "control.sock") })
	return group.Wait()
}

func (s *Server) serve(server *grpc.Server, l net.Listener, name string) error {
	if err := server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		s.Close() // one socket alone is no daemon
		return fmt.Errorf("serve %s: %w", name, err)
	}
	return nil
}

// Close makes Serve return. Calls under way are answered first; streams that
// would go on are ended with an error, and whoever reads them looks for the next
// daemon. It may be called more than once, and returns when all is over.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	s.health.Shutdown()
	s.shim.Stop() // before the streams of sessions end: a session that ends takes its shims along
	s.end()
	if s.quiet != nil {
		drain(s.control, s.quiet)
	}
	s.control.Stop()
}

// guardUnary turns a panic into an error of the one call and a record of it in
// the log, and errors of the daemon into statuses.
func (s *Server) guardUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	defer s.recovered(info.FullMethod, &err)
	_ = grpc.SetHeader(ctx, s.builds()) // fails only for a call that has ended
	resp, err = handler(ctx, req)
	return resp, toStatus(err)
}

func (s *Server) guardStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	defer s.recovered(info.FullMethod, &err)
	_ = stream.SetHeader(s.builds())
	return toStatus(handler(srv, stream))
}

// builds goes out with each answer, so that a client of another release knows.
func (s *Server) builds() metadata.MD { return metadata.Pairs(client.BuildHeader, s.Build) }

func (s *Server) recovered(method string, err *error) {
	if v := recover(); v != nil {
		s.Logger.Error("panic in a call", "method", method, "panic", v, "stack", string(debug.Stack()))
		*err = status.Error(codes.Internal, "thoughtgated has a fault; its log has the details")
	}
}

// each makes messages of what the daemon's packages know.
func each[T, M any](all []T, to func(T) M) []M {
	var messages []M
	for _, one := range all {
		messages = append(messages, to(one))
	}
	return messages
}

// momentTo is t, or nil for none.
func momentTo(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
