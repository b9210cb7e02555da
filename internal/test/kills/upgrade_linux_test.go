package kills

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/contrib/systemd"
	"github.com/thoughtgate/thoughtgated/daemon/keep"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

var upgrades = flag.Int("upgrades", 4, "how often the daemon is replaced by another release, for each who keeps what it has open")

const (
	callers    = 4  // agents that call; each has so many in flight
	callsEach  = 8  // 32 in all
	heldCalls  = 3  // of one more agent
	serverWait = 10 // milliseconds that each call takes
)

// nextDaemon is another release of it.
const nextDaemon = "thoughtgated-next"

// The daemon is replaced by another release while 32 calls are in flight and three are
// held: no call sees an error, and what is held is held still.
func TestUpgrade(t *testing.T) {
	next := rig.Build(t, "thoughtgated", "-ldflags", "-s -w -X main.release=next")
	t.Run("store", func(t *testing.T) {
		h := newFixture(t, 200)
		h.Activate()
		h.upgrade(next, func(gone func()) {
			h.StopDaemon()
			gone()
			h.StartDaemon()
		})
	})
	t.Run("keeper", func(t *testing.T) {
		h := newFixture(t, 201)
		h.Keep = true
		h.upgrade(next, func(gone func()) {
			h.Daemon.Signal(keep.Again)
			gone()
		})
	})
	t.Run("systemd", func(t *testing.T) {
		programs := rig.Programs(t)
		programs[nextDaemon] = next
		rig.Inside(t, "TestUpgradeInsideSystemd", 10*rig.Timeout, programs, fmt.Sprint("-upgrades=", *upgrades))
	})
}

func TestUpgradeInsideSystemd(t *testing.T) {
	if !rig.IsInside() {
		t.Skip("TestUpgrade runs it")
	}
	h := newFixture(t, 202)
	var err error
	if h.units, err = systemd.Units(h.Path("bin/thoughtgated"), "/bin/false"); err != nil {
		t.Fatal(err)
	}
	h.upgrade(rig.Shipped(t, nextDaemon), func(gone func()) {
		if out, err := h.Systemctl("restart", "--no-block", systemd.Service); err != nil {
			t.Errorf("restart: %v: %s", err, out)
		}
		gone()
	})
}

// upgrade has restart replace the daemon by the other of two releases, again and again.
// It calls gone when the old one has ended or is about to.
func (h *fixture) upgrade(next string, restart func(gone func())) {
	h.Program = h.Path("bin/thoughtgated")
	releases := []string{rig.Shipped(h, "thoughtgated"), next}
	h.install(releases[0])
	h.start()
	c, err := h.dial(h.Context())
	if err != nil {
		h.Fatal(err)
	}
	defer c.Close()

	var load sync.WaitGroup
	p := &pauses{}
	var agents []*agent
	for i := range callers {
		a := h.newAgent(i, rand.New(rand.NewPCG(1, uint64(i))), i%2 == 0)
		a.next = func(id int) ([]byte, *request) { return call(id, "echo", serverWait, 100, 100) }
		a.heard = p.took
		for len(a.free) > callsEach {
			<-a.free
		}
		agents = append(agents, a)
		load.Go(func() {
			a.talk()
			a.leave()
		})
	}
	holding := h.newAgent(callers, nil, false)
	holding.most = heldCalls
	holding.next = func(id int) ([]byte, *request) { return call(id, "held", 0, 100*id, 100) }
	holding.talk()
	var before []string
	if err := h.until("so many calls are held", func() bool { before = h.open(c); return len(before) == heldCalls }); err != nil {
		h.Fatal(err)
	}
	builds := map[string]bool{}
	for i := range *upgrades {
		h.install(releases[(i+1)%2])
		was := h.DaemonPID()
		restart(func() {
			if err := h.until("the daemon ends", func() bool { return !h.DaemonRuns(was) }); err != nil {
				h.Error(err)
			}
			p.begin(agents)
		})
		if err := h.until("another daemon runs, and all that was under way is answered", func() bool {
			pid := h.DaemonPID()
			return h.Failed() || pid != 0 && pid != was && p.over()
		}); err != nil {
			h.Error(err)
		}
		s, err := c.Status(h.Context())
		if err != nil {
			h.Errorf("ask the daemon for its release: %v", err)
		}
		builds[s.GetBuild()] = true
		if now := h.open(c); !slices.Equal(now, before) {
			h.Errorf("the questions %q are open, before there were %q", now, before)
		}
		if h.Failed() {
			break
		}
	}
	if len(builds) != 2 {
		h.Errorf("the daemons were %v, want two releases in turn", builds)
	}
	close(h.stop)
	load.Wait()
	h.approve(c)
	holding.leave()
	for _, a := range h.agents {
		for id, why := range a.refused {
			h.Errorf("%s: request %d: %s", a.name, id, why)
		}
	}
	h.StopDaemon()
	h.compare(0)
	h.Log(p)
}

// install puts a program where the daemon's is.
func (h *fixture) install(program string) {
	h.Helper()
	raw, err := os.ReadFile(program)
	if err == nil {
		err = os.MkdirAll(h.Path("bin"), 0o700)
	}
	if err == nil {
		err = os.WriteFile(h.Program+"~", raw, 0o700)
	}
	if err == nil {
		err = os.Rename(h.Program+"~", h.Program)
	}
	if err != nil {
		h.Fatal(err)
	}
}

// open returns the ids of the questions that are open.
func (h *fixture) open(c *client.Client) (ids []string) {
	all, err := c.ListApprovals(h.Context(), false)
	if err != nil {
		h.Errorf("ask what is open: %v", err)
	}
	for _, q := range all {
		ids = append(ids, q.GetId())
	}
	slices.Sort(ids)
	return ids
}

func (h *fixture) approve(c *client.Client) {
	all, err := c.ListApprovals(h.Context(), false)
	for _, q := range all {
		if err == nil {
			_, err = c.Decide(h.Context(), &pb.Decision{Id: q.GetId(), Subject: q.GetSubject(), Answer: pb.Answer_ANSWER_APPROVE, Surface: "script"})
		}
	}
	if err != nil {
		h.Errorf("approve what was held: %v", err)
	}
}

// pauses are how long calls took that were under way when the daemon was replaced.
type pauses struct {
	mu       sync.Mutex
	since    time.Time // when the last one ended; zero: none has
	under    int       // calls that were under way then, and not answered since
	inFlight []int     // calls, at each begin
	usual    []time.Duration
	paused   []time.Duration
}

// begin notes that the daemon has ended while agents have calls under way.
func (p *pauses) begin(agents []*agent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.under = 0
	for _, a := range agents {
		p.under += int(a.asks.Load()) // of one that is answered now took is called next
	}
	p.inFlight = append(p.inFlight, p.under)
	p.since = time.Now()
}

// over reports whether all calls are answered that were under way at the last begin.
func (p *pauses) over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.under <= 0
}

// took notes how long a call took.
func (p *pauses) took(q *request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	took := time.Since(q.sent)
	if p.since.IsZero() {
		p.usual = append(p.usual, took)
	} else if q.sent.Before(p.since) {
		p.under--
		p.paused = append(p.paused, took)
	}
}

// String says how long the calls took.
func (p *pauses) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var text strings.Builder
	for _, of := range []struct {
		what string
		all  []time.Duration
	}{{"before the first upgrade", p.usual}, {"under way at one of them", p.paused}} {
		slices.Sort(of.all)
		if n := len(of.all); n > 0 {
			ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
			fmt.Fprintf(&text, "%d calls %s took p50 %.1f ms, p99 %.1f ms, at most %.1f ms, of which the server %d ms\n",
				n, of.what, ms(of.all[n/2]), ms(of.all[n*99/100]), ms(of.all[n-1]), serverWait)
		}
	}
	fmt.Fprintf(&text, "in flight were %d", p.inFlight)
	return text.String()
}
