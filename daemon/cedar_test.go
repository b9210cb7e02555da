package daemon_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon"
	"github.com/thoughtgate/thoughtgated/internal/proc"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// policy writes a file of policies.
func (h *home) policy(t *testing.T, text string) {
	t.Helper()
	path := filepath.Join(h.paths.Config, "policies", "test.cedar")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Principals are what the system shows about the process that started the shim.
//
//gotest:plain it is about what is decided, and not about when
func TestPoliciesKnowWhoCalls(t *testing.T) {
	agent, err := proc.Look(int32(os.Getppid()))
	if err != nil || agent.Exe == "" {
		t.Skipf("nothing can be learned of our own parent here: %+v, %v", agent, err)
	}
	program, err := os.ReadFile(fmt.Sprintf("/proc/%d/exe", agent.PID))
	if err != nil {
		t.Skip(err)
	}
	sum := sha256.Sum256(program)
	name := fmt.Sprint(os.Getuid())
	if u, err := user.LookupId(name); err == nil {
		name = u.Username
	}
	for condition, want := range map[string]string{
		fmt.Sprintf("principal.executable == %q", agent.Exe):                  "forward",
		fmt.Sprintf("principal.sha256 == %q", hex.EncodeToString(sum[:])):     "forward",
		fmt.Sprintf("principal.cwd == %q", agent.Cwd):                         "forward",
		fmt.Sprintf("principal.tty == %q", agent.TTY):                         "forward",
		fmt.Sprintf("principal.project like %q", "*"):                         "forward",
		fmt.Sprintf("principal in ThoughtGate::User::%q", name):               "forward",
		`context.session.calls == 1 && context.session.servers == ["files"]`:  "forward",
		`context.session.calls == 2`:                                          "deny",
		`context.session.seconds >= 0 && context.session.seconds < 600`:       "forward",
		`principal.executable == "/usr/bin/some-other-agent"`:                 "deny",
		`principal.sha256 == "` + strings.Repeat("0", 64) + `"`:               "deny",
		`principal in ThoughtGate::User::"somebody-else"`:                     "deny",
		`principal.project == "/" && principal.executable == "/no/such/file"`: "deny",
	} {
		t.Run(condition, func(t *testing.T) {
			h := newHome(t, "schema: 1\ngovernance: {defaults: {action: policy}, rules: [{match: first, action: forward}]}\n")
			h.policy(t, `permit (principal is ThoughtGate::Agent, action in ThoughtGate::Action::"tools/call", resource) when { `+condition+" };\n")
			h.start(t)
			a := h.attach(t)
			a.expect("forward", "", "first")
			got := a.call("second")
			for strings.Contains(got.reason, "is still being computed") { // the program's hash, on a busy machine
				got = a.call("second")
			}
			if got.verdict != want {
				t.Errorf("got %s (%s), want %s", got.verdict, got.reason, want)
			}
		})
	}
}

const payAmount, paySum = `{"name":"pay","inputSchema":{"type":"object","properties":{"amount":{"type":"integer"}},"required":["amount"]}}`,
	`{"name":"pay","inputSchema":{"type":"object","properties":{"sum":{"type":"integer"}},"required":["sum"]}}`

const smallPayments = `@id("small")
forbid (principal, action == ThoughtGate::Action::"files/pay", resource)
when { context.arguments.amount > 50 };
`

// The schema of policies comes from what servers list: a policy waits for its tool, is checked when
// a list shows it, and must fit when it is loaded again, also by the next daemon.
//
//gotest:plain it is about what is decided, and not about when
func TestSchemaComesFromServers(t *testing.T) {
	h := newHome(t, "schema: 1\ngovernance: {}\npins: {mode: off}\n") // otherwise the change would be withheld
	h.policy(t, smallPayments)
	_, stop := h.start(t)
	a, c := h.attach(t), h.control(t)
	status := func() *pb.PolicySet {
		t.Helper()
		st, err := c.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return st.GetSet()
	}
	if set := status(); set.GetChecked() != 0 || len(set.GetWaiting()) != 1 || set.GetWaiting()[0].GetTools()[0] != "files/pay" || set.GetWaiting()[0].GetPolicy() != "small" {
		t.Errorf("before a list: got %v", set)
	}
	a.expect("deny", "", "pay", `{"amount":51}`)

	a.list(payAmount)
	if set := status(); set.GetChecked() != 1 || len(set.GetWaiting()) != 0 || len(set.GetRefused()) != 0 {
		t.Errorf("listed: got %v", set)
	}
	a.expect("forward", "", "pay", `{"amount":50}`)
	a.expect("deny", "input schema", "pay", `{"amount":"50"}`)

	// The server changes its list. The set stays in force; calls of the tool are denied.
	a.list(paySum + `,{"name":"balance"}`)
	a.expect("deny", `has no argument "amount"`, "pay", `{"sum":1}`)
	a.expect("forward", "", "balance")
	set := status()
	if len(set.GetRefused()) != 1 {
		t.Fatalf("got %v", set)
	}
	if r := set.GetRefused()[0]; r.GetTool() != "files/pay" || r.GetPolicy() != "small" || r.GetLine() != 3 || r.GetColumn() != 26 || !strings.HasSuffix(r.GetFile(), "test.cedar") {
		t.Errorf("status: got %v", r)
	}

	// The next daemon knows the tool, and uses the set that was in force.
	a.close()
	stop()
	h.start(t)
	h.attach(t).expect("deny", "", "pay", `{"sum":1}`)
	if set := status(); len(set.GetRefused()) != 1 {
		t.Errorf("after a restart: got %v", set)
	}
}

// A withheld definition was not shown to the agent, and does not change what policies are checked
// against.
//
//gotest:plain it is about what is decided, and not about when
func TestHeldDefinitionsAreNotLearned(t *testing.T) {
	h := newHome(t, "schema: 1\ngovernance: {}\n")
	h.policy(t, smallPayments)
	h.start(t)
	a, c := h.attach(t), h.control(t)
	a.list(payAmount)
	a.list(paySum)
	set, err := c.PolicySet(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if set.GetChecked() != 1 || len(set.GetRefused()) != 0 {
		t.Errorf("got %v", set)
	}
	a.expect("deny", "", "pay", `{"amount":5}`)
}

// A policy that doesn't fit what is known is refused, with its place, by a reload, by a check and
// by the next start.
//
//gotest:plain it is about what is decided, and not about when
func TestPoliciesThatDontFitAreRefused(t *testing.T) {
	h := newHome(t, "schema: 1\ngovernance: {}\n")
	d, stop := h.start(t)
	a, c := h.attach(t), h.control(t)
	a.list(payAmount)
	before, err := c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	const want = `3:26: error: files/pay has no argument "amout"; did you mean "amount"?`
	h.policy(t, strings.Replace(smallPayments, "amount", "amout", 1))
	v, err := c.Validate(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, p := range v.GetProblems() {
		found = found || p.GetLine() == 3 && p.GetColumn() == 26 && strings.Contains(p.GetMessage(), "amout") && strings.Contains(p.GetHint(), "amount")
	}
	if !found || v.GetSet() != nil {
		t.Errorf("check: got %v, want %s", v, want)
	}
	d.Reload(t.Context(), "test")
	after, err := c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if after.GetReloadFailure() == "" || after.GetSet().GetDigest() != before.GetSet().GetDigest() {
		t.Errorf("reload: got %v", after)
	}
	a.expect("forward", "", "pay", `{"amount":51}`) // under the previous set

	a.close()
	stop()
	_, err = daemon.New(daemon.Options{Paths: h.paths, Getenv: func(string) string { return "" }, Logger: slog.New(slog.DiscardHandler)})
	var refused *daemon.ConfigError
	if !errors.As(err, &refused) || len(refused.Problems) != 1 || !strings.HasSuffix(refused.Problems[0].String(), want) {
		t.Fatalf("the next start: got %v, want %s", err, want)
	}
	h.policy(t, smallPayments)
	h.start(t)
	h.attach(t).expect("deny", "", "pay", `{"amount":51}`)
}

// Calls that wait for the hash of the agent's program don't wait for long.
func TestFirstCallIsNotHeldUp(t *testing.T) {
	h := newHome(t, "schema: 1\ngovernance: {}\n")
	h.policy(t, `forbid (principal, action in ThoughtGate::Action::"tools/call", resource) when { principal.sha256 == "bad" };`)
	h.start(t)
	a := h.attach(t)
	began := time.Now()
	a.call("pay")
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the first call took %v", took)
	}
}
