// Package kills kills the daemon under load, again and again, and looks whether
// anything is lost, doubled or torn.
//
// Agents with real shims and servers make requests of all lengths. The daemon is killed
// at random moments and right after each store into a session's memory, and somebody
// keeps what it has open for the next one: systemd, a fake of its store, or the daemon's
// own keeper. In the end three lists are compared: what the servers have executed by
// their own account, what the agents were answered, and what is on record.
//
//	make test-all
package kills

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/contrib/systemd"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

var (
	kills = flag.Int("kills", 24, "how often a daemon is killed, in all, if that is enough for each place once; a tenth of it with -short")
	seed  = flag.Uint64("seed", 0, "of the random choices; 0: another one each time")
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == serverRole {
		if err := serve(os.Stdin, os.Stdout, os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "the server of a test:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	rig.Main(m)
}

const rules = `schema: 1
governance:
  defaults: {action: forward, asks: forward}
  rules:
    - {match: held, action: approve}
approval:
  me: {destination: {type: local}, timeout: 10m}
pins: {mode: off}
shim: {reattach: 2m}
`

// sessions are how many a fixture has at the same time.
const sessions = 3

// mostKills is how many a fixture sees: what is compared fits into memory then, and what is
// on record onto a small disk.
const mostKills = 250

// TestKills has fixtures with a fake of systemd's store, and with the daemon's own keeper.
// In half of each the daemon is the one that ships, and is killed at random moments; in
// the other half it stops where it has just stored something, at each place in turn, and
// at each place once even if that is more often than it was to be killed.
func TestKills(t *testing.T) {
	n := plan(t)
	s := newStops(t)
	tests := []struct {
		name  string
		keep  bool
		stops *stops
	}{{"store", false, nil}, {"store, stops", false, s}, {"keeper", true, nil}, {"keeper, stops", true, s}}
	var all sync.WaitGroup
	once := (len(s.sites) + 1) / 2 // in each of two fixtures
	if testing.Short() {
		once = 0
	}
	for i, test := range tests {
		count := n / len(tests)
		if test.stops != nil {
			count = max(count, once)
		}
		all.Go(func() { // as many at once as there are, not as there are processors
			for round, left := 0, count; left > 0 && !t.Failed(); round, left = round+1, left-mostKills {
				t.Run(fmt.Sprint(test.name, " ", round), func(t *testing.T) {
					h := newFixture(t, uint64(round*len(tests)+i))
					h.stops, h.turn = test.stops, 2*round*mostKills+i/2
					if h.Keep = test.keep; !h.Keep {
						h.Activate()
					}
					h.run(min(left, mostKills))
				})
			}
		})
	}
	all.Wait()
	s.report(t, n/2)
}

// insideKills is the test that TestKillsUnderSystemd runs.
const insideKills = "TestKillsInsideSystemd"

// TestKillsUnderSystemd has a real systemd keep what the daemon has open.
func TestKillsUnderSystemd(t *testing.T) {
	if rig.IsInside() {
		t.Skip("this is the inside")
	}
	n := plan(t) / 4
	for round, left := 0, n; left > 0 && !t.Failed(); round, left = round+1, left-mostKills {
		t.Run(fmt.Sprint(round), func(t *testing.T) { // at whose end its control group is removed
			rig.Inside(t, insideKills, 10*rig.Timeout, rig.Programs(t), fmt.Sprint("-kills=", min(left, mostKills)), fmt.Sprint("-seed=", *seed+uint64(round)))
		})
	}
}

func TestKillsInsideSystemd(t *testing.T) {
	if !rig.IsInside() {
		t.Skip("TestKillsUnderSystemd runs it")
	}
	h := newFixture(t, insideStream)
	var err error
	if h.units, err = systemd.Units(rig.Shipped(t, "thoughtgated"), "/bin/false"); err != nil {
		t.Fatal(err)
	}
	h.run(*kills)
}

// insideStream is that of the random choices in there.
const insideStream = 1 << 20

// plan returns how often to kill, and says how the same choices are made again.
func plan(t *testing.T) int {
	t.Helper()
	n := *kills
	if testing.Short() {
		n /= 10
	}
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("%d kills; the same choices again: -args -kills=%d -seed=%d", n, n, *seed)
	return n
}

// fixture is one in which the daemon is killed.
type fixture struct {
	*testing.T
	*rig.Fixture
	r      *rand.Rand        // of the kills
	units  map[string]string // of systemd that runs the daemon; nil for none
	stops  *stops            // nil for a daemon that does not stop by itself
	turn   int               // whose site is the next one's; two fixtures take every second each
	stop   chan struct{}     // closed when the agents are to ask for nothing more
	begins time.Duration     // how long it takes until a daemon serves

	mu     sync.Mutex           // guards what follows
	here   map[*agent]time.Time // since when
	agents []*agent             // that have left
	lost   int                  // of what servers say by themselves
}

func newFixture(t *testing.T, stream uint64) *fixture {
	t.Helper()
	h := &fixture{
		T: t, Fixture: rig.NewFixture(t), r: rand.New(rand.NewPCG(*seed, stream)), stop: make(chan struct{}),
		begins: 50 * time.Millisecond, here: map[*agent]time.Time{},
	}
	h.Shipped = true
	h.Env = append(h.Env, stopVariable+"="+h.Path("stop"))
	h.Configure(rules)
	return h
}

func (h *fixture) stopped() bool {
	select {
	case <-h.stop:
		return true
	default:
		return h.Failed()
	}
}

// until waits until so.
func (h *fixture) until(what string, so func() bool) error {
	for end := time.Now().Add(rig.Timeout); !so(); time.Sleep(5 * time.Millisecond) { // between two looks
		if time.Now().After(end) {
			return fmt.Errorf("not within %v: %s", rig.Timeout, what)
		}
	}
	return nil
}

// run kills the daemon n times under load.
func (h *fixture) run(n int) {
	if h.stops != nil {
		h.Program = h.stops.program
	}
	begun, loads := time.Now(), h.r.Uint64()
	h.start()
	ctx, cancel := context.WithCancel(h.Context())
	defer cancel()
	// A keeper whose first daemon was never ready gives up.
	if err := h.until("the first daemon answers", h.answers); err != nil {
		h.Fatal(err)
	}
	var load, person sync.WaitGroup
	person.Go(func() { h.answer(ctx) })
	for i := range sessions {
		load.Go(func() {
			r := rand.New(rand.NewPCG(loads, uint64(i)))
			for visit := 0; !h.stopped(); visit++ {
				a := h.newAgent(visit*sessions+i, r, r.IntN(2) == 0)
				if a.most = 20 + r.IntN(400); r.IntN(4) == 0 {
					a.most = 1 + r.IntN(3)
				}
				a.talk()
				a.leave()
			}
		})
	}
	last := 0
	for i := range n {
		b := h.blow()
		var err error
		if last, err = h.strike(last, b); err != nil {
			h.Errorf("kill %d, %v: %v", i+1, b, err)
		}
		if h.Failed() {
			break
		}
	}
	took := time.Since(begun)
	close(h.stop)
	load.Wait()
	cancel()
	person.Wait()
	if err := h.until("nothing is kept any more", func() bool { return h.kept() == 0 }); err != nil {
		h.Errorf("%v: %d descriptors are", err, h.kept())
	}
	h.StopDaemon()
	h.compare(n)
	h.Logf("%d kills in %v", n, took.Round(time.Millisecond))
}

// start starts the first daemon.
func (h *fixture) start() {
	if h.units == nil {
		h.StartDaemon()
		return
	}
	h.StartManager(h.units, systemd.Service)
	for _, unit := range append(slices.Clone(systemd.Sockets), systemd.Service) {
		if out, err := h.Systemctl("start", unit); err != nil {
			h.Fatalf("start %s: %v: %s", unit, err, out)
		}
	}
}

// kept is how many descriptors somebody keeps for the next daemon, as far as that can be
// asked.
func (h *fixture) kept() int {
	switch {
	case h.units != nil:
		out, err := h.Systemctl("show", "--property=NFileDescriptorStore", "--value", systemd.Service)
		n, wrong := strconv.Atoi(out)
		if err = errors.Join(err, wrong); err != nil {
			h.Errorf("ask what systemd keeps: %v: %s", err, out)
		}
		return n
	case h.Keep:
		return 0
	}
	return h.Kept()
}

// blow is how one daemon is killed.
type blow struct {
	site, nth int     // it kills itself when it passes that the nth time; 0: it does not
	early     bool    // while it begins; else when it has served all
	moment    float64 // when, in times that it takes to begin
}

func (b blow) String() string {
	if b.site > 0 {
		return fmt.Sprintf("the %d. time at site %d, early: %v", b.nth, b.site, b.early)
	}
	return fmt.Sprintf("moment %.2f, early: %v", b.moment, b.early)
}

// blow chooses the next one.
func (h *fixture) blow() blow {
	b := blow{early: h.r.IntN(8) == 0, moment: 2 * h.r.Float64()}
	if h.r.IntN(4) == 0 { // long enough for a long line
		b.moment *= 10
	}
	if h.stops != nil {
		b.site, b.nth, b.moment = h.stops.site(h.turn), 1+h.r.IntN(1+h.r.IntN(20)), 10
		h.turn += 2
	}
	return b
}

// strike kills the daemon that runs since last was killed, and returns its process id
// when the next one runs.
func (h *fixture) strike(last int, b blow) (pid int, err error) {
	err = h.until("another daemon runs", func() bool { pid = h.DaemonPID(); return pid != 0 && pid != last })
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	gone := func() bool { return !h.DaemonRuns(pid) }
	served := func() bool { return !h.waitsLong() }
	if !b.early {
		all := h.waiting()
		served = func() bool { return all() && h.answers() }
	}
	if err := h.until("a daemon serves all", func() bool { return gone() || served() }); err != nil {
		return 0, err
	}
	if !b.early {
		h.begins = min(time.Since(begun), 100*time.Millisecond)
	}
	if b.site > 0 && !gone() {
		if err := h.arm(b.site, b.nth); err != nil {
			return 0, err
		}
	}
	for end := time.Now().Add(time.Duration(b.moment * float64(h.begins))); !gone() && time.Now().Before(end); {
		time.Sleep(min(time.Until(end), 2*time.Millisecond)) // the moment of the kill, not a wait
	}
	switch {
	case !gone():
		_ = syscall.Kill(pid, syscall.SIGKILL)
	case b.site == 0:
		return 0, errors.New("a daemon ended by itself")
	default:
		h.stops.fired(b.site)
	}
	if err := h.until("the daemon has gone", gone); err != nil {
		return 0, err
	}
	if b.site > 0 {
		_ = os.Remove(h.Path("stop")) // it may have had no time to read it
	}
	if !h.Restarts() {
		if code, _ := h.Daemon.Wait(rig.Timeout); code != 128+int(syscall.SIGKILL) {
			return 0, fmt.Errorf("a daemon ended by itself with status %d", code)
		}
		h.StartDaemon()
	}
	return pid, nil
}

// answers reports whether the daemon answers a person.
func (h *fixture) answers() bool {
	ctx, cancel := context.WithTimeout(h.Context(), time.Second)
	defer cancel()
	c, err := h.dial(ctx)
	if err != nil {
		return false
	}
	defer c.Close()
	_, err = c.Status(ctx)
	return err == nil
}

// waiting returns what reports whether every agent has read something since now that
// has asked for something, and that no agent waits for long.
func (h *fixture) waiting() (served func() bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := map[*agent]int64{}
	for a := range h.here {
		before[a] = a.read.Load()
	}
	return func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		for a := range h.here {
			if was, asked := before[a]; asked && a.asks.Load() > 0 && a.read.Load() == was {
				return false
			}
		}
		return !h.waitLong()
	}
}

// waitsLong reports whether an agent waits for its server for long: if it waits for too long, it is
// told that there is no daemon.
func (h *fixture) waitsLong() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waitLong()
}

// waitLong is waitsLong for who holds h.mu.
func (h *fixture) waitLong() bool {
	for a, since := range h.here {
		if time.Since(since) > long && !a.began() {
			return true
		}
	}
	return false
}

// long is how long an agent may wait for its server before daemons are left alone.
const long = 3 * time.Second

// entered notes that an agent has come.
func (h *fixture) entered(a *agent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.here[a] = time.Now()
}

// left notes that an agent has left, and how many things did not come that its server
// has said.
func (h *fixture) left(a *agent, lost int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.here, a)
	h.agents = append(h.agents, a)
	h.lost += lost
}

func (h *fixture) dial(ctx context.Context) (*client.Client, error) {
	return client.Dial(ctx, client.WithSocket(h.Path("run/thoughtgate/control.sock")))
}

// answer lets through what is held, until ctx ends.
func (h *fixture) answer(ctx context.Context) {
	for ctx.Err() == nil {
		if err := h.watch(ctx); ctx.Err() == nil && !errors.Is(err, client.ErrNotRunning) && !errors.Is(err, client.ErrDecided) {
			h.Errorf("the person: %v", err)
			return
		}
		select {
		case <-time.After(5 * time.Millisecond): // between two tries
		case <-ctx.Done():
		}
	}
}

// watch is answer with one connection: a client whose daemon has gone too often waits
// for long before it looks for the next one.
func (h *fixture) watch(ctx context.Context) error {
	c, err := h.dial(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", client.ErrNotRunning, err) // one that dies at once may also be one that does not answer
	}
	defer c.Close()
	for event, err := range c.WatchApprovals(ctx) {
		if err != nil {
			return err
		}
		if q := event.GetApproval(); q.GetState() == pb.ApprovalState_APPROVAL_STATE_OPEN {
			if _, err := c.Decide(ctx, &pb.Decision{Id: q.GetId(), Subject: q.GetSubject(), Answer: pb.Answer_ANSWER_APPROVE, Surface: "script"}); err != nil {
				return err
			}
		}
	}
	return nil
}
