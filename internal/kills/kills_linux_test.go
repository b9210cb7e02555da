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
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/rig"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

var (
	kills = flag.Int("kills", 100, "how often a daemon is killed, in all; a tenth of it with -short")
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

// sessions are how many a house has at the same time.
const sessions = 3

// TestKills has two houses with a fake of systemd's store, and two with the daemon's own
// keeper. In one of each the daemon is the one that ships, and is killed at random
// moments; in the other it stops where it has just stored something.
func TestKills(t *testing.T) {
	n := plan(t)
	s := newStops(t)
	tests := []struct {
		name  string
		keep  bool
		stops *stops
	}{{"store", false, nil}, {"store, stops", false, s}, {"keeper", true, nil}, {"keeper, stops", true, s}}
	var all sync.WaitGroup
	for i, test := range tests {
		all.Go(func() { // as many at once as there are, not as there are processors
			t.Run(test.name, func(t *testing.T) {
				h := newHouse(t, uint64(i))
				h.stops = test.stops
				if h.Keep = test.keep; !h.Keep {
					h.Activate()
				}
				h.run(n / len(tests))
			})
		})
	}
	all.Wait()
	s.report(t)
}

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

// house is one in which the daemon is killed.
type house struct {
	*testing.T
	*rig.House
	r      *rand.Rand    // of the kills
	stops  *stops        // nil for a daemon that does not stop by itself
	stop   chan struct{} // closed when the agents are to ask for nothing more
	begins time.Duration // how long it takes until a daemon serves

	came atomic.Int64 // lines that agents have read

	mu     sync.Mutex           // guards what follows
	here   map[*agent]time.Time // since when
	agents []*agent             // that have left
	lost   int                  // of what servers say by themselves
}

func newHouse(t *testing.T, stream uint64) *house {
	t.Helper()
	h := &house{
		T: t, House: rig.NewHouse(t), r: rand.New(rand.NewPCG(*seed, stream)), stop: make(chan struct{}),
		begins: 50 * time.Millisecond, here: map[*agent]time.Time{},
	}
	h.Shipped = true
	h.Env = append(h.Env, stopVariable+"="+h.Path("stop"))
	h.Configure(rules)
	return h
}

func (h *house) stopped() bool {
	select {
	case <-h.stop:
		return true
	default:
		return h.Failed()
	}
}

// until waits until so.
func (h *house) until(what string, so func() bool) error {
	for end := time.Now().Add(rig.Patience); !so(); time.Sleep(time.Millisecond) { // between two looks
		if time.Now().After(end) {
			return fmt.Errorf("not within %v: %s", rig.Patience, what)
		}
	}
	return nil
}

// run kills the daemon n times under load.
func (h *house) run(n int) {
	if h.stops != nil {
		h.Program = h.stops.program
	}
	begun := time.Now()
	blows := []blow{h.blow()}
	if err := h.prepare(blows[0]); err != nil {
		h.Fatal(err)
	}
	h.StartDaemon()
	ctx, cancel := context.WithCancel(h.Context())
	defer cancel()
	var load, person sync.WaitGroup
	person.Go(func() { h.answer(ctx) })
	for i := range sessions {
		load.Go(func() {
			r := rand.New(rand.NewPCG(*seed, uint64(1000+i)))
			for visit := 0; !h.stopped(); visit++ {
				a := h.newAgent(visit*sessions+i, r)
				a.talk()
				a.leave()
			}
		})
	}
	last := 0
	for i := range n {
		if i+1 < n {
			blows = append(blows, h.blow())
		} else {
			blows = append(blows, blow{})
		}
		var err error
		if last, err = h.strike(last, blows[i], blows[i+1]); err != nil {
			h.Errorf("kill %d, %v: %v", i+1, blows[i], err)
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
	if !h.Keep {
		if err := h.until("nothing is kept any more", func() bool { return h.Kept() == 0 }); err != nil {
			h.Errorf("%v: %d descriptors are", err, h.Kept())
		}
	}
	h.StopDaemon()
	h.compare(n)
	h.Logf("%d kills in %v", n, took.Round(time.Millisecond))
}

// blow is how one daemon is killed.
type blow struct {
	site, nth int     // it kills itself when it passes that the nth time; 0: it does not
	serves    bool    // not before it has served
	moment    float64 // in times that it takes to begin
}

func (b blow) String() string {
	if b.site > 0 {
		return fmt.Sprintf("the %d. time at site %d", b.nth, b.site)
	}
	return fmt.Sprintf("%.2f after it serves (%v)", b.moment, b.serves)
}

// blow chooses the next one.
func (h *house) blow() blow {
	b := blow{serves: h.r.IntN(4) > 0, moment: 2 * h.r.Float64()}
	if h.r.IntN(4) == 0 { // long enough for a long line
		b.moment *= 10
	}
	if h.stops != nil {
		b.site, b.nth, b.serves, b.moment = 1+h.r.IntN(len(h.stops.sites)), 1+h.r.IntN(1+h.r.IntN(20)), true, 10
	}
	return b
}

// prepare has the daemon that is started next stop where b wants.
func (h *house) prepare(b blow) error {
	if b.site == 0 {
		return nil
	}
	return h.arm(b.site, b.nth)
}

// strike kills the daemon that runs since last was killed, as now says, and returns its
// process id when the next one runs.
func (h *house) strike(last int, now, next blow) (pid int, err error) {
	err = h.until("another daemon runs", func() bool { pid = h.DaemonPID(); return pid != 0 && pid != last })
	if err != nil {
		return 0, err
	}
	begun, came := time.Now(), h.came.Load()
	if err := h.prepare(next); err != nil {
		return 0, err
	}
	gone := func() bool { return h.DaemonPID() != pid }
	err = h.until("agents begin a session", func() bool { return gone() || h.allBegan() })
	if now.serves && err == nil {
		err = h.until("a daemon serves", func() bool { return gone() || h.came.Load() > came })
		h.begins = min(time.Since(begun), 100*time.Millisecond)
	}
	if err != nil {
		return 0, err
	}
	for end := time.Now().Add(time.Duration(now.moment * float64(h.begins))); !gone() && time.Now().Before(end); {
		time.Sleep(min(time.Until(end), 2*time.Millisecond)) // the moment of the kill, not a wait
	}
	switch {
	case !gone():
		_ = syscall.Kill(pid, syscall.SIGKILL)
	case h.stops == nil:
		return 0, errors.New("a daemon ended by itself")
	default:
		h.stops.fired(now.site)
	}
	if err := h.until("the daemon has gone", gone); err != nil {
		return 0, err
	}
	if !h.Keep {
		if code, _ := h.Daemon.Wait(rig.Patience); code != 128+int(syscall.SIGKILL) {
			return 0, fmt.Errorf("a daemon ended by itself with status %d", code)
		}
		h.StartDaemon()
	}
	return pid, nil
}

// allBegan reports whether no agent waits for its server for too long: it would be
// told that there is no daemon.
func (h *house) allBegan() bool {
	const long = 5 * time.Second
	h.mu.Lock()
	defer h.mu.Unlock()
	for a, since := range h.here {
		if _, err := os.Lstat(a.list); err != nil && time.Since(since) > long {
			return false
		}
	}
	return true
}

// entered notes that an agent has come.
func (h *house) entered(a *agent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.here[a] = time.Now()
}

// left notes that an agent has left, and how many things did not come that its server
// has said.
func (h *house) left(a *agent, lost int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.here, a)
	h.agents = append(h.agents, a)
	h.lost += lost
}

// answer lets through what is held, until ctx ends.
func (h *house) answer(ctx context.Context) {
	c, err := client.Dial(ctx, client.WithSocket(h.Path("run/thoughtgate/control.sock")))
	if err != nil {
		h.Errorf("the person: %v", err)
		return
	}
	defer c.Close()
	for ctx.Err() == nil {
		for event, err := range c.WatchApprovals(ctx) {
			if err == nil {
				if q := event.GetApproval(); q.GetState() == pb.ApprovalState_APPROVAL_STATE_OPEN {
					_, err = c.Decide(ctx, &pb.Decision{Id: q.GetId(), Subject: q.GetSubject(), Answer: pb.Answer_ANSWER_APPROVE, Surface: "script"})
				}
			}
			if err != nil {
				// Whom the daemon left in the middle asks the next one.
				if ctx.Err() == nil && !errors.Is(err, client.ErrNotRunning) && !errors.Is(err, client.ErrDecided) {
					h.Errorf("the person: %v", err)
				}
				break
			}
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}
