package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/proc"
	"github.com/thoughtgate/thoughtgated/internal/sock"
	"github.com/thoughtgate/thoughtgated/internal/test/tempdir"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// relayTaker serves Relay, and reports what came with the connection of each Attach.
type relayTaker struct {
	pb.UnimplementedGateServer
	take  bool
	taken chan []int
}

func (r *relayTaker) Attach(ctx context.Context, _ *pb.AttachRequest) (*pb.AttachResponse, error) {
	info, err := infoOf(ctx)
	if err != nil {
		return nil, err
	}
	if r.take {
		fds, err := info.descriptors()
		if errors.Is(err, gate.ErrInvalid) != (err != nil) || (fds == nil) != (err != nil) {
			return nil, fmt.Errorf("%v and %w", fds, err)
		}
		r.taken <- fds
	}
	return &pb.AttachResponse{}, nil
}

// serveRelay serves r like shim.sock, and returns the path.
func serveRelay(t *testing.T, r *relayTaker, timeout time.Duration) string {
	t.Helper()
	dir := tempdir.New(t, "/tmp", "api")
	path := filepath.Join(dir, "shim.sock")
	l, err := sock.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(peerCredentials{arrivals: newArrivals(timeout)}), grpc.ConnectionTimeout(timeout), grpc.WaitForHandlers(true))
	pb.RegisterGateServer(server, r)
	done := make(chan error)
	go func() { done <- server.Serve(sock.Checked(l)) }()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	return path
}

// attach calls Attach on a connection that sends fds first, or no descriptors if fds is nil. It
// closes the connection.
func attach(t *testing.T, path string, fds []int) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	first := true
	c, err := grpc.NewClient("passthrough:///shim", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry(),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			if !first {
				return nil, errors.New("there is no second connection")
			}
			first = false
			c, err := sock.Dial(ctx, path)
			if err == nil && fds != nil {
				err = sock.Pass(ctx, c.(*net.UnixConn), fds...)
			}
			return c, err
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = pb.NewGateClient(c).Attach(ctx, &pb.AttachRequest{})
	if ctx.Err() != nil {
		t.Fatal("neither an answer nor an end: ", err)
	}
	return err
}

// leadingTo returns how many descriptors of this process refer to the same file as fd.
func leadingTo(t *testing.T, fd int) (n int) {
	t.Helper()
	link, err := os.Readlink(fmt.Sprint("/proc/self/fd/", fd))
	if err != nil {
		t.Skip("there is no /proc")
	}
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range all {
		if now, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil && now == link {
			n++
		}
	}
	return n
}

func becomes(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in a minute: %s", what)
		}
	}
}

func TestDescriptorsOfAConnection(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	ends := func(n int) (fds []int) {
		for range n {
			fds = append(fds, int(w.Fd()))
		}
		return fds
	}
	for _, test := range []struct {
		name  string
		fds   []int
		taken int
		take  bool
		ok    bool
	}{
		{"none", nil, 0, true, true},
		{"five", []int{int(r.Fd()), int(w.Fd()), int(w.Fd()), int(r.Fd()), int(w.Fd())}, 5, true, true},
		{"five in a wrong order", ends(5), 0, true, true},
		{"five that nobody takes", ends(5), 0, false, true},
		{"none, though announced", []int{}, 0, true, false},
		{"four", ends(4), 0, true, false},
		{"six", ends(6), 0, true, false},
		{"too many", ends(253), 0, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			taker := &relayTaker{take: test.take, taken: make(chan []int, 1)}
			err := attach(t, serveRelay(t, taker, time.Minute), test.fds)
			if (err == nil) != test.ok {
				t.Fatalf("Attach: %v", err)
			}
			if test.ok && test.take {
				fds := <-taker.taken
				if len(fds) != test.taken {
					t.Errorf("%d descriptors came, want %d", len(fds), test.taken)
				}
				if n := leadingTo(t, int(w.Fd())); n != 2+test.taken {
					t.Errorf("%d descriptors lead to the pipe, want %d", n, 2+test.taken)
				}
				for _, fd := range fds {
					_ = unix.Close(fd)
				}
			}
			becomes(t, "only the two of the test lead to the pipe", func() bool { return leadingTo(t, int(w.Fd())) == 2 })
		})
	}
}

// silent opens a connection that sends nothing after fds, which may be empty. The channel is closed
// when the other side closes the connection.
func silent(t *testing.T, path string, fds ...int) (c net.Conn, ended <-chan struct{}) {
	t.Helper()
	c, err := sock.Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if fds != nil {
		if err := sock.Pass(t.Context(), c.(*net.UnixConn), fds...); err != nil {
			t.Fatal(err)
		}
	}
	over := make(chan struct{})
	go func() { // ends with c
		defer close(over)
		_, _ = io.Copy(io.Discard, c)
	}()
	return c, over
}

// A connection that sends nothing is closed. So is one that sends descriptors and then no preface.
func TestSilentConnections(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	path := serveRelay(t, &relayTaker{}, time.Second) // in which the descriptors must be sent, on a busy machine too
	fd := int(w.Fd())
	_, ended := silent(t, path, fd, fd, fd, fd, fd)
	_, endedToo := silent(t, path)
	<-ended
	<-endedToo
	becomes(t, "only the two of the test lead to the pipe", func() bool { return leadingTo(t, fd) == 2 })
}

// For one process only a limited number of connections wait for their first byte at a time. Others
// wait for those, but not longer than for a first byte.
func TestManySilentConnections(t *testing.T) {
	dir := tempdir.New(t, "/tmp", "api")
	inner, err := sock.Listen(filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	l := sock.Checked(inner)
	defer l.Close()
	a, results := newArrivals(time.Hour), make(chan error)
	arrive := func() (peer net.Conn) {
		peer, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { peer.Close() })
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		go func(a *arrivals) {
			defer c.Close()
			_, err := a.receive(c.(*sock.Conn))
			results <- err
		}(a)
		return peer
	}
	looking := func() (looked, all int) {
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, t := range a.of {
			looked, all = looked+len(t.taken), all+t.users
		}
		return looked, all
	}
	var peers []net.Conn
	for range maxArrivals {
		peers = append(peers, arrive())
	}
	becomes(t, "all have their turn", func() bool { looked, _ := looking(); return looked == maxArrivals })
	peers = append(peers, arrive())
	if _, err := peers[maxArrivals].Write([]byte("P")); err != nil {
		t.Fatal(err)
	}
	becomes(t, "one more waits", func() bool { looked, all := looking(); return looked == maxArrivals && all == maxArrivals+1 })
	peers[0].Close()
	for range 2 {
		if err := <-results; err != nil && err != io.EOF {
			t.Errorf("%v, want nothing for who spoke and the end of who went", err)
		}
	}
	for _, peer := range peers[1:maxArrivals] {
		peer.Close()
		<-results
	}
	becomes(t, "nothing is kept of the process", func() bool { _, all := looking(); return all == 0 })
	if len(a.of) != 0 {
		t.Errorf("kept are %v", a.of)
	}

	full := &turns{taken: make(chan struct{}), users: 1}
	self, err := proc.Look(int32(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	me := self.Process
	a = newArrivals(time.Millisecond)
	a.of[me] = full
	arrive()
	if err := <-results; !errors.Is(err, gate.ErrTooMany) {
		t.Errorf("%v, want that its time was up", err)
	}
}

func TestCheckDescriptors(t *testing.T) {
	open := func(name string, flags int) int {
		fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, fd := range []int{pipe[0], pipe[1], pair[0], pair[1], epoll} {
			unix.Close(fd)
		}
	})
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r, w, terminal := pipe[0], pipe[1], open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY)
	for _, test := range []struct {
		name string
		fds  []int
		want string // part of the error; may be empty
	}{
		{"pipes", []int{r, w, w, r, w}, ""},
		{"sockets", []int{pair[0], pair[0], w, r, w}, ""},
		{"a terminal", []int{terminal, terminal, w, r, w}, ""},
		{"files", []int{open(file, unix.O_RDONLY), open(file, unix.O_WRONLY|unix.O_APPEND), w, r, w}, ""},
		{"too few", []int{r, w, w, r}, "got 4 descriptors"},
		{"input that can't be read", []int{w, w, w, r, w}, "the agent's input: it is open with the wrong access mode"},
		{"output that can't be written", []int{r, r, w, r, w}, "the agent's output: it is open with the wrong access mode"},
		{"a folder", []int{open(t.TempDir(), unix.O_RDONLY), w, w, r, w}, "the agent's input: a file of this type"},
		{"a name of a file", []int{open(file, unix.O_PATH), w, w, r, w}, "the agent's input: it is open with the wrong access mode"},
		{"something of the kernel's", []int{epoll, w, w, r, w}, "the agent's input: a file of this type"},
		{"a server that is a socket", []int{r, w, pair[0], r, w}, "the server's input: it is not a pipe"},
		{"a server that is a terminal", []int{r, w, w, terminal, w}, "the server's output: it is not a pipe"},
		{"a server whose ends are turned", []int{r, w, r, w, w}, "the server's input: it is open with the wrong access mode"},
		{"drained that is a file", []int{r, w, w, r, open(file, unix.O_WRONLY)}, "the agent has received everything: it is not a pipe"},
		{"none at all", []int{r, w, w, r, 1 << 20}, "the agent has received everything: inspect it"},
	} {
		err := checkDescriptors(test.fds)
		if test.want == "" && err != nil || test.want != "" && (!errors.Is(err, gate.ErrInvalid) || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}
