package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tg-shim/attach"
	"github.com/thoughtgate/thoughtgated/daemon"
	"github.com/thoughtgate/thoughtgated/daemon/keep"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/sock"
	"github.com/thoughtgate/thoughtgated/internal/test/tempdir"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// home has the folders of a user, which are kept across restarts of the daemon.
type home struct {
	paths  sock.Paths
	config string          // the configuration file
	keep   *keep.Store     // keeps the pipes of sessions; may be nil
	person *client.Client  // connection to the control socket
	asked  map[string]bool // ids of the questions that were seen
}

func newHome(t *testing.T, yaml string) *home {
	t.Helper()
	dir := tempdir.New(t, "", "tg") // short: socket paths are limited
	h := &home{asked: map[string]bool{}, paths: sock.Paths{
		Config: filepath.Join(dir, "config"), State: filepath.Join(dir, "state"), Runtime: filepath.Join(dir, "run"),
	}}
	if err := h.paths.Prepare(); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(h.paths.Config, 0o700); err != nil {
		t.Fatal(err)
	}
	h.config = h.paths.ConfigFile()
	if yaml != "" {
		h.write(t, yaml)
	}
	return h
}

func (h *home) write(t *testing.T, yaml string) {
	t.Helper()
	if err := os.WriteFile(h.config, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
}

// writeBeside writes a file next to the configuration.
func (h *home) writeBeside(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(filepath.Dir(h.config), name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// start starts a daemon and returns a function that ends it.
func (h *home) start(t *testing.T) (*daemon.Daemon, func()) {
	t.Helper()
	control, err := sock.Listen(h.paths.ControlSocket())
	if err != nil {
		t.Fatal(err)
	}
	shim, err := sock.Listen(h.paths.ShimSocket())
	if err != nil {
		t.Fatal(err)
	}
	d, err := daemon.New(daemon.Options{
		Paths: h.paths, Getenv: func(string) string { return "" }, Logger: slog.New(slog.DiscardHandler), Build: "test",
		Control: sock.Checked(control), Shim: sock.Checked(shim), Keep: h.keep,
	})
	if err != nil {
		control.Close()
		shim.Close()
		t.Fatal(err)
	}
	h.person = nil // connected to the previous daemon
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Error("run:", err)
		}
	}
	t.Cleanup(stop)
	return d, stop
}

// control returns a client of the control socket.
func (h *home) control(t *testing.T) *client.Client {
	t.Helper()
	if h.person == nil {
		c, err := client.Dial(t.Context(), client.WithSocket(h.paths.ControlSocket()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		h.person = c
	}
	return h.person
}

const someRules = `schema: 1
governance:
  defaults: {action: forward, asks: approve}
  rules:
    - {match: "delete_*", action: deny, description: nothing is deleted}
    - {match: "send_*", action: approve}
approval:
  ops: {destination: {type: local}, timeout: 1m}
`

func TestVerdicts(t *testing.T) {
	h := newHome(t, someRules)
	h.start(t)
	a := h.attach(t)
	if p := a.welcome.Profile; p != attach.Production {
		t.Errorf("profile: got %v", p)
	}
	a.expect("forward", "", "read_file")
	a.expect("deny", "nothing is deleted", "delete_file")
	a.expect("ask", "", "send_mail")
}

func TestShimSocketServesOnlyTheGate(t *testing.T) {
	h := newHome(t, someRules)
	h.start(t)
	c, err := client.Dial(t.Context(), client.WithSocket(h.paths.ShimSocket()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Status(t.Context()); err == nil {
		t.Error("shim.sock answers Status")
	}
	if _, err := c.ListApprovals(t.Context(), true); err == nil {
		t.Error("shim.sock lists questions")
	}
}

// A process at the gate belongs to an agent, and an agent does not decide.
func TestAgentsDoNotDecide(t *testing.T) {
	h := newHome(t, someRules)
	h.start(t)
	q, c := h.attach(t).expect("ask", "", "send_mail").question, h.control(t)
	_, err := c.Decide(t.Context(), &pb.Decision{Id: q.GetId(), Subject: q.GetSubject(), Answer: pb.Answer_ANSWER_APPROVE, Surface: "terminal"})
	if !errors.Is(err, client.ErrForbidden) {
		t.Errorf("decide: got %v", err)
	}
	if _, err := c.Reload(t.Context()); !errors.Is(err, client.ErrForbidden) {
		t.Errorf("reload: got %v", err)
	}
	found := false
	for _, r := range h.records(t, "denied") {
		found = found || strings.Contains(string(r.GetLine()), "an answer to "+q.GetId())
	}
	if !found {
		t.Error("the attempt is not on record")
	}
}

func TestReload(t *testing.T) {
	h := newHome(t, someRules)
	d, _ := h.start(t)
	c, a := h.control(t), h.attach(t)
	before, err := c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	h.write(t, strings.Replace(someRules, "delete_*", "remove_*", 1))
	a.expect("deny", "", "delete_file") // a changed file is not in force before a reload
	st, err := c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(st.GetWarnings(), "\n"), "has changed and is not in force") {
		t.Errorf("warnings: got %q", st.GetWarnings())
	}

	h.write(t, strings.Replace(someRules, "delete_*", "remove_*", 1)+"\naudit: {values: none}\n")
	d.Reload(t.Context(), "test")
	a.expect("forward", "", "delete_file")
	for _, r := range h.records(t, string(record.KindCall)) {
		call, err := record.Parse(r.GetLine())
		if kept := strings.Contains(string(r.GetValues()), `"arguments"`); err != nil || kept != (call.MessageID == "1") {
			t.Errorf("call %s, %v: arguments are kept: %v, want only those before the reload", call.MessageID, err, kept)
		}
	}

	h.write(t, "schema: 1\ngovernance:\n  rulez: []\n")
	d.Reload(t.Context(), "test")
	a.expect("deny", "", "remove_file") // a reload that fails changes nothing
	st, err = c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if st.GetReloadFailure() == "" || st.GetSet().GetDigest() == before.GetSet().GetDigest() {
		t.Errorf("status: got %v", st)
	}
}

// A session that was opened without a profile follows the set: a reload that tightens the set
// tightens the session too.
func TestReloadTightensSessions(t *testing.T) {
	const rules = "schema: 1\ngovernance: {rules: [{match: forbidden, action: deny}]}\n"
	h := newHome(t, rules+"profile: development\n")
	d, _ := h.start(t)
	id := strings.Repeat("ab", 16)
	_, err := h.control(t).OpenSession(t.Context(), &pb.SessionSpec{
		Id: id, Agent: "test", Project: "/", Profile: pb.Profile_PROFILE_DEVELOPMENT,
	})
	if err != nil {
		t.Fatal(err)
	}
	a := h.join(t, attach.Hello{Session: id}, nil)
	a.expect("forward", "", "forbidden")
	h.write(t, rules)
	d.Reload(t.Context(), "test")
	a.expect("deny", "", "forbidden")
}

// A rule about an unknown server is often a mistake. It is reported once servers are known.
func TestRulesAboutUnseenServers(t *testing.T) {
	h := newHome(t, someRules)
	h.start(t)
	c := h.control(t)
	h.write(t, "schema: 1\ngovernance: {rules: [{match: \"*\", source: flies, action: deny}]}\n")
	hints := func() string {
		t.Helper()
		v, err := c.Validate(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(v.GetProblems())
	}
	if got := hints(); strings.Contains(got, "V-007") {
		t.Errorf("before any was seen: %s", got)
	}
	h.attach(t).list(`{"name":"read"}`)
	if got := hints(); !strings.Contains(got, "V-007") || !strings.Contains(got, `did you mean \"files\"?`) {
		t.Errorf("got %s", got)
	}
	h.write(t, "schema: 1\nagents: {fixer: {command: [fixer], protocol: acp}}\ngovernance: {rules: [{match: \"*\", source: fixer, action: deny}]}\n")
	if got := hints(); strings.Contains(got, "V-007") {
		t.Errorf("of a headless agent: %s", got)
	}
}

func TestInvalidConfigurationIsRefused(t *testing.T) {
	h := newHome(t, "schema: 1\ngovernance:\n  rulez: []\n")
	_, err := daemon.New(daemon.Options{
		Paths: h.paths, Getenv: func(string) string { return "" }, Logger: slog.New(slog.DiscardHandler),
	})
	var refused *daemon.ConfigError
	if !errors.As(err, &refused) || len(refused.Problems) == 0 {
		t.Fatalf("got %v", err)
	}
	d := refused.Problems[0]
	if d.Line != 3 || d.Column != 3 || !strings.Contains(d.String(), "rules") {
		t.Errorf("got %s", d)
	}
	if _, err := os.Stat(h.paths.AuditDir()); !errors.Is(err, os.ErrNotExist) {
		t.Error("something was written before the configuration was refused")
	}
}

func TestExpiryIsADenial(t *testing.T) {
	h := newHome(t, strings.Replace(someRules, "timeout: 1m", "timeout: 5s", 1))
	h.start(t)
	a := h.attach(t)
	began := time.Now()
	a.send(callOf("send_mail"))
	if told := a.refusal(a.next(a.toAgent)); !strings.Contains(told, "Nobody answered") {
		t.Errorf("the agent is told %s", told)
	}
	if took := time.Since(began); took < 4*time.Second {
		t.Errorf("expired after %v", took)
	}
	all, err := h.control(t).ListApprovals(t.Context(), true)
	if err != nil || len(all) != 1 || all[0].GetState() != pb.ApprovalState_APPROVAL_STATE_EXPIRED {
		t.Errorf("the question: %v, %v", all, err)
	}
}
