package serve

import (
	"io"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// The daemon handles signals; tg-shim does not pass them to the server. Each one is reported,
// since a second means that the client will not wait any longer.
func TestSignals(t *testing.T) {
	t.Parallel()
	d := serving(t)
	s := d.start("sh", "-c", "trap 'echo signalled' TERM HUP; cat; echo flushed; exit 5")
	session := next(t, "Attach", d.attached)
	next(t, "Started", d.started)
	go session.relay()
	s.say("ready")
	s.hears("ready")
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGTERM} {
		if err := s.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if got := next(t, "Signal", d.signals); got.GetSignal() != int32(sig) || got.GetAttachment() != session.hello.GetAttachment() {
			t.Errorf("it says %v", got)
		}
	}
	s.say("still here")
	s.hears("still here")
	s.in.Close() // as the daemon closes the server's input
	s.hears("flushed")
	s.ends(5)
}

// Signals while tg-shim waits for a daemon, and while it answers without one.
func TestSignalWithoutDaemon(t *testing.T) {
	t.Parallel()
	d := serving(t)
	tried := make(chan bool, 1000)
	d.welcomes(func() (*pb.AttachResponse, error) {
		tried <- true
		return nil, status.Error(codes.Unavailable, "it is ending")
	})
	s := d.start("cat")
	next(t, "a try", tried)
	if err := s.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.ends(125)
	s = newDaemon(t).startWith(takes(t, Times{Reattach: time.Millisecond}), "cat")
	s.say(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	s.hears(`{"jsonrpc":"2.0","id":1,"error":{"code":-31010,"message":"Not executed: ThoughtGate's daemon is not there; start it with \"tgctl daemon start\""}}`)
	if err := s.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.ends(0)
}

// Reports that are due after the death of a daemon go to the next one.
func TestNextDaemon(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	stop := d.serve()
	s := d.start("sh", "-c", "cat; exit 6")
	session := next(t, "Attach", d.attached)
	next(t, "Started", d.started)
	go session.relay()
	stop()
	s.say("on")
	s.hears("on")
	d.serve()
	if err := s.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := next(t, "Signal", d.signals); got.GetAttachment() != session.hello.GetAttachment() {
		t.Errorf("it says %v", got)
	}
	s.in.Close()
	s.ends(6)
	if got := next(t, "Ended", d.ended); got.GetStatus() != 6 {
		t.Errorf("it says %v", got)
	}
}

// If no daemon is left to handle a signal, tg-shim does, and when nobody holds the pipes any
// more it kills a server that does not end.
func TestNoDaemonIsLeft(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, script string
		act          func(*shim1, *session)
		want         int
	}{
		{"a signal", "cat", func(s *shim1, _ *session) { _ = s.Process.Signal(syscall.SIGTERM) }, -int(syscall.SIGTERM)},
		{"two, and a server that does not mind the first", "trap '' TERM; echo ready; while :; do sleep 0.1; done", func(s *shim1, session *session) {
			_, _ = io.ReadFull(session.output, make([]byte, len("ready\n")))
			_ = s.Process.Signal(syscall.SIGTERM)
			_ = s.Process.Signal(syscall.SIGHUP)
		}, -int(syscall.SIGKILL)},
		{"nobody holds the pipes", "while :; do sleep 0.1; done", func(_ *shim1, session *session) { session.close() }, -int(syscall.SIGTERM)},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := newDaemon(t)
			stop := d.serve()
			times := patient
			times.SignalTimeout, times.DrainTimeout, times.LastReportTimeout = time.Millisecond, time.Millisecond, time.Millisecond
			s := d.startWith(takes(t, times), "sh", "-c", test.script)
			session := next(t, "Attach", d.attached)
			pid := next(t, "Started", d.started).GetPid()
			stop()
			test.act(s, session)
			s.ends(test.want)
			if alive(pid) {
				t.Error("the server is left")
			}
		})
	}
}

func (s *session) close() {
	for _, f := range s.all() {
		f.Close()
	}
}

// Killing tg-shim ends the server too.
func TestShimIsKilled(t *testing.T) {
	t.Parallel()
	d := serving(t)
	s := d.start("sleep", "1000")
	next(t, "Attach", d.attached)
	pid := next(t, "Started", d.started).GetPid()
	if err := s.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server has gone", func() bool { return !runs(pid) })
}

// A server starts with the signal dispositions that it would have without tg-shim: an ignored
// signal stays ignored.
func TestServerHasItsSignals(t *testing.T) {
	t.Parallel()
	d := serving(t)
	s := d.start("cat", "/proc/self/status")
	go next(t, "Attach", d.attached).relay()
	for {
		line, err := s.out.ReadString('\n')
		if err != nil {
			t.Skip("there is no /proc: ", err)
		}
		if rest, ok := strings.CutPrefix(line, "SigIgn:\t"); ok {
			mask, err := strconv.ParseUint(strings.TrimSpace(rest), 16, 64)
			if err != nil || mask&(1<<(syscall.SIGPIPE-1)|1<<(syscall.SIGTERM-1)|1<<(syscall.SIGHUP-1)) != 0 {
				t.Errorf("the server ignores the signals %s", rest)
			}
			break
		}
	}
	s.in.Close()
	s.ends(0)
}
