package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tg-shim/attach"
	"github.com/thoughtgate/thoughtgated/internal/sock"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
	"github.com/thoughtgate/thoughtgated/internal/test/tempdir"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// The test binary plays tg-shim, for the command on its command line.
const (
	socketEnv = "SERVE_TEST_SOCKET"
	timesEnv  = "SERVE_TEST_TIMES"
)

func TestMain(m *testing.M) {
	socket := os.Getenv(socketEnv)
	if socket == "" {
		rig.ResetSIGHUP()
		os.Exit(m.Run())
	}
	var times Times
	if err := json.Unmarshal([]byte(os.Getenv(timesEnv)), &times); err != nil {
		panic(err)
	}
	hello := attach.Hello{Build: "test", Server: "x", Command: os.Args[1:]}
	if os.Args[1] == "--extension" {
		hello.Extension, hello.Command = os.Args[2], nil
	}
	state, err := Run(Options{
		Hello:  hello,
		Socket: socket, Times: times,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "tg-shim:", err)
		os.Exit(125)
	}
	Leave(state)
}

// daemon is a fake daemon.
type daemon struct {
	pb.UnimplementedGateServer
	t        *testing.T
	path     string
	mu       sync.Mutex
	welcome  func() (*pb.AttachResponse, error) // guarded by mu once the daemon serves
	attached chan *session
	started  chan *pb.StartedRequest
	signals  chan *pb.SignalRequest
	ended    chan *pb.EndedRequest
	slow     chan struct{} // closed when it answers reports about servers; nil: at once
}

// session is what a tg-shim has handed over.
type session struct {
	hello                           *pb.AttachRequest
	in, out, input, output, drained *os.File
}

// welcomes sets the function that answers Attach.
func (d *daemon) welcomes(f func() (*pb.AttachResponse, error)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.welcome = f
}

func (d *daemon) Attach(ctx context.Context, r *pb.AttachRequest) (*pb.AttachResponse, error) {
	d.mu.Lock()
	welcome := d.welcome
	d.mu.Unlock()
	w, err := welcome()
	if err != nil {
		return nil, err
	}
	w.Protocol = client.Protocol
	p, _ := peer.FromContext(ctx)
	fds := p.AuthInfo.(came).passed.Take()
	if len(fds) != 5 {
		return nil, fmt.Errorf("%d descriptors came", len(fds))
	}
	s := &session{hello: r}
	for i, f := range []**os.File{&s.in, &s.out, &s.input, &s.output, &s.drained} {
		*f = os.NewFile(uintptr(fds[i]), "descriptor")
		d.t.Cleanup(func() { (*f).Close() })
	}
	d.attached <- s
	return w, nil
}

func (d *daemon) Started(_ context.Context, r *pb.StartedRequest) (*pb.StartedResponse, error) {
	d.started <- r
	d.takesItsTime()
	return &pb.StartedResponse{}, nil
}

func (d *daemon) Signal(_ context.Context, r *pb.SignalRequest) (*pb.SignalResponse, error) {
	d.signals <- r
	return &pb.SignalResponse{}, nil
}

func (d *daemon) Ended(_ context.Context, r *pb.EndedRequest) (*pb.EndedResponse, error) {
	d.ended <- r
	d.takesItsTime()
	return &pb.EndedResponse{}, nil
}

func (d *daemon) takesItsTime() {
	if d.slow != nil {
		<-d.slow
	}
}

type handshake struct {
	credentials.TransportCredentials
}

type came struct {
	credentials.CommonAuthInfo
	passed *sock.Passed
}

func (came) AuthType() string { return "test" }

func (handshake) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	passed, err := c.(*sock.Conn).Receive(5)
	return c, came{credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}, passed}, err
}

func (handshake) Info() credentials.ProtocolInfo            { return credentials.ProtocolInfo{} }
func (h handshake) Clone() credentials.TransportCredentials { return h }

// patient has timeouts that suffice on the slowest machine.
var patient = Times{Reattach: rig.Timeout, DrainTimeout: rig.Timeout, SignalTimeout: rig.Timeout, LastReportTimeout: rig.Timeout}

// takes returns an argument for startWith.
func takes(t *testing.T, times Times) func(*exec.Cmd) {
	text, err := json.Marshal(times)
	if err != nil {
		t.Fatal(err)
	}
	return func(c *exec.Cmd) { c.Env = append(c.Env, timesEnv+"="+string(text)) }
}

// newDaemon returns a daemon that does not serve yet.
func newDaemon(t *testing.T) *daemon {
	t.Helper()
	dir := tempdir.New(t, "/tmp", "serve")
	return &daemon{
		t: t, path: filepath.Join(dir, "shim.sock"), attached: make(chan *session, 64), started: make(chan *pb.StartedRequest, 64),
		signals: make(chan *pb.SignalRequest, 64), ended: make(chan *pb.EndedRequest, 64),
		welcome: func() (*pb.AttachResponse, error) { return &pb.AttachResponse{Start: true}, nil },
	}
}

// serve serves until stop is called or the test ends.
func (d *daemon) serve() (stop func()) {
	d.t.Helper()
	l, err := sock.Listen(d.path)
	if err != nil {
		d.t.Fatal(err)
	}
	server, done := grpc.NewServer(grpc.Creds(handshake{}), grpc.WaitForHandlers(true)), make(chan error)
	pb.RegisterGateServer(server, d)
	go func() { done <- server.Serve(sock.Checked(l)) }()
	stop = sync.OnceFunc(func() {
		server.Stop()
		<-done
	})
	d.t.Cleanup(stop)
	return stop
}

func serving(t *testing.T) *daemon {
	d := newDaemon(t)
	d.serve()
	return d
}

// next returns the next value of c.
func next[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(rig.Timeout):
		t.Fatalf("not in %v: %s", rig.Timeout, what)
	}
	return v
}

// relay copies bytes, as the daemon does with lines, until both sides have ended; then the
// agent has everything.
func (s *session) relay() {
	var both sync.WaitGroup
	both.Go(func() { carry(s.in, s.input) })
	both.Go(func() { carry(s.output, s.out) })
	both.Wait()
	s.drained.Close()
}

func carry(from, to *os.File) {
	_, _ = io.Copy(to, from)
	_ = to.Close()
}

// shim1 is a running tg-shim, with the test as the agent.
type shim1 struct {
	*exec.Cmd
	t      *testing.T
	in     *os.File
	out    *bufio.Reader
	stderr *rig.Buffer
	over   chan struct{}
}

// start starts a tg-shim for a command.
func (d *daemon) start(command ...string) *shim1 { return d.startWith(nil, command...) }

// startWith is start that calls prepare before the start.
func (d *daemon) startWith(prepare func(*exec.Cmd), command ...string) *shim1 {
	d.t.Helper()
	self, err := os.Executable()
	if err != nil {
		d.t.Fatal(err)
	}
	s := &shim1{Cmd: exec.Command(self, command...), t: d.t, stderr: &rig.Buffer{Most: 1 << 20}, over: make(chan struct{})}
	s.Env = append(os.Environ(), socketEnv+"="+d.path, "THOUGHTGATE_SESSION=secret", "PLAIN=seen", "GORACE=atexit_sleep_ms=0")
	inRead, inWrite, err := os.Pipe()
	if err != nil {
		d.t.Fatal(err)
	}
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		d.t.Fatal(err)
	}
	s.Stdin, s.Stdout, s.Stderr, s.in, s.out = inRead, outWrite, s.stderr, inWrite, bufio.NewReader(outRead)
	s.WaitDelay = 2 * time.Second
	takes(d.t, patient)(s.Cmd)
	if prepare != nil {
		prepare(s.Cmd)
	}
	if err := s.Start(); err != nil {
		d.t.Fatal(err)
	}
	inRead.Close()
	outWrite.Close()
	go func() {
		defer close(s.over)
		_ = s.Wait()
	}()
	d.t.Cleanup(func() {
		inWrite.Close()
		outRead.Close()
		_ = s.Process.Kill()
		<-s.over
	})
	return s
}

func (s *shim1) say(line string) {
	s.t.Helper()
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		s.t.Fatal(err)
	}
}

func (s *shim1) hears(want string) {
	s.t.Helper()
	line := make(chan string, 1)
	go func() {
		text, err := s.out.ReadString('\n')
		if err != nil {
			text += err.Error()
		}
		line <- text
	}()
	if got := next(s.t, "a line for the agent", line); strings.TrimSuffix(got, "\n") != want {
		s.t.Fatalf("the agent reads %q and should %q\n%s", got, want, s.stderr.String())
	}
}

// ends waits for the end of tg-shim, with an exit code or, if want is negative, by a signal.
func (s *shim1) ends(want int) {
	s.t.Helper()
	next(s.t, "the end of the shim", s.over)
	status := s.ProcessState.Sys().(syscall.WaitStatus)
	got := status.ExitStatus()
	if status.Signaled() {
		got = -int(status.Signal())
	}
	if got != want {
		s.t.Errorf("the shim ends with %v, want %d (negative: a signal)\n%s", s.ProcessState, want, s.stderr.String())
	}
	if status.CoreDump() {
		s.t.Error("it left a core file")
	}
}

func (s *shim1) running() bool {
	select {
	case <-s.over:
		return false
	default:
		return true
	}
}

func alive(pid int32) bool { return !errors.Is(syscall.Kill(int(pid), 0), syscall.ESRCH) }

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(rig.Timeout); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in %v: %s", rig.Timeout, what)
		}
	}
}
