package daemon_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/daemon"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/sock"
	"github.com/thoughtgate/thoughtgated/internal/tempdir"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// home is a user's folders, kept over restarts of the daemon.
type home struct {
	paths  sock.Paths
	config string // the file in force
}

func newHome(t *testing.T, yaml string) *home {
	t.Helper()
	dir := tempdir.New(t, "", "tg") // short: socket paths are limited
	h := &home{paths: sock.Paths{
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

// writeBeside writes a file beside the configuration.
func (h *home) writeBeside(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(filepath.Dir(h.config), name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// start starts a daemon and returns what ends it.
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
		Control: sock.Checked(control), Shim: sock.Checked(shim),
	})
	if err != nil {
		control.Close()
		shim.Close()
		t.Fatal(err)
	}
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

// control connects as a person's program would.
func (h *home) control(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.Dial(t.Context(), client.WithSocket(h.paths.ControlSocket()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

const attachment = "0123456789abcdef0123456789abcdef"

// attach joins as a shim would.
func (h *home) attach(t *testing.T, reattach bool) *client.Attachment {
	t.Helper()
	return h.join(t, attachment, reattach)
}

// attachAs joins as one of several shims would.
func (h *home) attachAs(t *testing.T, id string) *client.Attachment {
	t.Helper()
	return h.join(t, id, false)
}

func (h *home) join(t *testing.T, id string, reattach bool) *client.Attachment {
	t.Helper()
	return h.attachWith(t, &pb.Hello{
		Protocol: client.Protocol, Attachment: id, Reattach: reattach, Server: "files", Command: []string{"cat"}, Cwd: "/",
	})
}

// attachWith joins as a shim that says hello would.
func (h *home) attachWith(t *testing.T, hello *pb.Hello) *client.Attachment {
	t.Helper()
	c, err := client.Dial(t.Context(), client.WithSocket(h.paths.ShimSocket()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	a, err := c.Attach(t.Context(), hello)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// ask submits a call of a tool and returns the daemon's first word.
func ask(t *testing.T, a *client.Attachment, seq uint64, tool string) *pb.Verdict {
	t.Helper()
	line := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `"}}`)
	err := a.Send(&pb.Up{Msg: &pb.Up_Submit{Submit: &pb.Submit{Seq: seq, Direction: pb.Direction_DIRECTION_AGENT_TO_SERVER, Line: line}}})
	if err != nil {
		t.Fatal(err)
	}
	v := word(t, a)
	if digest := sha256.Sum256(line); v.GetAction() == pb.Action_ACTION_FORWARD && !bytes.Equal(v.GetDigest(), digest[:]) {
		t.Errorf("the verdict on %s is on other bytes", tool)
	}
	return v
}

func word(t *testing.T, a *client.Attachment) *pb.Verdict {
	t.Helper()
	for {
		down, err := a.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if v := down.GetVerdict(); v != nil {
			return v
		}
	}
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
	a := h.attach(t, false)
	if p := a.Welcome().GetProfile(); p != pb.Profile_PROFILE_PRODUCTION {
		t.Errorf("profile: got %v", p)
	}
	if v := ask(t, a, 1, "read_file"); v.GetAction() != pb.Action_ACTION_FORWARD {
		t.Errorf("read_file: got %v", v)
	}
	v := ask(t, a, 2, "delete_file")
	if v.GetAction() != pb.Action_ACTION_DENY || !strings.Contains(string(v.GetAnswer()), "nothing is deleted") {
		t.Errorf("delete_file: got %v", v)
	}
	if v := ask(t, a, 3, "send_mail"); v.GetAction() != pb.Action_ACTION_PENDING || v.GetApproval() == "" {
		t.Errorf("send_mail: got %v", v)
	}
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

// A program that is at the gate is an agent's, and an agent does not decide.
func TestAgentsDoNotDecide(t *testing.T) {
	h := newHome(t, someRules)
	h.start(t)
	a := h.attach(t, false)
	v := ask(t, a, 1, "send_mail")
	c := h.control(t)
	q, err := c.GetApproval(t.Context(), v.GetApproval())
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Decide(t.Context(), &pb.Decision{Id: q.GetId(), Subject: q.GetSubject(), Answer: pb.Answer_ANSWER_APPROVE, Surface: "terminal"})
	if !errors.Is(err, client.ErrForbidden) {
		t.Errorf("decide: got %v", err)
	}
	if _, err := c.Reload(t.Context()); !errors.Is(err, client.ErrForbidden) {
		t.Errorf("reload: got %v", err)
	}
	found := false
	for r, err := range c.ReadAudit(t.Context(), &pb.AuditQuery{Kind: "denied"}) {
		if err != nil {
			t.Fatal(err)
		}
		found = found || strings.Contains(string(r.GetLine()), "an answer to "+q.GetId())
	}
	if !found {
		t.Error("the attempt is not on record")
	}
}

func TestReload(t *testing.T) {
	h := newHome(t, someRules)
	d, _ := h.start(t)
	c, a := h.control(t), h.attach(t, false)
	before, err := c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	h.write(t, strings.Replace(someRules, "delete_*", "remove_*", 1))
	if v := ask(t, a, 1, "delete_file"); v.GetAction() != pb.Action_ACTION_DENY {
		t.Error("a file that changed on disk is in force by itself")
	}
	st, err := c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(st.GetWarnings(), "\n"), "has changed and is not in force") {
		t.Errorf("warnings: got %q", st.GetWarnings())
	}

	h.write(t, strings.Replace(someRules, "delete_*", "remove_*", 1)+"\naudit: {values: none}\n")
	d.Reload(t.Context(), "test")
	if v := ask(t, a, 2, "delete_file"); v.GetAction() != pb.Action_ACTION_FORWARD {
		t.Error("the new file is not in force after a reload")
	}
	for r, err := range c.ReadAudit(t.Context(), &pb.AuditQuery{Kind: string(record.KindCall)}) {
		if err != nil {
			t.Fatal(err)
		}
		call, err := record.Parse(r.GetLine())
		if kept := strings.Contains(string(r.GetValues()), `"arguments"`); err != nil || kept != (call.Call == 1) {
			t.Errorf("call %d, %v: arguments are kept: %v, want only those before the reload", call.Call, err, kept)
		}
	}

	h.write(t, "schema: 1\ngovernance:\n  rulez: []\n")
	d.Reload(t.Context(), "test")
	if v := ask(t, a, 3, "remove_file"); v.GetAction() != pb.Action_ACTION_DENY {
		t.Error("a reload that failed has changed what is in force")
	}
	st, err = c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if st.GetReloadFailure() == "" || st.GetSet().GetDigest() == before.GetSet().GetDigest() {
		t.Errorf("status: got %v", st)
	}
}

// A session that was opened as the set had it follows the set: a reload that
// tightens it tightens the session, too.
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
	c, err := client.Dial(t.Context(), client.WithSocket(h.paths.ShimSocket()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	a, err := c.Attach(t.Context(), &pb.Hello{
		Protocol: client.Protocol, Attachment: attachment, Session: id, Server: "files", Cwd: "/",
	})
	if err != nil {
		t.Fatal(err)
	}
	if v := ask(t, a, 1, "forbidden"); v.GetAction() != pb.Action_ACTION_FORWARD {
		t.Errorf("in development: got %v", v)
	}
	h.write(t, rules)
	d.Reload(t.Context(), "test")
	if v := ask(t, a, 2, "forbidden"); v.GetAction() != pb.Action_ACTION_DENY {
		t.Errorf("after the reload to production: got %v", v)
	}
}

// A rule about a server that nobody has seen is often a slip, and pointed out once
// servers have been seen.
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
	list(t, h.attach(t, false), 1, `{"name":"read"}`)
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

// A question outlives the daemon, its call is judged and recorded once, and a
// verdict that was recorded is given again.
func TestRestart(t *testing.T) {
	h := newHome(t, someRules)
	_, stop := h.start(t)
	a := h.attach(t, false)
	denied := ask(t, a, 1, "delete_file")
	held := ask(t, a, 2, "send_mail")
	stop()

	h.start(t)
	a = h.attach(t, true)
	if v := ask(t, a, 1, "delete_file"); string(v.GetAnswer()) != string(denied.GetAnswer()) {
		t.Errorf("denied again: got %s, want %s", v.GetAnswer(), denied.GetAnswer())
	}
	if v := ask(t, a, 2, "send_mail"); v.GetAction() != pb.Action_ACTION_PENDING || v.GetApproval() != held.GetApproval() {
		t.Errorf("held again: got %v, want question %s", v, held.GetApproval())
	}
	if v := ask(t, a, 3, "read_file"); v.GetAction() != pb.Action_ACTION_FORWARD {
		t.Errorf("a new call: got %v", v)
	}
	calls := map[string]int{}
	for r, err := range h.control(t).ReadAudit(t.Context(), &pb.AuditQuery{Kind: "call"}) {
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range []string{"delete_file", "send_mail", "read_file"} {
			if strings.Contains(string(r.GetLine()), `"tool":"`+tool+`"`) {
				calls[tool]++
			}
		}
	}
	for tool, n := range calls {
		if n != 1 {
			t.Errorf("%s is on record %d times", tool, n)
		}
	}
}

func TestExpiryIsADenial(t *testing.T) {
	h := newHome(t, strings.Replace(someRules, "timeout: 1m", "timeout: 5s", 1))
	h.start(t)
	a := h.attach(t, false)
	if v := ask(t, a, 1, "send_mail"); v.GetAction() != pb.Action_ACTION_PENDING {
		t.Fatalf("got %v", v)
	}
	began := time.Now()
	v := word(t, a)
	if v.GetAction() != pb.Action_ACTION_DENY || !strings.Contains(string(v.GetAnswer()), "Nobody answered") {
		t.Errorf("got %v", v)
	}
	if took := time.Since(began); took < 4*time.Second {
		t.Errorf("expired after %v", took)
	}
}
