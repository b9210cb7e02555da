package consoletest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"github.com/thoughtgate/thoughtgated/internal/sock"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

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
	pb.RegisterPoliciesServer(server, policiesServer{d: &Daemon{Validate: &pb.ValidateResponse{}}})
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

// PlayDaemon runs a daemon that serves Status and Stop. The file play in its state
// directory can make it misbehave; the environment can't, because tgctl does not pass it
// on.
func PlayDaemon() int {
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
		_ = os.WriteFile(filepath.Join(state, "hangs"), nil, 0o600)
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
	lock, err := sock.Lock(filepath.Join(dir, "thoughtgated.lock")) // as the real one: who loses a race sees that another has it
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer lock.Close()
	l, err := net.Listen("unix", filepath.Join(dir, "control.sock"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_ = os.Chmod(l.Addr().String(), 0o600)
	_ = os.WriteFile(filepath.Join(state, "about"), []byte(about), 0o600)
	server := grpc.NewServer()
	f := &Daemon{Status: &pb.StatusResponse{Pid: int32(os.Getpid())}, Stopped: func() { go server.GracefulStop() }}
	pb.RegisterDaemonServer(server, daemonServer{d: f})
	if err := server.Serve(l); err != nil {
		return 1
	}
	return 0
}
