package serve

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/thoughtgate/thoughtgated/internal/test/rig"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// The daemon forwards everything, and tg-shim exits as the server does.
func TestServer(t *testing.T) {
	t.Parallel()
	d := serving(t)
	for _, test := range []struct {
		name, script string
		want         int // negative: a signal
	}{
		{"ends with its input", "cat; exit 0", 0},
		{"fails", "cat; exit 7", 7},
		{"fails badly", "cat; exit 255", 255},
		{"is terminated", "cat; kill -TERM $$", -int(syscall.SIGTERM)},
		{"is killed", "cat; kill -KILL $$", -int(syscall.SIGKILL)},
		{"crashes", "ulimit -c 0; cat; kill -SEGV $$", -int(syscall.SIGSEGV)},
		{"aborts", "ulimit -c 0; cat; kill -ABRT $$", -int(syscall.SIGABRT)},
		{"is hung up", "cat; kill -HUP $$", -int(syscall.SIGHUP)},
		{"leaves something behind", "cat; sleep 1000 & exit 3", 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := d.startWith(func(c *exec.Cmd) { c.Dir = t.TempDir() }, "sh", "-c", test.script)
			session := next(t, "Attach", d.attached)
			started := next(t, "Started", d.started)
			if started.GetPid() <= 0 || started.GetAttachment() != session.hello.GetAttachment() || len(started.GetAttachment()) != 32 {
				t.Errorf("it says %v after %v", started, session.hello)
			}
			go session.relay()
			s.say("one")
			s.say("two")
			s.hears("one")
			s.hears("two")
			s.in.Close()
			s.hears("EOF")
			s.ends(test.want)
			ended := next(t, "Ended", d.ended)
			if got := int(ended.GetStatus()); test.want >= 0 && (got != test.want || ended.GetSignal() != 0) || test.want < 0 && int(ended.GetSignal()) != -test.want {
				t.Errorf("it says %v", ended)
			}
			if alive(started.GetPid()) {
				t.Error("the server's process is left")
			}
			if text := s.stderr.String(); text != "" {
				t.Errorf("on standard error stands %q", text)
			}
		})
	}
}

func TestHello(t *testing.T) {
	t.Parallel()
	d := serving(t)
	s := d.start("sh", "-c", `echo "$PLAIN ${THOUGHTGATE_SESSION-unset} $THOUGHTGATE_SERVER"`)
	session := next(t, "Attach", d.attached)
	h := session.hello
	if cwd, _ := os.Getwd(); h.GetCwd() != cwd || !filepath.IsAbs(h.GetExecutable()) || filepath.Base(h.GetExecutable()) != "sh" || h.GetCommand()[0] != "sh" ||
		h.GetServer() != "x" || h.GetProtocol() == 0 {
		t.Errorf("it says %v", h)
	}
	go session.relay()
	s.hears("seen unset " + h.GetAttachment())
	s.in.Close()
	s.ends(0)
}

// Pending output for the agent precedes the end of tg-shim: clients take that for the end of
// the server and read no further.
func TestLastAnswersComeFirst(t *testing.T) {
	t.Parallel()
	d := serving(t)
	s := d.start("sh", "-c", "echo last; exit 4")
	session := next(t, "Attach", d.attached)
	next(t, "Ended", d.ended)
	if !s.running() {
		t.Error("the shim has ended before the agent had all")
	}
	carry(session.output, session.out)
	session.drained.Close()
	s.hears("last")
	s.ends(4)
}

// tg-shim does not wait forever for a daemon that delivers nothing.
func TestLastAnswersAreNotWaitedForForEver(t *testing.T) {
	t.Parallel()
	d := serving(t)
	s := d.startWith(takes(t, Times{Reattach: rig.Timeout, DrainTimeout: time.Millisecond, LastReportTimeout: rig.Timeout}), "true")
	next(t, "Attach", d.attached)
	s.ends(0)
}

// A slow daemon can still look at the process of a server that ended at once, and learns how it
// ended.
func TestSlowDaemon(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.slow = make(chan struct{})
	answers := sync.OnceFunc(func() { close(d.slow) })
	d.serve()
	t.Cleanup(answers)
	times := patient
	times.LastReportTimeout = time.Millisecond
	stays := func(what string, so func() bool) {
		t.Helper()
		for range 50 {
			if !so() {
				t.Fatalf("%s while the daemon takes its time", what)
			}
			time.Sleep(time.Millisecond) // between two checks
		}
	}
	s := d.startWith(takes(t, times), "sh", "-c", "exit 3")
	session := next(t, "Attach", d.attached)
	pid := next(t, "Started", d.started).GetPid()
	carry(session.output, session.out) // until it has ended
	stays("the server is waited for", func() bool { return alive(pid) })
	d.slow <- struct{}{}
	next(t, "Ended", d.ended)
	session.drained.Close()
	eventually(t, "the server is waited for", func() bool { return !alive(pid) })
	stays("the shim leaves", s.running)
	answers()
	s.ends(3)
}

// If the daemon serves the agent itself, or refuses, it determines the exit code of tg-shim.
func TestNothingToStart(t *testing.T) {
	t.Parallel()
	d := serving(t)
	ran := filepath.Join(t.TempDir(), "ran")
	d.welcomes(func() (*pb.AttachResponse, error) { return &pb.AttachResponse{}, nil })
	for _, last := range []string{"", "\x7d"} {
		s := d.start("touch", ran)
		session := next(t, "Attach", d.attached)
		s.say("hello")
		if b := make([]byte, 6); !reads(session.in, b) || string(b) != "hello\n" {
			t.Errorf("the daemon reads %q", b)
		}
		eventually(t, "the server's input can't be written to", func() bool {
			_, err := session.input.Write([]byte("x"))
			return err != nil
		})
		_, _ = session.out.WriteString("no\n")
		s.hears("no")
		_, _ = session.drained.WriteString(last)
		session.out.Close()
		session.drained.Close()
		s.hears("EOF")
		s.ends(len(last) * 0x7d)
		if text := s.stderr.String(); text != "" {
			t.Errorf("on standard error stands %q", text)
		}
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("the server was started")
	}
}

func reads(f *os.File, b []byte) bool {
	n, err := f.Read(b)
	return err == nil && n == len(b)
}

// If a server can't be started, the daemon learns why and answers the agent, and tg-shim waits
// for that.
func TestServerDoesNotStart(t *testing.T) {
	t.Parallel()
	d := serving(t)
	plain := filepath.Join(t.TempDir(), "plain")
	script := filepath.Join(t.TempDir(), "script")
	for name, text := range map[string]string{plain: "text", script: "#!/no/such/interpreter\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(script, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		command string
		want    int
	}{{"no-such-server", 127}, {plain, 126}, {script, 126}} {
		s := d.start(test.command)
		session := next(t, "Attach", d.attached)
		started := next(t, "Started", d.started)
		if started.GetPid() != 0 || !strings.Contains(started.GetReason(), test.command) {
			t.Errorf("it says %v", started)
		}
		_, _ = session.out.WriteString("it could not be started\n")
		s.hears("it could not be started")
		if !s.running() {
			t.Error("the shim has ended while the daemon answers")
		}
		session.drained.Close()
		s.ends(test.want)
		if text := s.stderr.String(); !strings.Contains(text, `"x"`) || !strings.Contains(text, test.command) {
			t.Errorf("on standard error stands %q", text)
		}
	}
}

// A program that did not exist when the daemon was told is not searched again, and without a
// command nothing is started.
func TestMissingStaysMissing(t *testing.T) {
	t.Parallel()
	d := serving(t)
	dir := t.TempDir()
	d.welcomes(func() (*pb.AttachResponse, error) {
		err := os.WriteFile(filepath.Join(dir, "server"), []byte("#!/bin/sh\ntouch ran\n"), 0o700)
		return &pb.AttachResponse{Start: true}, err
	})
	for _, command := range [][]string{{"./server"}, {"--extension", "e"}} {
		s := d.startWith(func(c *exec.Cmd) { c.Dir = dir }, command...)
		session := next(t, "Attach", d.attached)
		if session.hello.GetExecutable() != "" {
			t.Errorf("it says %v", session.hello)
		}
		if started := next(t, "Started", d.started); started.GetPid() != 0 || started.GetReason() == "" {
			t.Errorf("it says %v", started)
		}
		session.drained.Close()
		next(t, "the end of the shim", s.over)
		if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
			t.Error("it was started")
		}
		if err := os.Remove(filepath.Join(dir, "server")); err != nil {
			t.Fatal(err)
		}
	}
}

// EC-042: without a daemon each request is answered until the agent leaves, and that is not an
// error.
func TestNoDaemon(t *testing.T) {
	t.Parallel()
	const asked = `{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"t"}}`
	d := newDaemon(t)
	ran := filepath.Join(t.TempDir(), "ran")
	s := d.startWith(takes(t, Times{Reattach: 50 * time.Millisecond}), "touch", ran)
	const gone = `"error":{"code":-31010,"message":"Not executed: ThoughtGate's daemon is not there; start it with \"tgctl daemon start\""}}`
	s.say(asked)
	s.hears(`{"jsonrpc":"2.0","id":"a",` + gone)
	s.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	s.say("nonsense")
	s.say(`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"x"},{"jsonrpc":"2.0","id":2,"method":"ping"}]`)
	s.hears(`{"jsonrpc":"2.0","id":1,` + gone)
	s.hears(`{"jsonrpc":"2.0","id":2,` + gone)
	s.say(strings.ReplaceAll(asked, `"a"`, "7"))
	s.hears(`{"jsonrpc":"2.0","id":7,` + gone)
	s.in.Close()
	s.ends(0)
	if text := s.stderr.String(); !strings.Contains(text, "tgctl daemon start") || !strings.Contains(text, `"x"`) {
		t.Errorf("on standard error stands %q", text)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("the server was started")
	}
}

// tg-shim attaches to a daemon that starts while it waits. If a daemon is ending, or dies
// before it answers, tg-shim waits for the next.
func TestDaemonComesLate(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	tried := make(chan bool, 100)
	again := status.Error(codes.Unavailable, "it is ending")
	d.welcomes(func() (*pb.AttachResponse, error) {
		tried <- true
		return nil, again
	})
	s := d.start("cat")
	s.say("early")
	stop := d.serve()
	next(t, "a try", tried)
	next(t, "another", tried)
	stop()
	d.welcomes(func() (*pb.AttachResponse, error) { return &pb.AttachResponse{Start: true}, nil })
	d.serve()
	go next(t, "Attach", d.attached).relay()
	s.hears("early")
	s.in.Close()
	s.ends(0)
}

// If a daemon refuses for good, it is not asked again, and the agent is told why.
func TestRefusedForGood(t *testing.T) {
	t.Parallel()
	d := serving(t)
	d.welcomes(func() (*pb.AttachResponse, error) {
		return nil, status.Error(codes.FailedPrecondition, "another protocol")
	})
	s := d.start("cat")
	s.say(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	s.hears(`{"jsonrpc":"2.0","id":1,"error":{"code":-31010,"message":"Not executed: another protocol"}}`)
	s.in.Close()
	s.ends(125)
}
