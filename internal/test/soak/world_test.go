package soak

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/test/fake"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

const (
	patience     = rig.Timeout
	moment       = 50 * time.Millisecond // before something is tried once more
	sharedServer = "shared"
	hookedServer = "hooked" // an extension sees its calls
)

// rules are the fixture's. The rule on what never comes changes from reload to reload.
const rules = `schema: 1
governance:
  defaults: {action: forward, asks: forward}
  rules:
    - {match: "held_*", action: approve}
    - {match: denied, action: deny}
    - {match: never_%d, action: deny}
sources:
  - {id: shared, shared: true, command: "*soak-server*"}
approval:
  me: {destination: {type: local}, timeout: 10m}
pins: {mode: off}
audit: {max_size: 64GiB} # a quarter of it is the share of agents without a session
shim: {reattach: 2m}
`

// plan is how long a run is, and how much happens in it.
type plan struct {
	length   time.Duration
	messages int64 // after so many it is over as well; 0 for no such end
	rate     int   // messages a second, all agents together
	hands    int   // of each agent: how much it has in flight
	every    time.Duration
	holds    int64 // messages from one held call to the next
	larges   int64 // messages from one large one to the next
	visits   time.Duration
	chapters int // each begins with blows, and then the daemon is left alone
	blows    int // in each chapter
	reloads  int // in all
	judged   bool
	out      string
	plant    string
	seed     uint64
}

// world is a fixture with all who are in it.
type world struct {
	*testing.T
	plan    plan
	self    string
	fixture *rig.Fixture
	client  *client.Client
	person  *person
	book    *book
	begun   time.Time

	agents []*caller
	meters [3]*caller // the server alone, behind a copier, behind a shim

	tokens   chan token
	stop     chan struct{} // closed when nothing new is to be asked
	stopOnce sync.Once
	wait     sync.WaitGroup
	sent     atomic.Int64
	blows    atomic.Int64

	daemon sync.RWMutex // held for writing while there is none
	life   int          // which daemon this is

	mu    sync.Mutex // guards tally
	tally map[string]int64
}

func newWorld(t *testing.T, p plan) *world {
	t.Helper()
	if _, err := os.Stat("/proc/self/smaps_rollup"); err != nil {
		t.Skip("no /proc here, so what is left running can't be found, nor what it holds")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, plan: p, self: self, fixture: rig.NewFixture(t), book: newBook(), tally: map[string]int64{},
		tokens: make(chan token, 64), stop: make(chan struct{})}
	w.fixture.Shipped = true
	w.fixture.Activate()
	w.configure(0)
	w.fixture.StartDaemon()
	if w.client, err = client.Dial(t.Context(), client.WithSocket(w.control())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.client.Close() })
	w.person = &person{world: w, client: w.client, yes: map[string]bool{}}
	w.install()
	w.populate()
	return w
}

func (w *world) control() string { return w.fixture.Path("run/thoughtgate/control.sock") }

func (w *world) configure(n int) { w.fixture.Configure(fmt.Sprintf(rules, n)) }

// install puts in an extension that sees the calls of one server, and lets all go on.
func (w *world) install() {
	w.Helper()
	dir := w.fixture.Path("work/watcher")
	err := fake.Extension{Name: "watcher", Program: w.self, Manifest: "hooks: {before: {servers: [hooked]}, after: {servers: [hooked]}}\n"}.Write(dir)
	if err == nil {
		var shown *pb.LookExtensionResponse
		if shown, err = w.client.LookExtension(w.Context(), dir); err == nil {
			_, err = w.client.InstallExtension(w.Context(), &pb.InstallExtensionRequest{Dir: dir, Digest: shown.GetDigest(), Surface: "script"})
		}
	}
	if err != nil {
		w.Fatal(err)
	}
}

// populate starts the agents that stay, and what the gate is measured against.
func (w *world) populate() {
	w.Helper()
	for _, who := range []struct{ name, server string }{
		{"private1", "private1"}, {"private2", "private2"}, {"hooked", hookedServer},
		{"shared1", sharedServer}, {"shared2", sharedServer},
	} {
		c, err := w.join(w.T, who.name, who.server, rig.Options{})
		if err != nil {
			w.Fatal(err)
		}
		w.agents = append(w.agents, c)
	}
	for i, instead := range [3][]string{{}, rig.Copier(w), nil} {
		c, err := w.join(w.T, fmt.Sprint("meter", i), "meter", rig.Options{Instead: instead})
		if err != nil {
			w.Fatal(err)
		}
		w.meters[i] = c
	}
}

// start lets the load loose.
func (w *world) start() {
	w.begun = time.Now()
	ctx, cancel := context.WithCancel(w.Context())
	w.Cleanup(cancel)
	var watching sync.WaitGroup
	w.Cleanup(watching.Wait) // before cancel, which was noted later
	w.Cleanup(cancel)
	watching.Go(func() { w.person.watch(ctx) })
	w.wait.Go(w.pace)
	w.wait.Go(func() {
		for n := 0; !w.stopped(); n++ {
			if err := w.visit(n); err != nil {
				w.Errorf("visit %d: %v", n, err)
			}
			w.rest(w.plan.visits)
		}
	})
	for i, c := range w.agents {
		for hand := range w.plan.hands {
			w.wait.Go(func() { c.work(uint64(100*i + hand + 1)) })
		}
	}
}

// end has nothing new asked, and waits until all that was asked is done.
func (w *world) end() {
	w.stopOnce.Do(func() { close(w.stop) })
	w.wait.Wait()
}

func (w *world) stopped() bool {
	select {
	case <-w.stop:
		return true
	default:
		return w.Failed()
	}
}

// rest waits, and not past the end of the run.
func (w *world) rest(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.stop:
	}
}

// count counts something that happened.
func (w *world) count(what string, n int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tally[what] += n
}

// eventually tries until there is no error.
func (w *world) eventually(what string, try func() error) error {
	for end := time.Now().Add(patience); ; time.Sleep(moment) {
		err := try()
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("still not so: %s: %w", what, err)
		}
	}
}

// there asks the daemon for something, and asks the next one if it went away with
// that.
func (w *world) there(ask func() error) error {
	for end := time.Now().Add(patience); ; time.Sleep(moment) {
		if err := ask(); err == nil || !errors.Is(err, client.ErrNotRunning) || time.Now().After(end) {
			return err
		}
	}
}

// folders counts what lies in the fixture's state and runtime folders, but for the log
// of the audit, which is meant to grow.
func (w *world) folders() (files int, bytes int64) {
	for _, dir := range []string{"state", "run"} {
		_ = filepath.WalkDir(w.fixture.Path(dir), func(path string, d os.DirEntry, err error) error {
			if err != nil {
				return nil // it went while we looked
			}
			if d.IsDir() && d.Name() == "audit" {
				return filepath.SkipDir
			}
			if info, err := d.Info(); err == nil && !d.IsDir() {
				files, bytes = files+1, bytes+info.Size()
			}
			return nil
		})
	}
	return files, bytes
}
