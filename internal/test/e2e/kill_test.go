package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/test/fake"
)

// killRules forward some, hold some and deny some.
const killRules = `schema: 1
governance:
  defaults: {action: forward}
  rules:
    - {match: "delete_*", action: deny}
    - {match: "send_*", action: approve}
approval:
  you: {destination: {type: local}, timeout: 5m}
`

// Whatever is killed with SIGKILL, alone or together with others: no
// configuration stays rewritten, no process stays behind, nothing is executed
// that was not judged, and no request stays unanswered while its agent lives.
// The daemon is started again at once, as its service manager does, and alone it is
// missed by nobody (EC-STDIO-042). The service is the daemon and who keeps its
// descriptors: with both, the sessions end.
func TestKill(t *testing.T) {
	needProc(t)
	victims := []string{"tgctl", "daemon", "shim", "server"}
	sets := [][]string{{"service"}, {"tgctl", "service"}}
	for set := 1; set < 1<<len(victims); set++ {
		var names []string
		for i, v := range victims {
			if set&(1<<i) != 0 {
				names = append(names, v)
			}
		}
		sets = append(sets, names)
	}
	for _, names := range sets {
		t.Run(strings.Join(names, "+"), func(t *testing.T) {
			t.Parallel()
			k := newKilling(t)
			k.kill(names)
			k.check()
		})
	}
}

// killing is a wrapped agent with calls in flight.
type killing struct {
	*fixture
	agent  *agent
	before string
	held   <-chan reply
	slow   <-chan reply
	goesOn bool // only the daemon was killed, and another one is there
}

func newKilling(t *testing.T) *killing {
	h := newFixture(t)
	h.rules(killRules)
	config := h.servers(0o600, map[string]entry{"one": h.fakeServer("one"), "two": h.fakeServer("two")})
	k := &killing{fixture: h, before: h.read("work/mcp.json")}
	h.startDaemon()
	k.agent = h.wrap(config, "--no-start")
	if r := k.agent.call("one", "read_note", map[string]any{"name": "plan"}); !strings.Contains(r.Text, "Friday") {
		t.Fatalf("before anything is killed: %+v", r)
	}
	_, k.held = k.agent.begin(order{Server: "one", Tool: "send_mail", Arguments: map[string]any{"to": "a@example.com", "text": "x"}})
	_, k.slow = k.agent.begin(order{Server: "two", Tool: "slow", Arguments: map[string]any{"milliseconds": 3000}})
	h.question()
	return k
}

// kill kills all of them at once.
func (k *killing) kill(names []string) {
	daemon := k.fixture.daemon
	pids := map[string][]int{
		"tgctl": {k.agent.pid()}, "daemon": {daemon.pid()}, "service": {daemon.pid()}, "shim": k.pidsOf("tg-shim"), "server": k.serverPIDs(),
	}
	if len(pids["shim"]) != 2 || len(pids["server"]) != 2 {
		k.t.Fatalf("processes: %v, want two shims and two servers", pids)
	}
	for _, name := range names {
		for _, pid := range pids[name] {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH { // one may have fallen with another
				k.t.Fatalf("kill %s: %v", name, err)
			}
		}
	}
	lost := slices.Contains(names, "service")
	killed := lost || slices.Contains(names, "daemon")
	if slices.Contains(names, "tgctl") && !killed {
		// While the agent still runs. A second is what is promised; this
		// machine may be busy.
		if !eventually(func() bool { return k.read("work/mcp.json") == k.before }, patience) {
			k.t.Error("the daemon does not restore the configuration of a wrap that was killed")
		}
	}
	if !killed {
		return
	}
	<-daemon.ended
	k.fixture.daemon = nil
	if lost {
		k.kept.Drop()
	}
	k.startDaemon()
	k.goesOn = !lost && len(names) == 1
}

// serverPIDs returns the servers: the test binary in that role.
func (k *killing) serverPIDs() []int {
	var pids []int
	for _, pid := range k.pids() {
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && strings.Contains(string(environ), roleVar+"=server") && !strings.Contains(string(cmdline), "tg-shim") {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (k *killing) check() {
	t := k.t
	if k.goesOn {
		k.tgctl("approvals", "deny", k.question().ID)
	}
	// The agent lives, so it gets its answers, and can go on asking.
	held := k.agent.await(k.held, "the held call")
	if held.Error == "" && !held.IsError {
		t.Errorf("a held call that nobody approved went through: %+v", held)
	}
	slow := k.agent.await(k.slow, "the call under way")
	k.agent.call("one", "delete_note", map[string]any{"name": "plan"})
	list := k.agent.call("two", "list_notes", nil)
	if k.goesOn && (slow.Error != "" || slow.IsError || list.Text != "groceries\nplan") {
		t.Errorf("under another daemon the call under way has the answer %+v, and the next one %+v", slow, list)
	}
	k.agent.stdin.Close()
	k.agent.wait(t)

	if !eventually(func() bool { return k.read("work/mcp.json") == k.before }, patience) {
		t.Errorf("the configuration stays rewritten:\n%s", k.read("work/mcp.json"))
	}
	if !eventually(func() bool { return len(k.pids()) == 1 }, patience) {
		t.Errorf("processes stay behind: %q", k.processes())
	}
	if !eventually(func() bool { return len(k.questions()) == 0 }, patience) {
		t.Errorf("questions of an agent that has left stay open: %+v", k.questions())
	}
	k.checkExecuted()
	// All is as if nothing had been: the next wrap works.
	next := k.wrap(k.path("work/mcp.json"), "--no-start")
	if r := next.call("two", "read_note", map[string]any{"name": "plan"}); !strings.Contains(r.Text, "Friday") {
		t.Errorf("after all was put right: %+v", r)
	}
	if code := next.leave(); code != 0 {
		t.Errorf("the next wrap: exit %d: %s", code, next.talk())
	}
	if after := k.read("work/mcp.json"); after != k.before {
		t.Errorf("after the next wrap:\n%s", after)
	}
}

// checkExecuted compares what the servers did with what was let through.
func (k *killing) checkExecuted() {
	log := k.log()
	executed := map[string]int{}
	for _, name := range []string{"one", "two"} {
		all, err := fake.ReadLog(k.path(name + ".log"))
		if err != nil {
			k.t.Fatal(err)
		}
		for _, e := range all {
			executed[name+" "+e.Tool]++
		}
	}
	if executed["one send_mail"] > 0 || executed["one delete_note"] > 0 {
		k.t.Errorf("a server executed what was held or denied: %v", executed)
	}
	if executed["one read_note"] == 0 {
		k.t.Errorf("the servers' logs are not what they should be: %v", executed)
	}
	for what, n := range executed {
		server, tool, _ := strings.Cut(what, " ")
		forwarded := 0
		for _, l := range log {
			if l.Kind == "call" && l.Server == server && l.Tool == tool && l.Verdict == "forward" {
				forwarded++
			}
		}
		if n > forwarded {
			k.t.Errorf("%s executed %s %d times and %d are on record as forwarded", server, tool, n, forwarded)
		}
	}
}

// A question survives the daemon: the answer given to the next one lets the
// call through, which has been waiting all the while.
func TestQuestionSurvivesTheDaemon(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.rules(killRules)
	config := h.servers(0o600, map[string]entry{"one": h.fakeServer("one")})
	h.startDaemon()
	a := h.wrap(config)
	_, held := a.begin(order{Server: "one", Tool: "send_mail", Arguments: map[string]any{"to": "a@example.com", "text": "x"}})
	q := h.question()
	h.killDaemon()
	_, meanwhile := a.begin(order{Server: "one", Tool: "read_note", Arguments: map[string]any{"name": "plan"}})
	h.startDaemon()
	if r := a.await(meanwhile, "a call made while there was no daemon"); !strings.Contains(r.Text, "Friday") {
		t.Errorf("a call made while there was no daemon: %+v", r)
	}
	if again := h.question(); again.ID != q.ID {
		t.Errorf("the question is %s now, was %s", again.ID, q.ID)
	}
	h.tgctl("approvals", "approve", q.ID)
	if r := a.await(held, "the held call"); !strings.Contains(r.Text, "Sent to") {
		t.Errorf("the held call: %+v", r)
	}
	if code := a.leave(); code != 0 {
		t.Errorf("wrap: exit %d\n%s", code, a.talk())
	}
	all, err := fake.ReadLog(h.path("one.log"))
	if err != nil || len(all) != 2 {
		t.Errorf("executed: %+v %v, want the read and one mail", all, err)
	}
}

// EC-STDIO-031: a cancelled call leaves neither a question nor a trace at the server.
func TestCancelWithdraws(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.rules(killRules)
	config := h.servers(0o600, map[string]entry{"one": h.fakeServer("one")})
	h.startDaemon()
	a := h.wrap(config)
	id, held := a.begin(order{Server: "one", Tool: "send_mail", Arguments: map[string]any{"to": "a@example.com", "text": "x"}})
	q := h.question()
	a.begin(order{Cancel: id})
	a.await(held, "the cancelled call")
	if !eventually(func() bool { return len(h.questions()) == 0 }, patience) {
		t.Error("the question stays open")
	}
	if r := h.run(nil, "tgctl", "approvals", "approve", q.ID); r.code == 0 {
		t.Error("a withdrawn question can be approved")
	}
	if r := a.call("one", "list_notes", nil); r.Text != "groceries\nplan" {
		t.Errorf("the next call: %+v", r)
	}
	a.leave()
	all, err := fake.ReadLog(h.path("one.log"))
	if err != nil || len(all) != 1 || all[0].Tool != "list_notes" {
		t.Errorf("executed: %+v %v, want the listing only", all, err)
	}
	if n := count(h.log(), "decision", "", "withdrawn"); n != 1 {
		t.Errorf("%d withdrawals on record, want one", n)
	}
}

// The same with the servers that people use, which have children of their own
// when npx starts them.
func TestKillAllWithRealServers(t *testing.T) {
	needProc(t)
	files, everything := npmServer(t, "server-filesystem"), npmServer(t, "server-everything")
	t.Parallel()
	h := newFixture(t)
	h.rules(killRules)
	h.write("docs/hello.txt", "hello", 0o600)
	config := h.servers(0o600, map[string]entry{
		"files":      {Command: "sh", Args: []string{"-c", `node "$0" "$1"; true`, files, h.path("docs")}},
		"everything": {Command: "sh", Args: []string{"-c", `node "$0" stdio "$1"; true`, everything, h.path()}},
	})
	before := h.read("work/mcp.json")
	h.startDaemon()
	a := h.wrap(config, "--no-start")
	if r := a.call("files", "read_text_file", map[string]any{"path": h.path("docs/hello.txt")}); !strings.Contains(r.Text, "hello") {
		t.Fatalf("%+v", r)
	}
	_, long := a.begin(order{Server: "everything", Tool: "trigger-long-running-operation", Arguments: map[string]any{"duration": 60, "steps": 5}})
	shims := h.pidsOf("tg-shim")
	_ = a.cmd.Process.Kill()
	for _, pid := range shims {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	h.killDaemon()
	h.startDaemon()
	if r := a.await(long, "a call to a real server"); r.Error == "" {
		t.Errorf("a call whose shim was killed: %+v", r)
	}
	a.stdin.Close()
	a.wait(t)
	if !eventually(func() bool { return h.read("work/mcp.json") == before }, patience) {
		t.Error("the configuration stays rewritten")
	}
	if !eventually(func() bool { return len(h.pids()) == 1 }, patience) {
		t.Errorf("processes stay behind: %q", h.processes())
	}
}
