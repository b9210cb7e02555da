package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/internal/test/fake"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// update makes tests write their golden files instead of reading them.
var update = flag.Bool("update", false, "write the golden files")

// TestMain runs another program if the test binary was started under its name.
func TestMain(m *testing.M) {
	if code, ok := fake.PlayExtension(os.Args[1:]); ok {
		os.Exit(code)
	}
	switch filepath.Base(os.Args[0]) {
	case connect.DaemonName:
		os.Exit(playDaemon())
	case mortalDaemon:
		os.Exit(playMortalDaemon())
	case "eventually":
		os.Exit(playEventually())
	case "fake-server":
		os.Exit(playServer())
	case "fake-outsider":
		os.Exit(playOutsider())
	case "fake-window":
		os.Exit(playWindow())
	case "fake-agent":
		os.Exit(playAgent())
	case "fake-acp":
		os.Exit(playACP())
	case "fake-typed":
		os.Exit(fake.TypedAgent(os.Stdin, os.Stdout, os.Stderr))
	}
	// Parallel tests wait more than they compute. -parallel overrides this.
	if err := flag.Set("test.parallel", fmt.Sprint(2*runtime.GOMAXPROCS(0))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	rig.ResetSIGHUP()
	rig.EndAtOnce()
	code := m.Run()
	if removeBuilt != nil {
		removeBuilt()
	}
	os.Exit(code)
}

// playServer runs an MCP server. With an argument it logs its calls to that file.
func playServer() int {
	o := fake.ServerOptions{}
	if len(os.Args) > 1 {
		o.Log = os.Args[1]
	}
	if err := fake.Serve(context.Background(), os.Stdin, os.Stdout, os.Stderr, o); err != nil {
		return 1
	}
	return 0
}

// playAgent runs an agent: it reads the configuration and the script named by its
// arguments, and prints a line for each result.
func playAgent() int {
	script, err := os.ReadFile(os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	steps, err := fake.ReadScript(string(script))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	err = fake.RunAgent(context.Background(), fake.AgentOptions{Config: os.Args[1], Steps: steps, Stderr: os.Stderr, Report: func(r fake.Result) {
		fmt.Printf("%s: error %v, %v: %s\n", r.Tool, r.IsError, r.Err, strings.ReplaceAll(r.Text, "\n", " "))
	}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// playACP runs an agent that speaks the Agent Client Protocol. Each argument selects a
// misbehaviour; log=FILE logs the messages that it gets.
func playACP() int {
	o := fake.ACPOptions{}
	for _, arg := range os.Args[1:] {
		word, value, _ := strings.Cut(arg, "=")
		switch word {
		case "version":
			o.Version = int(value[0] - '0')
		case "auth":
			o.NeedsAuth = true
		case "silent":
			o.Silent = true
		case "deaf":
			o.Deaf = true
		case "log":
			log, err := os.OpenFile(value, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
			defer log.Close()
			o.Log = log
		}
	}
	return fake.ServeACP(os.Stdin, os.Stdout, os.Stderr, o)
}

// playPolicies accepts every configuration. It serves the connection on standard input
// until the peer closes it.
func playPolicies() int {
	conn, err := net.FileConn(os.Stdin)
	if err != nil {
		return 1
	}
	l := &oneConn{Conn: conn, next: make(chan net.Conn, 1)}
	l.next <- l
	server := grpc.NewServer()
	pb.RegisterPoliciesServer(server, fakePolicies{fakeDaemon: &fakeDaemon{validate: &pb.ValidateResponse{}}})
	_ = server.Serve(l) // fails when the connection is closed
	return 0
}

// oneConn is a listener with one connection. It closes with the connection.
type oneConn struct {
	net.Conn
	next chan net.Conn
	once sync.Once
}

func (l *oneConn) Addr() net.Addr { return l.LocalAddr() }

func (l *oneConn) Accept() (net.Conn, error) {
	if c, ok := <-l.next; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (l *oneConn) Close() error {
	l.once.Do(func() { close(l.next) })
	return l.Conn.Close()
}

// playDaemon runs a daemon that serves Status and Stop. The file play in its state
// directory can make it misbehave; the environment can't, because tgctl does not pass it
// on.
func playDaemon() int {
	if len(os.Args) > 1 && os.Args[1] == "--policies" {
		return playPolicies()
	}
	state := filepath.Join(os.Getenv("XDG_STATE_HOME"), "thoughtgate")
	play, _ := os.ReadFile(filepath.Join(state, "play"))
	switch string(play) {
	case "fail":
		fmt.Fprintln(os.Stderr, "thoughtgate.yaml:3:1: error: unknown key \"x\"\x1b[2J")
		return 1
	case "crash":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "hang":
		time.Sleep(time.Minute)
	}
	wd, _ := os.Getwd()
	sid, _, _ := syscall.RawSyscall(syscall.SYS_GETSID, 0, 0, 0)
	about := fmt.Sprintf("dir %s\nleader %v\nargs %q\n%s\n", wd, int(sid) == os.Getpid(), os.Args[1:], strings.Join(os.Environ(), "\n"))
	dir := filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "thoughtgate")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	l, err := net.Listen("unix", filepath.Join(dir, "control.sock"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "another daemon runs:", err)
		return 1
	}
	_ = os.Chmod(l.Addr().String(), 0o600)
	_ = os.WriteFile(filepath.Join(state, "about"), []byte(about), 0o600)
	server := grpc.NewServer()
	f := &fakeDaemon{status: &pb.StatusResponse{Pid: int32(os.Getpid())}, stopped: func() { go server.GracefulStop() }}
	pb.RegisterDaemonServer(server, f)
	if err := server.Serve(l); err != nil {
		return 1
	}
	return 0
}
