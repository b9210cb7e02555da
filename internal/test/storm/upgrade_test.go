package storm

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

const (
	upgrades = 4 // restarts, each with another program than the one before
	agents   = 3
	callers  = 6 // of the control socket: half connect for each call, half stay connected
)

// A daemon whose sockets are somebody else's is replaced again and again while
// agents call and people look. Nobody is refused, no answer is lost, and the
// questions that were open are open still, and count.
func TestUpgradeUnderTraffic(t *testing.T) {
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("no /proc here, so what is left running can't be found")
	}
	u := &upgrade{T: t, fixture: rig.NewFixture(t), stop: make(chan struct{})}
	u.fixture.Activate()
	u.fixture.Configure(rules)
	next := rig.Release(t, "thoughtgated", "next")
	u.fixture.StartDaemon()

	var shims []*rig.Shim
	for i := range agents {
		s := u.fixture.Shim(t, rig.Options{Server: fmt.Sprint("s", i), Agent: true})
		shims = append(shims, s)
		if err := s.Join(); err != nil {
			t.Fatal(err)
		}
		u.wait.Go(func() { u.serve(s) })
		u.wait.Go(func() { u.agent(s) })
	}
	open := u.awaitQuestions()
	for i := range callers {
		u.wait.Go(func() { u.call(i%2 == 0) })
	}
	builds := map[string]bool{}
	for i := range upgrades {
		calls, answers := u.calls.Load(), u.answers.Load()
		u.fixture.StopDaemon()
		if u.fixture.Program = next; i%2 == 1 {
			u.fixture.Program = ""
		}
		u.fixture.StartDaemon()
		u.eventually("calls of people and of agents go on", func() bool {
			return u.calls.Load() > calls+20*callers && u.answers.Load() > answers+20*agents
		})
		builds[u.build()] = true
	}
	if len(builds) != 2 {
		t.Errorf("the daemons were %v, want two releases in turn", builds)
	}
	u.decide(open)
	close(u.stop)
	u.eventually("every agent has its last answers", func() bool { return u.done.Load() == agents })
	for _, s := range shims {
		s.HangUp()
		if _, ok := s.Wait(rig.Timeout); !ok {
			t.Error("a shim goes on")
		}
	}
	u.wait.Wait()
	t.Logf("%d calls of people and %d of agents over %d restarts", u.calls.Load(), u.answers.Load(), upgrades)
}

type upgrade struct {
	*testing.T
	fixture        *rig.Fixture
	stop           chan struct{} // closed when the agents and callers are to end
	wait           sync.WaitGroup
	calls, answers atomic.Int64
	done           atomic.Int64 // agents that have all their answers
}

func (u *upgrade) stopped() bool {
	select {
	case <-u.stop:
		return true
	default:
		return u.Failed()
	}
}

func (u *upgrade) dial() (*client.Client, error) {
	ctx, cancel := context.WithTimeout(u.Context(), rig.Timeout)
	defer cancel()
	return client.Dial(ctx, client.WithSocket(u.fixture.Path("run/thoughtgate/control.sock")))
}

// call asks for what is open, over and over. Any error is one too many.
func (u *upgrade) call(afresh bool) {
	c, err := u.dial()
	for err == nil && !u.stopped() {
		var open []*pb.Approval
		ctx, cancel := context.WithTimeout(u.Context(), rig.Timeout)
		open, err = c.ListApprovals(ctx, false)
		cancel()
		if err == nil && len(open) > agents {
			err = fmt.Errorf("%d questions are open, want %d at most", len(open), agents)
		}
		u.calls.Add(1)
		if err == nil && afresh {
			c.Close()
			c, err = u.dial()
		}
	}
	if c != nil {
		c.Close()
	}
	if err != nil {
		u.Errorf("a caller (one connection for each call: %v): %v", afresh, err)
	}
}

func (u *upgrade) build() (build string) {
	u.Helper()
	c, err := u.dial()
	if err == nil {
		defer c.Close()
		var s *pb.StatusResponse
		if s, err = c.Status(u.Context()); err == nil {
			return s.GetBuild()
		}
	}
	u.Error(err)
	return ""
}

// agent has one call that waits for a person, and makes others meanwhile, one
// after the other. Each has to be answered with the server's result.
func (u *upgrade) agent(s *rig.Shim) {
	ask := func(id int, tool string) bool {
		line := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"n":%d}}}`, id, tool, id)
		if err := s.Send([]byte(line + "\n")); err != nil {
			u.Error(err)
			return false
		}
		return true
	}
	read := 0 // lines that hold no answer to what is still to be asked
	answered := func(id int) bool {
		want := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"of":%d}}`+"\n", id, id)
		begins := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,`, id)
		at, err := s.Agent.Await(read, rig.Timeout, func(line []byte) bool { return len(line) > len(begins) && string(line[:len(begins)]) == begins })
		if err != nil {
			u.Errorf("call %d: %v\n%s", id, err, s.Stderr())
			return false
		}
		lines, _ := s.Agent.Since(at)
		if got := string(lines[0]); got != want {
			u.Errorf("call %d: got %swant %s", id, got, want)
		}
		read = at
		return true
	}
	if !ask(0, "held") {
		return
	}
	for id := 1; !u.stopped(); id++ {
		if !ask(id, "echo") || !answered(id) {
			return
		}
		u.answers.Add(1)
	}
	if read = 0; answered(0) {
		u.done.Add(1)
	}
}

// serve answers each call once with what it was.
func (u *upgrade) serve(s *rig.Shim) {
	for n := 0; ; n++ {
		at, err := s.Server.Await(n, rig.Timeout, func([]byte) bool { return true })
		if err != nil {
			return // it has ended
		}
		lines, _ := s.Server.Since(at)
		var id int
		if _, err := fmt.Sscanf(string(lines[0]), `{"jsonrpc":"2.0","id":%d,`, &id); err != nil {
			u.Errorf("the server reads %q", lines[0])
			return
		}
		if err := s.Server.Send(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":{"of":%d}}`+"\n", id, id)); err != nil {
			return
		}
	}
}

// awaitQuestions returns the questions, once there is one of each agent.
func (u *upgrade) awaitQuestions() (open []*pb.Approval) {
	u.Helper()
	c, err := u.dial()
	if err != nil {
		u.Fatal(err)
	}
	defer c.Close()
	u.eventually("each agent has a question open", func() bool {
		open, err = c.ListApprovals(u.Context(), false)
		return err == nil && len(open) == agents
	})
	return open
}

// decide approves what was open before the first restart.
func (u *upgrade) decide(open []*pb.Approval) {
	u.Helper()
	c, err := u.dial()
	if err != nil {
		u.Error(err)
		return
	}
	defer c.Close()
	for _, q := range open {
		_, err := c.Decide(u.Context(), &pb.Decision{Id: q.GetId(), Subject: q.GetSubject(), Answer: pb.Answer_ANSWER_APPROVE, Surface: "terminal"})
		if err != nil {
			u.Errorf("approve %s, which was asked %d daemons ago: %v", q.GetId(), upgrades, err)
		}
	}
}

func (u *upgrade) eventually(what string, done func() bool) {
	u.Helper()
	for end := time.Now().Add(rig.Timeout); !done(); time.Sleep(5 * time.Millisecond) {
		if u.Failed() || time.Now().After(end) {
			u.Errorf("still not so: %s", what)
			return
		}
	}
}
