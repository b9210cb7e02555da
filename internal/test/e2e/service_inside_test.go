package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// managedRules hold what is sent. A shim waits longer than the watchdog takes.
const managedRules = `schema: 1
governance:
  defaults: {action: forward}
  rules:
    - {match: "send_*", action: approve}
approval:
  you: {destination: {type: local}, timeout: 5m}
pins: {mode: off}
shim: {reattach: 2m}
`

// quick are the units' times, shortened for those who wait, and the log where a
// failing test finds it.
const quick = "[Service]\nWatchdogSec=6s\nRestartSec=100ms\nStandardError=append:%s\n"

// managed is a fixture whose user has a systemd of their own.
type managed struct {
	*fixture
	units string // where they are looked for
}

// TestInsideSystemd is the life of an installed service: enabled, used, restarted
// and replaced under traffic, hung and brought back, misconfigured, moved, and
// taken away. TestService runs it.
func TestInsideSystemd(t *testing.T) {
	if os.Getenv(insideVar) == "" {
		t.Skip("TestService runs it")
	}
	m := newManaged(t)
	m.rules(managedRules)
	config := m.servers(0o600, map[string]entry{"one": m.fakeServer("one")})
	m.placeUnits()
	m.must("enable", "--now", "thoughtgated")
	if out := m.tgctl("daemon", "status"); !strings.Contains(out, "systemd, active (running), started at login") || !strings.Contains(out, m.units) {
		t.Errorf("tgctl daemon status:\n%s", out)
	}

	a := m.wrap(config)
	_, held := a.begin(order{Server: "one", Tool: "send_mail", Arguments: map[string]any{"to": "a@example.com", "text": "x"}})
	asked := m.question()
	stop := m.traffic(a)
	m.must("restart", "thoughtgated")
	m.replaceDaemon()
	m.tgctl("daemon", "restart")
	m.must("restart", "thoughtgated")
	stop()
	m.hang()
	if r := a.call("one", "read_note", map[string]any{"name": "plan"}); !strings.Contains(r.Text, "Friday") {
		t.Errorf("a call after the daemon has hung: %+v", r)
	}
	if q := m.question(); q.ID != asked.ID {
		t.Errorf("the question open is %s, and was %s", q.ID, asked.ID)
	}
	m.tgctl("approvals", "approve", asked.ID)
	if r := a.await(held, "what was held"); r.IsError || r.Error != "" {
		t.Errorf("what was approved after all that: %+v", r)
	}

	m.reload(a)
	m.mend()
	if code := a.leave(); code != 0 {
		t.Errorf("wrap: exit %d\n%s", code, a.talk())
	}
	m.takeAway()
	m.move()
}

// newManaged starts the user's systemd.
func newManaged(t *testing.T) *managed {
	h := newFixture(t)
	m := &managed{fixture: h, units: h.path("config/systemd/user")}
	cmd := exec.Command("/lib/systemd/systemd", "--user", "--log-target=console", "--unit=basic.target")
	cmd.Env, cmd.Dir = h.env, "/"
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	manager := h.start(cmd)
	t.Cleanup(func() {
		_ = manager.cmd.Process.Signal(syscall.SIGTERM) // which ends its services too
		manager.wait(t)
		if t.Failed() {
			t.Logf("systemd said:\n%s", log.String())
		}
	})
	var out []byte
	if !eventually(func() bool {
		out, _ = m.systemctl("is-active", "basic.target")
		return strings.TrimSpace(string(out)) == "active"
	}, patience) {
		t.Fatalf("systemd is not up: %s", out)
	}
	return m
}

func (m *managed) systemctl(args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "systemctl", append([]string{"--user"}, args...)...)
	cmd.Env = m.env
	return cmd.CombinedOutput()
}

func (m *managed) must(args ...string) {
	m.t.Helper()
	if out, err := m.systemctl(args...); err != nil {
		m.t.Fatalf("systemctl --user %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// show returns a property of the service.
func (m *managed) show(property string) string {
	out, _ := m.systemctl("show", "--property="+property, "--value", "thoughtgated.service")
	return strings.TrimSpace(string(out))
}

// placeUnits does what `make install` does, whose programs are in the fixture
// already, and shortens times.
func (m *managed) placeUnits() {
	m.t.Helper()
	from := os.Getenv("E2E_UNITS")
	files, err := os.ReadDir(from)
	if err != nil || len(files) < 3 {
		m.t.Fatalf("units: %v, %v, want three or more", files, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(filepath.Join(from, file.Name()))
		if err != nil {
			m.t.Fatal(err)
		}
		m.write("config/systemd/user/"+file.Name(), strings.ReplaceAll(string(raw), "@PREFIX@", m.root), 0o644)
	}
	m.write("config/systemd/user/thoughtgated.service.d/quick.conf", fmt.Sprintf(quick, m.path("daemon.log")), 0o644)
	m.must("daemon-reload")
}

// traffic has the agent call and people look, until it is stopped. All of them
// must be served.
func (m *managed) traffic(a *agent) (stop func()) {
	m.t.Helper()
	done := make(chan struct{})
	var wait sync.WaitGroup
	var calls, looks atomic.Int64
	again := func(f func()) {
		wait.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					f()
				}
			}
		})
	}
	again(func() {
		n := calls.Add(1)
		_, result := a.begin(order{Server: "one", Tool: "read_note", Arguments: map[string]any{"name": "plan"}})
		select {
		case r := <-result:
			if !strings.Contains(r.Text, "Friday") {
				m.t.Errorf("call %d: %+v", n, r)
			}
		case <-time.After(patience):
			m.t.Errorf("call %d stays unanswered", n)
		}
	})
	again(func() {
		n := looks.Add(1)
		if r := m.run(nil, "tgctl", "--no-start", "approvals", "--json"); r.code != 0 || !strings.Contains(r.stdout, "send_mail") {
			m.t.Errorf("look %d: exit %d\n%s%s", n, r.code, r.stdout, r.stderr)
		}
	})
	return func() {
		m.t.Helper()
		eventually(func() bool { return calls.Load() > 5 && looks.Load() > 5 }, patience)
		close(done)
		wait.Wait()
		m.t.Logf("%d calls and %d looks", calls.Load(), looks.Load())
	}
}

// replaceDaemon puts another program in the place of the daemon's, as a package
// manager does.
func (m *managed) replaceDaemon() {
	m.t.Helper()
	path := filepath.Join(m.bin, "thoughtgated")
	raw, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path+".new", raw, 0o700)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

// hang stops the daemon from answering; the watchdog brings another.
func (m *managed) hang() {
	m.t.Helper()
	before, _ := strconv.Atoi(m.show("NRestarts"))
	pid, err := strconv.Atoi(m.show("MainPID"))
	if err != nil || pid == 0 {
		m.t.Fatalf("the daemon has no process: %v", err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		m.t.Fatal(err)
	}
	if !eventually(func() bool {
		n, err := strconv.Atoi(m.show("NRestarts"))
		return err == nil && n > before && m.run(nil, "tgctl", "--no-start", "status").code == 0
	}, 2*patience) {
		m.t.Errorf("a daemon that hangs is left alone; result %s", m.show("Result"))
	}
}

// reload puts a configuration in force before it returns, or fails.
func (m *managed) reload(a *agent) {
	m.t.Helper()
	m.rules("schema: 7\n")
	if out, err := m.systemctl("reload", "thoughtgated"); err == nil {
		m.t.Errorf("a reload of what can't be used succeeds: %s", out)
	}
	m.rules(strings.ReplaceAll(managedRules, "send_*\", action: approve", "read_*\", action: deny"))
	m.must("reload", "thoughtgated")
	if r := a.call("one", "read_note", map[string]any{"name": "plan"}); !r.IsError {
		m.t.Errorf("a reload returns before it is in force: %+v", r)
	}
}

// mend has the daemon fail to start while somebody waits for it: the sockets stay
// open, and who waits is served once the configuration is right.
func (m *managed) mend() {
	m.t.Helper()
	m.rules("schema: 7\n")
	if out, err := m.systemctl("restart", "thoughtgated"); err == nil {
		m.t.Errorf("a daemon without a usable configuration starts: %s", out)
	}
	eventually(func() bool {
		n, _ := strconv.Atoi(m.show("NRestarts"))
		m.run(nil, "tgctl", "--no-start", "ps") // somebody who waits in vain
		return n >= 3
	}, patience)
	for _, socket := range []string{"thoughtgated.socket", "thoughtgated-shim.socket"} {
		if out, err := m.systemctl("is-active", socket); err != nil {
			m.t.Errorf("%s went down with the daemon: %s", socket, out)
		}
	}
	m.rules(managedRules)
	if !eventually(func() bool { return m.run(nil, "tgctl", "--no-start", "status").code == 0 }, patience) {
		m.t.Error("the daemon does not come up with a configuration that is right")
	}
}

// takeAway stops the daemon for good. Units that tgctl has not written stay.
func (m *managed) takeAway() {
	m.t.Helper()
	m.tgctl("daemon", "stop")
	if r := m.run(nil, "tgctl", "--no-start", "ps"); r.code != 3 {
		m.t.Errorf("after a stop somebody answers: exit %d\n%s", r.code, r.stderr)
	}
	if _, err := os.Stat(m.path("run/thoughtgate/control.sock")); !os.IsNotExist(err) {
		m.t.Errorf("after a stop the socket's file is there: %v", err)
	}
	m.tgctl("daemon", "start")
	r := m.run(nil, "tgctl", "daemon", "uninstall")
	if r.code != 0 || !strings.Contains(r.stderr, "was not written by tgctl") {
		m.t.Errorf("uninstall of what make has installed: exit %d\n%s", r.code, r.stderr)
	}
	if out, _ := m.systemctl("is-enabled", "thoughtgated.service"); strings.TrimSpace(string(out)) != "disabled" {
		m.t.Errorf("after an uninstall the service is %s", out)
	}
}

// EC-STDIO-040 once more: move lets tgctl install units of its own over a daemon that it has started
// itself, and then one that somebody has started beside them.
func (m *managed) move() {
	m.t.Helper()
	if err := os.RemoveAll(m.units); err != nil {
		m.t.Fatal(err)
	}
	m.must("daemon-reload")
	m.tgctl("ps") // which starts one
	r := m.run(nil, "tgctl", "daemon", "install")
	if r.code != 0 || !strings.Contains(r.stderr, "wrote "+m.units+"/thoughtgated.service") {
		m.t.Errorf("install: exit %d\n%s", r.code, r.stderr)
	}
	m.tgctl("daemon", "stop")
	m.startDaemon()
	stray := m.daemon
	if out, err := m.systemctl("start", "thoughtgated"); err == nil {
		m.t.Errorf("two daemons run at once: %s", out)
	}
	r = m.run(nil, "tgctl", "daemon", "restart")
	if r.code != 0 || !strings.Contains(r.stderr, "without the service manager") {
		m.t.Errorf("restart beside one that runs by itself: exit %d\n%s", r.code, r.stderr)
	}
	stray.wait(m.t)
	m.daemon = nil
	m.tgctl("status")
	m.tgctl("daemon", "uninstall")
	if left, err := os.ReadDir(m.units); err != nil || len(left) > 0 {
		m.t.Errorf("an uninstall leaves %v, %v", left, err)
	}
}
