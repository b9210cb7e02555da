// Package storm starts shims with their agents and servers, and kills any of
// them, and the daemon, at any moment. Whatever falls first: no process is left,
// no request of an agent that lives stays open, no question outlives who asked,
// and nothing that is held or denied reaches a server.
//
//gotest:race the programs have the race detector if the tests have it
package storm

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

var (
	cycles = flag.Int("cycles", 16, "how many times things are started and killed; a tenth of it with -short")
	seed   = flag.Uint64("seed", 0, "of the random choices; 0: another one each time")
)

func TestMain(m *testing.M) { rig.MainRaced(m) }

// rules bound how many questions are open: nobody answers those of a storm.
const rules = rig.Configuration + "limits: {pending_per_server: 64, pending: 256}\n"

// workers are how many fixtures have a storm at the same time. They mostly wait.
const workers = 8

func TestStorm(t *testing.T) {
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("no /proc here, so what is left running can't be found")
	}
	n := *cycles
	if testing.Short() {
		n /= 10
	}
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("%d cycles; the same choices again: -args -seed=%d", n, *seed)
	var all sync.WaitGroup
	defer all.Wait()
	for worker := range workers {
		all.Go(func() { // as many at once as there are, not as there are processors
			t.Run(fmt.Sprint(worker), func(t *testing.T) {
				s := &storm{T: t, fixture: rig.NewFixture(t), r: rand.New(rand.NewPCG(*seed, uint64(worker)))}
				s.fixture.Configure(rules)
				s.fixture.StartDaemon()
				for i := worker; i < n && !t.Failed(); i += workers {
					s.cycle(i)
				}
				s.checkDaemon()
			})
		})
	}
}

type storm struct {
	*testing.T
	fixture *rig.Fixture
	r       *rand.Rand
	pairs   []*pair // of this cycle
}

func (s *storm) dial() *client.Client {
	s.Helper()
	c, err := client.Dial(s.Context(), client.WithSocket(s.fixture.Path("run/thoughtgate/control.sock")))
	if err != nil {
		s.Fatal(err)
	}
	return c
}

// blow is one thing that is done to a running fixture.
type blow struct {
	after time.Duration
	what  string
	pair  *pair
}

// cycle starts agents, shims and servers, strikes, and looks at what is left.
func (s *storm) cycle(n int) {
	blows := s.plan()
	failed := true
	defer func() {
		if failed || s.Failed() {
			s.Logf("cycle %d: %v", n, blows)
		}
	}()
	begun := time.Now()
	for _, p := range s.pairs {
		p.start()
	}
	for _, b := range blows {
		time.Sleep(time.Until(begun.Add(b.after)))
		s.strike(b)
	}
	s.settle()
	for _, p := range s.pairs {
		p.end()
		p.check()
	}
	s.fixture.CheckEmpty()
	if s.fixture.Daemon == nil {
		s.fixture.StartDaemon()
	}
	failed = false
}

// plan chooses who is started, and who is struck when.
func (s *storm) plan() []blow {
	s.pairs = nil
	for range 1 + s.r.IntN(2) {
		s.pairs = append(s.pairs, &pair{storm: s, r: rand.New(rand.NewPCG(s.r.Uint64(), 0))})
	}
	var blows []blow
	for len(blows) == 0 {
		for _, p := range s.pairs {
			for _, what := range []string{"server", "shim", "agent", "exit", "hang up"} {
				if s.r.IntN(5) == 0 {
					blows = append(blows, blow{s.moment(), what, p})
				}
			}
		}
		if s.r.IntN(3) == 0 {
			what := []string{"daemon", "replace", "restart"}[s.r.IntN(3)]
			blows = append(blows, blow{s.moment(), what, nil})
		}
	}
	slices.SortFunc(blows, func(a, b blow) int { return int(a.after - b.after) })
	return blows
}

// moment is when something happens: often while everything is being started.
func (s *storm) moment() time.Duration {
	return time.Duration(s.r.IntN([]int{20, 100, 400}[s.r.IntN(3)])) * time.Millisecond
}

func (b blow) String() string { return fmt.Sprintf("%v: %s", b.after, b.what) }

func (s *storm) strike(b blow) {
	kill := func(pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) } // it may have ended
	for _, p := range s.pairs {
		if b.pair == p || b.pair == nil {
			p.note()
		}
	}
	switch b.what {
	case "server":
		if server := b.pair.joined(); server != nil {
			b.pair.struck = true
			kill(server.PID)
		}
	case "exit":
		if server := b.pair.joined(); server != nil {
			b.pair.struck = true
			_ = server.Exit(5)
		}
	case "shim":
		if pid := b.pair.shim.ShimPID(); pid > 0 {
			b.pair.struck, b.pair.shimKilled = true, true
			kill(pid)
		}
	case "agent":
		b.pair.struck, b.pair.agentGone = true, true
		kill(b.pair.shim.PID())
	case "hang up":
		b.pair.struck, b.pair.agentGone = true, true
		b.pair.shim.HangUp()
	case "daemon":
		s.fixture.LoseDaemon()
		for _, p := range s.pairs {
			p.lost = true
		}
	case "replace":
		s.fixture.KillDaemon()
		s.fixture.StartDaemon()
	case "restart":
		s.fixture.StopDaemon()
		s.fixture.StartDaemon()
	}
}

// settle waits until each pair has ended, or for those that nothing was done to
// that would end them, until all is answered; then their agents leave.
func (s *storm) settle() {
	for _, p := range s.pairs {
		if p.lost && !p.struck {
			s.eventually("who has lost the daemon ends, or says that there is none: "+p.state(), func() bool { return p.shim.HasEnded() || p.declines() })
		}
		lives := !p.struck && (!p.lost || p.declines())
		p.stopTalking(lives)
		if lives {
			s.eventually("every request is answered: "+p.state(), func() bool { return len(p.unanswered()) == 0 || p.shim.HasEnded() })
			if p.shim.HasEnded() {
				s.Errorf("a shim ended that nothing was done to: %s", p.shim.Stderr())
			}
			p.agentGone = true
			p.shim.HangUp()
		}
		if _, ok := p.shim.Wait(rig.Timeout); !ok {
			s.Errorf("an agent and its shim go on: %s", p.state())
		}
	}
}

// checkDaemon looks at what the daemon still knows.
func (s *storm) checkDaemon() {
	c := s.dial()
	defer c.Close()
	var err error
	s.eventually("no shim is attached", func() bool {
		all, err := c.ListProcesses(s.Context())
		return err == nil && len(all) == 0
	})
	var open []*pb.Approval
	s.eventually("no question is open", func() bool {
		open, err = c.ListApprovals(s.Context(), false)
		return err == nil && len(open) == 0
	})
	for _, q := range open {
		s.Logf("open: %v", q)
	}
	if log := s.fixture.DaemonLog(); strings.Contains(log, "DATA RACE") || strings.Contains(log, "panic:") {
		s.Error(log)
	}
}

func (s *storm) eventually(what string, done func() bool) {
	s.Helper()
	for end := time.Now().Add(rig.Timeout); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			s.Errorf("still not so: %s", what)
			return
		}
	}
}
