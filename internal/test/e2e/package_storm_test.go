package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/test/fake"
)

const (
	stormRestarts = 5 // before the upgrade; one more puts the new release to work
	stormAgents   = 3 // beside the one whose question is open
	stormCallers  = 2 // of each agent
	stormPeople   = 3 // that look at what is open with a connection each time; one more keeps its own
)

// clients are all who want something of the daemon at the same time. Whoever is
// refused, or answered wrongly, fails the test.
type clients struct {
	*managed
	done chan struct{} // closed when they are to end
	all  sync.WaitGroup

	calls, looks, shown, dials, starts counter
}

// counter is how often something went well, and how long it took at most.
type counter struct {
	n     atomic.Int64
	worst atomic.Int64 // nanoseconds
}

func (c *counter) count(begun time.Time) {
	c.n.Add(1)
	took := int64(time.Since(begun))
	for worst := c.worst.Load(); took > worst && !c.worst.CompareAndSwap(worst, took); worst = c.worst.Load() {
	}
}

func (c *counter) String() string {
	return fmt.Sprintf("%d, the slowest %v", c.n.Load(), time.Duration(c.worst.Load()).Round(time.Millisecond))
}

// upgradeInStorm restarts the daemon again and again, upgrades the package, and
// restarts once more, while clients of all kinds go on.
func (m *managed) upgradeInStorm(a *agent) {
	m.t.Helper()
	c := &clients{managed: m, done: make(chan struct{})}
	c.start(a)
	c.goOn("before the first restart")
	for i := range stormRestarts {
		begun, old := time.Now(), m.show("MainPID")
		m.must("restart", "thoughtgated")
		m.t.Logf("restart %d returned after %v", i+1, since(begun))
		if m.show("MainPID") == old {
			m.t.Errorf("after a restart the process is still %s", old)
		}
		c.goOn("after a restart")
	}
	m.keeper("dpkg -i " + deb(releases[1]))
	c.goOn("after the new package has come")
	if out := m.tgctl("status"); !strings.Contains(out, "thoughtgated is "+releases[0]+", tgctl "+releases[1]) {
		m.t.Errorf("with a daemon of %s, tgctl status of %s says\n%s", releases[0], releases[1], out)
	}
	m.must("daemon-reload")
	begun := time.Now()
	m.must("restart", "thoughtgated")
	m.t.Logf("the restart into the new release returned after %v", since(begun))
	c.goOn("with the new release")
	if out := m.tgctl("daemon", "status"); !strings.Contains(out, releases[1]) || strings.Contains(out, releases[0]) {
		m.t.Errorf("after the upgrade, tgctl daemon status:\n%s", out)
	}
	close(c.done)
	c.all.Wait()
	c.checkServers()
	if m.t.Failed() {
		return
	}
	m.t.Logf("over %d restarts and the upgrade: calls of agents %v; looks with tgctl %v; looks over the API %v; connections %v; agents started %v; none refused, none lost, each call executed once",
		stormRestarts+1, &c.calls, &c.shown, &c.looks, &c.dials, &c.starts)
}

// checkServers looks whether servers have done what was asked, and each call once.
func (c *clients) checkServers() {
	c.t.Helper()
	logs, err := filepath.Glob(c.path("*.log"))
	if err != nil || len(logs) != stormAgents+2 {
		c.t.Errorf("logs of servers: %v, %v", logs, err)
	}
	done := int64(0)
	for _, log := range logs {
		all, err := fake.ReadLog(log)
		if err != nil {
			c.t.Error(err)
		}
		for _, e := range all {
			if e.Tool == "read_note" {
				done++
			}
		}
	}
	if want := c.calls.n.Load() + c.starts.n.Load(); done != want {
		c.t.Errorf("servers have executed %d calls, and agents have made %d", done, want)
	}
}

// start sets them going. The agent is one more of those that call.
func (c *clients) start(a *agent) {
	agents := map[string]*agent{"first": a}
	for i := range stormAgents {
		name := fmt.Sprint("storm", i)
		agents[name] = c.wrap(c.config(name))
	}
	for name, one := range agents {
		var callers sync.WaitGroup
		for range stormCallers {
			callers.Add(1)
			c.again(func() { c.callTool(one, name) }, callers.Done)
		}
		if one == a {
			continue
		}
		c.all.Go(func() { // and it leaves when its calls are answered
			callers.Wait()
			if code := one.leave(); code != 0 {
				c.t.Errorf("wrap of %s: exit %d\n%s", name, code, one.talk())
			}
		})
	}
	newcomer := c.config("newcomer")
	c.again(func() { c.startAgent(newcomer) }, nil)
	c.again(c.look, nil)
	for range stormPeople {
		c.again(func() { c.list(nil) }, nil)
	}
	kept := c.dialDaemon()
	c.again(func() { c.list(kept) }, func() { kept.Close() })
	for _, socket := range []string{"control.sock", "shim.sock"} {
		c.again(func() { c.connect(socket) }, nil)
	}
}

// again does f over and over until the end, and then last.
func (c *clients) again(f, last func()) {
	c.all.Go(func() {
		if last != nil {
			defer last()
		}
		pace := time.NewTicker(5 * time.Millisecond) // one machine plays them all
		defer pace.Stop()
		for !c.t.Failed() {
			select {
			case <-c.done:
				return
			case <-pace.C:
				f()
			}
		}
	})
}

// goOn waits until each kind of client has been served some more.
func (c *clients) goOn(when string) {
	c.t.Helper()
	kinds := []*counter{&c.calls, &c.looks, &c.shown, &c.dials, &c.starts}
	var before []int64
	for _, one := range kinds {
		before = append(before, one.n.Load())
	}
	if !eventually(func() bool {
		for i, one := range kinds {
			// Two, since one may have been under way.
			if one.n.Load() < before[i]+2 {
				return c.t.Failed()
			}
		}
		return true
	}, patience) {
		c.t.Errorf("%s not all clients are served: calls %v, API %v, tgctl %v, connections %v, agents %v", when, kinds[0], kinds[1], kinds[2], kinds[3], kinds[4])
	}
}

func (c *clients) callTool(a *agent, server string) {
	begun := time.Now()
	_, result := a.begin(order{Server: server, Tool: "read_note", Arguments: map[string]any{"name": "plan"}})
	select {
	case r := <-result:
		if !strings.Contains(r.Text, "Friday") {
			c.t.Errorf("a call of %s: %+v\n%s", server, r, a.talk())
		}
		c.calls.count(begun)
	case <-time.After(patience):
		c.t.Errorf("a call of %s stays unanswered\n%s", server, a.talk())
	}
}

// startAgent wraps an agent that makes one call and leaves.
func (c *clients) startAgent(config string) {
	begun := time.Now()
	line, err := json.Marshal(order{ID: 1, Server: "newcomer", Tool: "read_note", Arguments: map[string]any{"name": "plan"}})
	if err != nil {
		c.t.Error(err)
		return
	}
	self, err := os.Executable()
	if err != nil {
		c.t.Error(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, "tgctl"), "wrap", "--agent-type", "custom", "--config-path", config, "--", self)
	cmd.Env = append(append([]string{}, c.env...), roleVar+"=client", configVar+"="+config)
	cmd.Stdin = strings.NewReader(string(line) + "\n")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Friday") {
		c.t.Errorf("an agent that is started meanwhile: %v\n%s", err, out)
	}
	c.starts.count(begun)
}

// look is a person with tgctl.
func (c *clients) look() {
	begun := time.Now()
	if r := c.run(nil, "tgctl", "--no-start", "approvals", "--json"); r.code != 0 || !strings.Contains(r.stdout, "send_mail") {
		c.t.Errorf("tgctl approvals: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	c.shown.count(begun)
}

func (c *clients) dialDaemon() *client.Client {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	d, err := client.Dial(ctx)
	if err != nil {
		c.t.Errorf("connect to the daemon: %v", err)
		return nil
	}
	return d
}

// list asks what is open, over a connection of its own if there is none.
func (c *clients) list(kept *client.Client) {
	begun, d := time.Now(), kept
	if d == nil {
		if d = c.dialDaemon(); d == nil {
			return
		}
		defer d.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if open, err := d.ListApprovals(ctx, false); err != nil || len(open) != 1 {
		c.t.Errorf("open questions: %v, %v, want one (a connection that is kept: %v)", open, err, kept != nil)
	}
	c.looks.count(begun)
}

// connect connects, and no more: what a socket refuses, none of the others has to
// notice, for they try again.
func (c *clients) connect(socket string) {
	begun := time.Now()
	conn, err := net.Dial("unix", filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "thoughtgate", socket))
	if err != nil {
		c.t.Errorf("a connection to %s is refused: %v", socket, err)
		return
	}
	c.dials.count(begun)
	_ = conn.Close()
}
