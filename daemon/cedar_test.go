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

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/daemon"
	"github.com/thoughtgate/thoughtgated/internal/sock"
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

// list submits a list of tools as the server's answer.
func list(t *testing.T, a *client.Attachment, seq uint64, tools string) {
	t.Helper()
	line := []byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[` + tools + `]}}`)
	err := a.Send(&pb.Up{Msg: &pb.Up_Submit{Submit: &pb.Submit{
		Seq: seq, Direction: pb.Direction_DIRECTION_SERVER_TO_AGENT, Line: line, Answers: "tools/list",
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if v := word(t, a); v.GetAction() != pb.Action_ACTION_FORWARD {
		t.Fatalf("the list: got %v", v)
	}
}

// callWith submits a call with arguments and returns the daemon's first word.
func callWith(t *testing.T, a *client.Attachment, seq uint64, tool, arguments string) *pb.Verdict {
	t.Helper()
	line := []byte(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, arguments))
	err := a.Send(&pb.Up{Msg: &pb.Up_Submit{Submit: &pb.Submit{Seq: seq, Direction: pb.Direction_DIRECTION_AGENT_TO_SERVER, Line: line}}})
	if err != nil {
		t.Fatal(err)
	}
	return word(t, a)
}

// Principals are what the system says of the process that started the shim.
func TestPoliciesKnowWhoCalls(t *testing.T) {
	agent, err := sock.ProcessOf(int32(os.Getppid()))
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
	for condition, want := range map[string]pb.Action{
		fmt.Sprintf("principal.executable == %q", agent.Exe):                  pb.Action_ACTION_FORWARD,
		fmt.Sprintf("principal.sha256 == %q", hex.EncodeToString(sum[:])):     pb.Action_ACTION_FORWARD,
		fmt.Sprintf("principal.cwd == %q", agent.Cwd):                         pb.Action_ACTION_FORWARD,
		fmt.Sprintf("principal.tty == %q", agent.TTY):                         pb.Action_ACTION_FORWARD,
		fmt.Sprintf("principal.project like %q", "*"):                         pb.Action_ACTION_FORWARD,
		fmt.Sprintf("principal in ThoughtGate::User::%q", name):               pb.Action_ACTION_FORWARD,
		`context.session.calls == 1 && context.session.servers == ["files"]`:  pb.Action_ACTION_FORWARD,
		`context.session.calls == 2`:                                          pb.Action_ACTION_DENY,
		`context.session.seconds >= 0 && context.session.seconds < 600`:       pb.Action_ACTION_FORWARD,
		`principal.executable == "/usr/bin/some-other-agent"`:                 pb.Action_ACTION_DENY,
		`principal.sha256 == "` + strings.Repeat("0", 64) + `"`:               pb.Action_ACTION_DENY,
		`principal in ThoughtGate::User::"somebody-else"`:                     pb.Action_ACTION_DENY,
		`principal.project == "/" && principal.executable == "/no/such/file"`: pb.Action_ACTION_DENY,
	} {
		t.Run(condition, func(t *testing.T) {
			h := newHome(t, "schema: 1\ngovernance: {defaults: {action: policy}, rules: [{match: first, action: forward}]}\n")
			h.policy(t, `permit (principal is ThoughtGate::Agent, action in ThoughtGate::Action::"tools/call", resource) when { `+condition+" };\n")
			h.start(t)
			a := h.attach(t, false)
			callWith(t, a, 1, "first", `{}`)
			if v := callWith(t, a, 2, "second", `{}`); v.GetAction() != want {
				t.Errorf("got %v: %s", v.GetAction(), v.GetAnswer())
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

// The schema of policies comes from what servers list: a policy waits for its
// tool, is checked when a list shows it, and has to fit when it is loaded again,
// also by the next daemon.
func TestSchemaComesFromServers(t *testing.T) {
	h := newHome(t, "schema: 1\ngovernance: {}\npins: {mode: off}\n") // else the change would be held
	h.policy(t, smallPayments)
	_, stop := h.start(t)
	a, c := h.attach(t, false), h.control(t)
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
	if v := callWith(t, a, 1, "pay", `{"amount":51}`); v.GetAction() != pb.Action_ACTION_DENY {
		t.Errorf("before a list: got %v", v)
	}

	list(t, a, 2, payAmount)
	if set := status(); set.GetChecked() != 1 || len(set.GetWaiting()) != 0 || len(set.GetRefused()) != 0 {
		t.Errorf("listed: got %v", set)
	}
	if v := callWith(t, a, 3, "pay", `{"amount":50}`); v.GetAction() != pb.Action_ACTION_FORWARD {
		t.Errorf("listed: got %s", v.GetAnswer())
	}
	if v := callWith(t, a, 4, "pay", `{"amount":"50"}`); v.GetAction() != pb.Action_ACTION_DENY || !strings.Contains(string(v.GetAnswer()), "input schema") {
		t.Errorf("an argument that doesn't fit: got %s", v.GetAnswer())
	}

	// The server changes its mind. The set stays, the tool is refused.
	list(t, a, 5, paySum+`,{"name":"balance"}`)
	v := callWith(t, a, 6, "pay", `{"sum":1}`)
	if v.GetAction() != pb.Action_ACTION_DENY || !strings.Contains(string(v.GetAnswer()), `has no argument \"amount\"`) {
		t.Errorf("a tool that the policy doesn't fit: got %s", v.GetAnswer())
	}
	if v := callWith(t, a, 7, "balance", `{}`); v.GetAction() != pb.Action_ACTION_FORWARD {
		t.Errorf("another tool: got %s", v.GetAnswer())
	}
	set := status()
	if len(set.GetRefused()) != 1 {
		t.Fatalf("got %v", set)
	}
	if r := set.GetRefused()[0]; r.GetTool() != "files/pay" || r.GetPolicy() != "small" || r.GetLine() != 3 || r.GetColumn() != 26 || !strings.HasSuffix(r.GetFile(), "test.cedar") {
		t.Errorf("status: got %v", r)
	}

	// The next daemon knows it, and takes up the set that was in force.
	stop()
	h.start(t)
	a, c = h.attach(t, true), h.control(t)
	if v := callWith(t, a, 8, "pay", `{"sum":1}`); v.GetAction() != pb.Action_ACTION_DENY {
		t.Errorf("after a restart: got %v", v)
	}
	if set := status(); len(set.GetRefused()) != 1 {
		t.Errorf("after a restart: got %v", set)
	}
}

// A definition that is held was not shown to the agent, and changes nothing for
// policies.
func TestHeldDefinitionsAreNotLearned(t *testing.T) {
	h := newHome(t, "schema: 1\ngovernance: {}\n")
	h.policy(t, smallPayments)
	h.start(t)
	a, c := h.attach(t, false), h.control(t)
	list(t, a, 1, payAmount)
	list(t, a, 2, paySum)
	set, err := c.PolicySet(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if set.GetChecked() != 1 || len(set.GetRefused()) != 0 {
		t.Errorf("got %v", set)
	}
	if v := callWith(t, a, 3, "pay", `{"amount":5}`); v.GetAction() != pb.Action_ACTION_DENY {
		t.Errorf("a call under a held definition: got %v", v)
	}
}

// A policy that doesn't fit what is known is refused with its place, by a
// reload, by a check and by the next start.
func TestPoliciesThatDontFitAreRefused(t *testing.T) {
	h := newHome(t, "schema: 1\ngovernance: {}\n")
	d, stop := h.start(t)
	a, c := h.attach(t, false), h.control(t)
	list(t, a, 1, payAmount)
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
	if v := callWith(t, a, 2, "pay", `{"amount":51}`); v.GetAction() != pb.Action_ACTION_FORWARD {
		t.Errorf("under the old set: got %s", v.GetAnswer())
	}

	stop()
	_, err = daemon.New(daemon.Options{Paths: h.paths, Getenv: func(string) string { return "" }, Logger: slog.New(slog.DiscardHandler)})
	var refused *daemon.ConfigError
	if !errors.As(err, &refused) || len(refused.Problems) != 1 || !strings.HasSuffix(refused.Problems[0].String(), want) {
		t.Fatalf("the next start: got %v, want %s", err, want)
	}
	h.policy(t, smallPayments)
	h.start(t)
	a = h.attach(t, true)
	if v := callWith(t, a, 3, "pay", `{"amount":51}`); v.GetAction() != pb.Action_ACTION_DENY {
		t.Errorf("mended: got %v", v)
	}
}

// Calls that wait for the hash of the agent's program don't wait for long.
func TestFirstCallIsNotHeldUp(t *testing.T) {
	h := newHome(t, "schema: 1\ngovernance: {}\n")
	h.policy(t, `forbid (principal, action in ThoughtGate::Action::"tools/call", resource) when { principal.sha256 == "bad" };`)
	h.start(t)
	a := h.attach(t, false)
	began := time.Now()
	v := callWith(t, a, 1, "pay", `{}`)
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the first call took %v: %v", took, v)
	}
}
