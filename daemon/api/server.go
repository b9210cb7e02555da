// Package api serves the daemon's sockets.
//
// It is a table of services. Each service is a file that translates a request to a call of the
// responsible package, its result to a message, and its error to a status. The only decision made
// here is who may call. shim.sock serves only Gate, so that the socket given to agents can ask but
// not approve. fleet.sock serves only Fleet, for the courier of a fleet. control.sock serves the
// rest.
//
// The package is larger than most, because the protocol is: nearly all of it translates messages. The
// rest is what all services share, above all the checks of who calls (caller, watch).
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
	"github.com/thoughtgate/thoughtgated/daemon/approval"
	"github.com/thoughtgate/thoughtgated/daemon/approval/presence"
	"github.com/thoughtgate/thoughtgated/daemon/audit"
	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/copies"
	"github.com/thoughtgate/thoughtgated/daemon/fleet"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/handover"
	"github.com/thoughtgate/thoughtgated/daemon/hook"
	"github.com/thoughtgate/thoughtgated/daemon/observe/metrics"
	"github.com/thoughtgate/thoughtgated/daemon/pin"
	"github.com/thoughtgate/thoughtgated/daemon/policy"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/agent"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/supervise"
	"github.com/thoughtgate/thoughtgated/daemon/session"
	"github.com/thoughtgate/thoughtgated/daemon/session/protect"
	"github.com/thoughtgate/thoughtgated/daemon/session/trust"
	"github.com/thoughtgate/thoughtgated/internal/proc"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Config has the dependencies and settings of a Server.
type Config struct {
	Sessions  *session.Registry
	Agents    *agent.Runs
	Approvals *approval.Queue
	Audit     *audit.Log
	Recorder  gate.Recorder
	Metrics   *metrics.Metrics
	Policies  Policies
	Pins      *pin.Registry
	Trust     *trust.Registry
	Logins    Logins
	Fleet     *fleet.Membership
	// FleetPolicy verifies and holds what the fleet's policy is.
	FleetPolicy *fleet.Policy
	Handed      *handover.Registry
	AgentHooks  *hook.Registry
	Stages      Stages
	// Remote returns what identifies the server behind an address for which a tg-shim stands, in the place of a
	// command. The error wraps gate.ErrWithheld if a person has to accept it first.
	Remote func(context.Context, *session.Hello, *handover.Launch) ([]string, error)
	// RemoteState reports whether the server behind an address of an attachment has answered yet, and why it
	// did not answer the last request.
	RemoteState func(attachment string) (answered bool, failure error)
	// Grain returns what a grant may cover of a call of the agent's shell; nil if it is none.
	Grain      func(ctx context.Context, project string, arguments []byte) *gate.Grain
	Guard      *protect.Guard
	Presence   *presence.Guard
	Copies     *copies.Store     // of files that calls have destroyed
	Fleets     []supervise.Fleet // programs that the daemon keeps running
	Extensions Extensions
	Logger     *slog.Logger
	Build      string
	Started    time.Time
	Activated  bool   // the sockets came from the service manager
	Control    string // path of control.sock
	Shim       string // path of shim.sock
	AuditDir   string
	Warnings   func() []string
	Projects   func(folders ...string) []ProjectFile // of the given folders; without folders, those where agents work now
	Stop       func()                                // asks the daemon to stop
}

// Server serves the API.
type Server struct {
	Config
	control, shim *grpc.Server
	health        *health.Server

	self   proc.Info // this process
	cgroup string
	uid    int

	ending context.Context // canceled when the server is to stop
	end    context.CancelFunc

	mu     sync.Mutex
	closed bool
	quiet  *quietListener // of control; nil until it is served
}

// Policies gives access to the policy set in force and its configuration.
type Policies interface {
	// Describe describes the set in force.
	Describe() PolicySet
	// Detail returns the full content of the set in force.
	Detail() policy.Detail
	// Reload puts the configuration on disk in force as a whole. If it has errors, Reload returns
	// all of them and changes nothing.
	Reload(ctx context.Context, by string) (PolicySet, []config.Diagnostic, error)
	// Failure returns why and when the last reload failed; the reason is empty if it succeeded.
	Failure() (string, time.Time)
	// Validate checks the file at path (empty: the one in force) and puts nothing in force. The set
	// is nil if there are errors.
	Validate(path string) (string, *PolicySet, []config.Diagnostic)
	// ValidateBundle returns the problems of a fleet's policy.
	ValidateBundle(text []byte) []config.Diagnostic
	// Shared reports whether a server with this id and command line is to be one process for all
	// sessions.
	Shared(server string, command []string) bool
	// Options returns the options for shims.
	Options() config.Shim
}

// PolicySet describes one set.
type PolicySet struct {
	policy.Description
	Changed []string // paths of files whose content on disk has changed
	Since   time.Time
	By      string
	Project bool // the set of a project's file, which applies in addition to another set
	Checked int  // number of policies that are fully checked
	Waiting []policy.Waiting
	Refused []policy.Refused
}

// ProjectFile is a .thoughtgate.yaml that applies to a working agent.
type ProjectFile struct {
	Path     string
	Digest   string // empty if the file is invalid
	Rules    int
	Problems []config.Diagnostic // why the file is invalid
}

// newConnection is the timeout for the handshake of a new connection.
const newConnection = 5 * time.Second

// New returns a server that is ready to serve.
func New(c Config) *Server {
	s := &Server{Config: c, health: health.NewServer(), uid: os.Getuid()}
	s.ending, s.end = context.WithCancel(context.Background()) // until Close
	pid := int32(os.Getpid())
	s.self, _ = proc.Look(pid) // if this fails, no caller is taken for a child of the daemon
	s.cgroup, _ = proc.Cgroup(pid)
	options := append(s.options(), grpc.MaxConcurrentStreams(64), grpc.ConnectionTimeout(newConnection))
	s.shim = grpc.NewServer(append(slices.Clip(options), grpc.Creds(peerCredentials{arrivals: newArrivals(newConnection)}))...)
	pb.RegisterGateServer(s.shim, gateService{s: s})

	s.control = grpc.NewServer(append(slices.Clip(options), grpc.Creds(peerCredentials{}))...)
	pb.RegisterSessionsServer(s.control, sessionsService{s: s})
	pb.RegisterApprovalsServer(s.control, approvalsService{s: s})
	pb.RegisterPoliciesServer(s.control, policiesService{s: s})
	pb.RegisterPresenceServer(s.control, presenceService{s: s})
	pb.RegisterUndoServer(s.control, undoService{s: s})
	pb.RegisterPinsServer(s.control, pinsService{s: s})
	pb.RegisterServersServer(s.control, serversService{s: s})
	pb.RegisterLoginsServer(s.control, loginsService{s: s})
	pb.RegisterAuditServer(s.control, auditService{s: s})
	pb.RegisterProcessesServer(s.control, processesService{s: s})
	pb.RegisterExtensionsServer(s.control, extensionsService{s: s})
	pb.RegisterAgentsServer(s.control, &agentsService{s: s, callers: map[string]proc.Process{}})
	pb.RegisterMembershipServer(s.control, membershipService{s: s})
	pb.RegisterDaemonServer(s.control, daemonService{s: s})
	grpc_health_v1.RegisterHealthServer(s.control, s.health)
	return s
}

// options returns the options of every gRPC server in this package.
func (s *Server) options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(client.MaxMessage), grpc.MaxSendMsgSize(client.MaxMessage),
		grpc.InitialWindowSize(client.Window), grpc.InitialConnWindowSize(client.Window), // see client.Dial
		grpc.WaitForHandlers(true), // what handlers depend on is closed next
		grpc.ChainUnaryInterceptor(s.guardUnary), grpc.ChainStreamInterceptor(s.guardStream),
	}
}

// Serve serves both listeners until Close is called or one of them fails. The connections of the
// listeners must know the process at the other end.
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
		s.Close() // a daemon needs both sockets
		return fmt.Errorf("listen on %s: %w", name, err)
	}
	return nil
}

// Close makes Serve return. Calls under way finish first. Streams without an end fail with an
// error, and their clients look for the next daemon. Close may be called more than once. It returns
// when everything has ended.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	s.health.Shutdown()
	s.AgentHooks.Stop()
	s.shim.Stop() // before session streams end, since a session that ends takes its shims along
	s.end()
	if s.quiet != nil {
		drain(s.control, s.quiet, drainLimit)
	}
	s.control.Stop()
}

// guardUnary converts a panic to an error of that call and logs it, and converts errors of the
// daemon to statuses.
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

// builds is the header of each answer by which a client of another release recognizes this build.
func (s *Server) builds() metadata.MD { return metadata.Pairs(client.BuildHeader, s.Build) }

func (s *Server) recovered(method string, err *error) {
	if v := recover(); v != nil {
		s.Logger.Error("panic in a call", "method", method, "panic", v, "stack", string(debug.Stack()))
		*err = status.Error(codes.Internal, "internal error of thoughtgated; see its log for details")
	}
}

// each converts every element of all with to.
func each[T, M any](all []T, to func(T) M) []M {
	var messages []M
	for _, one := range all {
		messages = append(messages, to(one))
	}
	return messages
}

// momentTo converts t to a message, or to nil if t is zero.
func momentTo(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
