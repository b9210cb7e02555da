package sock

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/proc"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

func checked(t *testing.T) (*Listener, string, chan error) {
	t.Helper()
	path := private(t) + "/x.sock"
	inner, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	l := Checked(inner)
	refused := make(chan error, 100)
	l.Refused = func(err error) { refused <- err }
	t.Cleanup(func() { l.Close() })
	return l, path, refused
}

func TestPeer(t *testing.T) {
	l, path, _ := checked(t)
	client := rig.Start(t, rig.As("connect", path))
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	p := c.(*Conn).Peer()
	if int(p.PID) != client.Process.Pid || int(p.UID) != os.Getuid() || int(p.GID) != os.Getgid() {
		t.Errorf("peer is pid %d uid %d gid %d, want %d %d %d", p.PID, p.UID, p.GID, client.Process.Pid, os.Getuid(), os.Getgid())
	}
	process, err := proc.Look(p.PID)
	if err != nil || process.Start != p.Start || p.Start == 0 || int(process.PPID) != os.Getpid() {
		t.Errorf("process %+v, %v; want start %d and us for its parent", process, err, p.Start)
	}
	if !p.Alive() {
		t.Error("the peer lives and is said not to")
	}
	if got := client.Line(t); got != "connected" {
		t.Fatal(got)
	}
	client.Process.Kill()
	eventually(t, "the zombie is no living peer", func() bool { return !p.Alive() })
	if _, err := proc.Look(p.PID); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("look at a zombie: %v, want os.ErrProcessDone", err)
	}
	if env, err := proc.Environ(p.PID); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("environment of a zombie: %q, %v; want os.ErrProcessDone", env, err)
	}
	client.End()
	if p.Alive() {
		t.Error("the peer was reaped and is said to live")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if p.Alive() || p.Close() != nil {
		t.Error("after Close: the peer lives, or a second Close fails")
	}
}

func TestPeerAfterClose(t *testing.T) {
	l, path, _ := checked(t)
	d, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if !c.(*Conn).Peer().Alive() {
		t.Error("we live; a closed connection does not change that")
	}
}

// A process that connects and ends at once can't be examined any more, so nothing that it sent
// counts.
func TestPeerThatHasGone(t *testing.T) {
	l, path, refused := checked(t)
	client := rig.As("connect", path)
	client.Stdin = nil
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	// The connection waits in the queue; it is accepted only after the process has ended.
	raw, err := l.inner.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	client.Process.Kill()
	client.Wait()
	if p, err := PeerOf(raw); !errors.Is(err, ErrPeerGone) {
		t.Errorf("%+v, %v; want ErrPeerGone", p, err)
	}
	if len(refused) > 0 {
		t.Error(<-refused)
	}
}

func TestSecondUserIsRefused(t *testing.T) {
	l, path, refused := checked(t)
	cmd := asNobody(t, rig.As("connect", path))
	// A user who can reach the socket is still refused.
	dir := strings.TrimSuffix(path, "/x.sock")
	if err := errors.Join(os.Chmod(dir, 0o777), os.Chmod(path, 0o777)); err != nil {
		t.Fatal(err)
	}
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			accepted <- c
		}
	}()
	stranger := rig.Start(t, cmd)
	if got := stranger.Line(t); got != "connected" {
		t.Fatal(got)
	}
	if got := stranger.Line(t); got != `read "" <nil>` {
		t.Errorf("the stranger %s, want the end at once", got)
	}
	if err := <-refused; !errors.Is(err, ErrUnsafe) || !strings.Contains(err.Error(), "uid 65534") {
		t.Errorf("refused with %v", err)
	}
	// The next connection, from this user, is accepted.
	d, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if got := (<-accepted).(*Conn).Peer().PID; int(got) != os.Getpid() {
		t.Errorf("accepted pid %d, want us", got)
	}
}

func TestSecondUserIsNotServedBy(t *testing.T) {
	_, path, _ := checked(t)
	dir := strings.TrimSuffix(path, "/x.sock")
	cmd := asNobody(t, rig.As("dial", path))
	if err := errors.Join(os.Chmod(dir, 0o777), os.Chmod(path, 0o777)); err != nil {
		t.Fatal(err)
	}
	if got := rig.Start(t, cmd).Line(t); !strings.Contains(got, ErrUnsafe.Error()) {
		t.Errorf("the other user's client says %q", got)
	}
}

// A listener of another user refuses this one, before it reads anything.
func TestOtherUserIsRefused(t *testing.T) {
	l, path, refused := checked(t)
	l.uid++
	accepted := make(chan net.Conn, 1)
	go func() {
		if c, err := l.Accept(); err == nil {
			accepted <- c
		}
	}()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	select {
	case err := <-refused:
		if !errors.Is(err, ErrUnsafe) {
			t.Errorf("refused with %v", err)
		}
	case c := <-accepted:
		c.Close()
		t.Fatal("accepted")
	}
	if _, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("read %v, want io.EOF", err)
	}
}

// One process opens far more connections than it may; another can still connect.
func TestConnectionsPerProcess(t *testing.T) {
	l, path, refused := checked(t)
	l.limit = 8
	type accepted struct {
		c   net.Conn
		err error
	}
	conns := make(chan accepted)
	var accepting sync.WaitGroup
	accepting.Go(func() {
		defer close(conns)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns <- accepted{c, err}
		}
	})
	var ours, theirs []net.Conn
	for range 40 {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		ours = append(ours, c)
	}
	for range 8 {
		theirs = append(theirs, (<-conns).c)
	}
	for range 32 {
		if err := <-refused; !errors.Is(err, ErrInUse) {
			t.Fatal(err)
		}
	}
	other := rig.Start(t, rig.As("connect", path))
	if c := (<-conns).c; int(c.(*Conn).Peer().PID) != other.Process.Pid {
		t.Error("the other process is not the one that was served")
	} else {
		c.Close()
	}
	// A released place can be taken again, and releasing it twice has no further effect.
	theirs[0].Close()
	theirs[0].Close()
	for i := range 2 {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		ours = append(ours, c)
		if i == 0 {
			theirs = append(theirs, (<-conns).c)
		} else if err := <-refused; !errors.Is(err, ErrInUse) {
			t.Fatal(err)
		}
	}
	for _, c := range append(ours, theirs...) {
		c.Close()
	}
	l.Close()
	accepting.Wait()
	if len(l.count) > 0 {
		t.Errorf("after all were closed %d processes are counted", len(l.count))
	}
}

func TestRefusedIsClosedUnread(t *testing.T) {
	l, path, refused := checked(t)
	l.limit = 0
	go l.Accept()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	<-refused
	if _, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("read %v, want io.EOF", err)
	}
}
