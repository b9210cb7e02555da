package e2e

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// packageRules hold what is sent. A shim waits longer than the watchdog and the
// end of a daemon that hangs take with the times of the unit.
const packageRules = `schema: 1
governance:
  defaults: {action: forward}
  rules:
    - {match: "send_*", action: approve}
    - {match: "delete_*", action: deny}
approval:
  you: {destination: {type: local}, timeout: 10m}
pins: {mode: off}
shim: {reattach: 3m}
`

// userUnits is where the package puts units.
const userUnits = "/usr/lib/systemd/user"

// TestInsideRig is the life of the package with an ordinary user: installed,
// enabled, used, restarted and upgraded in a storm of clients, hung and brought
// back, looked at, removed and purged. Units and programs are as they ship.
// TestPackage runs it.
func TestInsideRig(t *testing.T) {
	if os.Getenv(insideVar) == "" || os.Getenv(binVar) != "/usr/bin" {
		t.Skip("TestPackage runs it")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	m := &managed{fixture: &fixture{t: t, root: home, bin: "/usr/bin", env: os.Environ()}, units: userUnits}
	m.env = slices.DeleteFunc(m.env, func(s string) bool { return strings.HasPrefix(s, "E2E_") })
	for _, dir := range []string{"work", ".config"} {
		if err := os.MkdirAll(m.path(dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	before := m.files()
	m.keeper("apt-get install -y " + deb(releases[0]))
	m.write(".config/thoughtgate/thoughtgate.yaml", packageRules, 0o600)
	begun := time.Now()
	m.must("enable", "--now", "thoughtgated")
	t.Logf("enabled and ready in %v", since(begun))
	if out := m.tgctl("daemon", "status"); !strings.Contains(out, "systemd, active (running), started at login") || !strings.Contains(out, userUnits) {
		t.Errorf("tgctl daemon status:\n%s", out)
	}

	a := m.wrap(m.config("first"))
	m.approveFromAnotherTerminal(a)
	letter := map[string]any{"to": "b@example.com", "text": "x"}
	_, held := a.begin(order{Server: "first", Tool: "send_mail", Arguments: letter})
	asked := m.question()
	m.upgradeInStorm(a)
	m.hangAsShipped(a)
	if q := m.question(); q.ID != asked.ID {
		t.Errorf("the question open is %s, and was %s", q.ID, asked.ID)
	}
	m.approve(asked)
	r := a.await(held, "what was held before the upgrade")
	if strings.Contains(r.Text, "Repeat the same call") { // a slow machine has taken longer than agents wait
		r = a.call("first", "send_mail", letter)
	}
	if r.IsError || r.Error != "" {
		t.Errorf("what was approved after the upgrade: %+v", r)
	}
	if r := a.call("first", "delete_note", map[string]any{"name": "plan"}); !r.IsError {
		t.Errorf("what is denied: %+v", r)
	}
	m.analyze()
	m.journal()
	if code := a.leave(); code != 0 {
		t.Errorf("wrap: exit %d\n%s", code, a.talk())
	}
	if out := m.tgctl("audit", "verify"); !strings.Contains(out, "verified") {
		t.Errorf("audit verify: %s", out)
	}
	m.remove(before)
}

// deb is the package of a release, which must be the only one.
func deb(number string) string { return "/packages/" + number + "/thoughtgate_" + number + "-1_*.deb" }

func since(begun time.Time) time.Duration { return time.Since(begun).Round(10 * time.Millisecond) }

// keeper has shell text run as root, which must succeed, and returns what it
// prints.
func (m *managed) keeper(text string) string {
	m.t.Helper()
	conn, err := net.Dial("unix", "/run/keeper.sock")
	if err != nil {
		m.t.Fatal(err)
	}
	defer conn.Close()
	var out []byte
	if _, err = io.WriteString(conn, text); err == nil {
		if err = conn.(*net.UnixConn).CloseWrite(); err == nil {
			out, err = io.ReadAll(conn)
		}
	}
	said, ok := strings.CutSuffix(string(out), "exit 0\n")
	if err != nil || !ok {
		m.t.Fatalf("as root: %s: %v\n%s", text, err, out)
	}
	return said
}

// files are the files of the machine that packages may have something to do with,
// but for the books that the package manager keeps, and logs.
func (m *managed) files() map[string]bool {
	m.t.Helper()
	all := map[string]bool{}
	for f := range strings.Lines(m.keeper(`find / -xdev -maxdepth 1; find /boot /etc /opt /srv /usr /var -xdev \
		\( -path /var/log -o -path /var/cache -o -path /var/tmp -o -path /var/lib/systemd -o -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/lib/PackageKit \) -prune -o -print`)) {
		all[strings.TrimSpace(f)] = true
	}
	return all
}

// config is a configuration file of its own with one server.
func (m *managed) config(name string) string {
	m.t.Helper()
	if err := os.Rename(m.servers(0o600, map[string]entry{name: m.fakeServer(name)}), m.path("work", name+".json")); err != nil {
		m.t.Fatal(err)
	}
	return m.path("work", name+".json")
}

func (m *managed) approveFromAnotherTerminal(a *agent) {
	m.t.Helper()
	_, held := a.begin(order{Server: "first", Tool: "send_mail", Arguments: map[string]any{"to": "a@example.com", "text": "x"}})
	q := m.question()
	select {
	case r := <-held:
		m.t.Errorf("a call that waits for a person is answered: %+v", r)
	default:
	}
	m.approve(q)
	if r := a.await(held, "what was approved"); r.IsError || r.Error != "" {
		m.t.Errorf("what was approved: %+v", r)
	}
}

// approve says yes on a terminal of its own.
func (m *managed) approve(q question) {
	m.t.Helper()
	cmd := exec.Command("script", "-qec", "tgctl approvals approve "+q.ID, "/dev/null")
	cmd.Env = m.env
	if out, err := cmd.CombinedOutput(); err != nil {
		m.t.Errorf("approve on a terminal: %v\n%s", err, out)
	}
}

// hangAsShipped stops the daemon from answering, and waits for the watchdog with
// the times of the unit. A call that is made meanwhile is refused soon.
func (m *managed) hangAsShipped(a *agent) {
	m.t.Helper()
	old, err := strconv.Atoi(m.show("MainPID"))
	if err == nil {
		err = syscall.Kill(old, syscall.SIGSTOP)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	begun := time.Now()
	if !eventually(func() bool { return state(fmt.Sprint("/proc/", old)) == 'T' }, patience) {
		m.t.Error("the daemon does not stop")
	}
	note := map[string]any{"name": "plan"}
	if r := a.call("first", "read_note", note); !strings.Contains(r.Error, "Not executed: the daemon said nothing") {
		m.t.Errorf("a call to a daemon that hangs: %+v", r)
	}
	m.t.Logf("a call to a daemon that hangs was refused after %v", since(begun))
	m.hang()
	m.t.Logf("hung, ended by the watchdog and back after %v; process %s, and was %d", since(begun), m.show("MainPID"), old)
	if r := a.call("first", "read_note", note); !strings.Contains(r.Text, "Friday") {
		m.t.Errorf("a call after the daemon has hung: %+v", r)
	}
}

// analyze asks systemd what it thinks of the units.
func (m *managed) analyze() {
	m.t.Helper()
	units := strings.Fields(m.keeper("dpkg -L thoughtgate | grep -E '^" + userUnits + "/.*[.](service|socket)$'"))
	run := func(args ...string) string {
		cmd := exec.Command("systemd-analyze", append([]string{"--user", "--no-pager"}, args...)...)
		cmd.Env = m.env
		out, err := cmd.CombinedOutput()
		if err != nil {
			m.t.Errorf("systemd-analyze %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if out := run(append([]string{"verify"}, units...)...); out != "" {
		m.t.Errorf("systemd-analyze verify:\n%s", out)
	}
	for _, unit := range units {
		if !strings.HasSuffix(unit, ".service") {
			continue
		}
		out := run("security", filepath.Base(unit))
		_, level, ok := strings.Cut(out, "Overall exposure level for "+filepath.Base(unit)+": ")
		level, _, _ = strings.Cut(level, " ")
		// The bounds of contrib/systemd: the daemon starts what needs more, see docs/service.md.
		most := 6.5
		if filepath.Base(unit) == "thoughtgated.service" {
			most = 7.6
		}
		if score, err := strconv.ParseFloat(level, 64); !ok || err != nil || score > most {
			m.t.Errorf("security of %s: %q, want %v or less\n%s", filepath.Base(unit), level, most, out)
		}
		m.t.Logf("security of %s: %s", filepath.Base(unit), level)
	}
}

// journal looks for calls by the fields of the daemon's entries, as its user.
func (m *managed) journal() {
	m.t.Helper()
	for _, fields := range [][]string{
		{"TG_SERVER_ID=first", "TG_GOVERNANCE_DECISION=deny", "TG_TOOL=delete_note"},
		{"TG_SERVER_ID=first", "TG_METHOD=tools/call"},
	} {
		var n int
		if !eventually(func() bool {
			cmd := exec.Command("journalctl", append([]string{"--user", "--quiet", "--no-pager", "-u", "thoughtgated", "-o", "cat"}, fields...)...)
			cmd.Env = m.env
			out, _ := cmd.Output() // nothing found is an error too
			n = strings.Count(string(out), "\n")
			return n > 0
		}, patience) {
			m.t.Errorf("the journal has nothing with %s", strings.Join(fields, " "))
		}
		m.t.Logf("%d entries of the journal have %s", n, strings.Join(fields, " "))
	}
}

// remove does what docs/install.md says, and looks at what is left.
func (m *managed) remove(before map[string]bool) {
	m.t.Helper()
	m.tgctl("unprotect", "--all")
	m.tgctl("unwrap", "--all")
	m.must("disable", "--now", "thoughtgated.service", "thoughtgated.socket", "thoughtgated-shim.socket")
	held := strings.Fields(m.keeper("dpkg -L thoughtgate | while read -r f; do [ -d \"$f\" ] || echo \"$f\"; done"))
	for _, step := range []string{"remove", "purge"} {
		if step == "purge" { // which knows nothing of a package that has left nothing
			m.keeper("apt-get install -y " + deb(releases[1]))
		}
		m.keeper("apt-get " + step + " -y thoughtgate")
		after := m.files()
		for f := range after {
			if !before[f] {
				m.t.Errorf("%s leaves %s", step, f)
			}
		}
		m.t.Logf("%s: %d files of the package gone, %d files of the machine before and %d after", step, len(held), len(before), len(after))
	}
	m.keeper("! dpkg-query -W thoughtgate")
	var left []string
	for _, program := range []string{"thoughtgated", "tg-shim", "tgctl"} {
		if out, _ := exec.Command("pgrep", "-x", program).Output(); len(out) > 0 {
			left = append(left, fmt.Sprintf("process %s %s", program, out))
		}
	}
	// What is the user's own stays, as docs/install.md says; the rest is of this test.
	run, err := os.ReadDir(filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "thoughtgate"))
	for _, entry := range run {
		if entry.Name() != "thoughtgated.lock" {
			left = append(left, entry.Name()+" beside the sockets")
		}
	}
	if err != nil {
		m.t.Error(err)
	}
	mine := []string{"work", ".config/thoughtgate", ".local/state/thoughtgate"}
	_ = filepath.WalkDir(m.root, func(path string, entry os.DirEntry, err error) error {
		rel, _ := filepath.Rel(m.root, path)
		if slices.Contains(mine, rel) && entry.IsDir() {
			m.t.Logf("stays: ~/%s", rel)
			return filepath.SkipDir
		}
		if err != nil || !entry.IsDir() && filepath.Ext(path) != ".log" {
			left = append(left, path)
		}
		return err
	})
	for _, l := range left {
		m.t.Errorf("left after a purge: %s", l)
	}
}
