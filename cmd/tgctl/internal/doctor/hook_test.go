package doctor

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/record"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

const protectionID = "1a571a571a571a571a571a571a571a57"

// protectTools has Claude Code protected, with its own tools. answer is what its hook does.
func (h *fixture) protectTools(answer func(agentconf.HookCommand, []byte) (agenthook.Output, error)) {
	h.T.Helper()
	h.world.hook = answer
	agent, err := agentconf.AgentFor("claude-code", nil)
	if err != nil {
		h.T.Fatal(err)
	}
	env := agentconf.Env{Home: h.Dir, Cwd: "/", Tools: true, NoServers: true, LookupEnv: func(string) (string, bool) { return "", false }}
	line := agentconf.Line{Shim: h.Shim, Socket: h.fake.Socket}
	is := agentconf.NewProtection(protectionID, agent, env, line)
	plan, err := agentconf.NewPlan(agent, is.Env(env.LookupEnv), h.Shim)
	if err == nil {
		is, err = plan.Protect(is, func(*agentconf.Protection) error { return nil })
	}
	if err != nil {
		h.T.Fatal(err)
	}
	text, err := is.Text()
	if err != nil {
		h.T.Fatal(err)
	}
	h.fake.Protected = []*pb.Protection{{Id: protectionID, Agent: "claude-code", Paths: is.Paths(), Shim: h.Shim, Text: text, Since: consoletest.At(-time.Hour)}}
}

// A healthy hook is run as it stands in the file, with an event that the daemon denies, and its
// denial is on record.
func TestHookCanary(t *testing.T) {
	h := newDoctorsFixture(t)
	const id = "tg-aaaaaaaaaaaa-1"
	denied := func(rule string) *pb.AuditRecord {
		r := consoletest.Chained([]record.Record{
			{Kind: record.KindCall, ID: id, Server: agenthook.Server, Tool: agenthook.Shell, Verdict: "deny", Rule: rule, Time: consoletest.Noon},
		})[0]
		r.Seq = h.fake.Status.GetAuditSeq() + 9
		return r
	}
	h.fake.Records = append(h.fake.Records, denied(record.CanaryRule))
	c := agenthook.Of("claude-code")
	var ran []string
	h.protectTools(func(hook agentconf.HookCommand, event []byte) (agenthook.Output, error) {
		ran = hook.Argv
		e, err := c.Read(event)
		if err != nil || !bytes.Contains(e.Input, []byte(record.CanaryCommand)) || hook.Shell {
			t.Errorf("asked about %s: %v; by a shell: %v", event, err, hook.Shell)
		}
		return c.Deny(e, "Not executed. Denied by rule built in: canary ("+id+")"), nil
	})
	all := h.findings()
	i := slices.IndexFunc(all, func(f finding) bool { return f.ID == "hooks" })
	if i < 0 || all[i].Severity != gradeOK || !strings.Contains(all[i].What, "the hook of claude-code denied a command") {
		t.Errorf("found %+v", all)
	}
	want := []string{h.Shim, "hook", "--socket", h.fake.Socket, "--session", protectionID, "--limit", "1h0m0s", "claude-code"}
	if !slices.Equal(ran, want) {
		t.Errorf("ran %q, want %q", ran, want)
	}

	// A denial that this daemon has not made, and one for another reason, do not do.
	h.fake.Records[len(h.fake.Records)-1] = denied("write: deny")
	if all = h.findings(); !slices.ContainsFunc(all, func(f finding) bool {
		return f.ID == "hooks.unrecorded" && strings.Contains(f.What, "could not be judged")
	}) {
		t.Errorf("found %+v", all)
	}
}

// An entry is run without a shell, unless it is a line for one, and its answer and exit code are
// what they are.
func TestAskHook(t *testing.T) {
	for name, tt := range map[string]struct {
		hook agentconf.HookCommand
		want agenthook.Output
	}{
		"argv":              {agentconf.HookCommand{Argv: []string{"/bin/echo", "$HOME", "a  b"}}, agenthook.Output{Stdout: []byte("$HOME a  b\n")}},
		"the event":         {agentconf.HookCommand{Argv: []string{"/bin/cat"}}, agenthook.Output{Stdout: []byte("event")}},
		"a line":            {agentconf.HookCommand{Shell: true, Argv: []string{"cat >&2; exit 2"}}, agenthook.Output{Stderr: []byte("event"), Status: 2}},
		"another exit code": {agentconf.HookCommand{Argv: []string{"/bin/false"}}, agenthook.Output{Status: 1}},
	} {
		got, err := askHook(t.Context(), tt.hook, []byte("event"))
		if err != nil || !bytes.Equal(got.Stdout, tt.want.Stdout) || !bytes.Equal(got.Stderr, tt.want.Stderr) || got.Status != tt.want.Status {
			t.Errorf("%s: %q, %q, %d, %v", name, got.Stdout, got.Stderr, got.Status, err)
		}
	}
	for _, hook := range []agentconf.HookCommand{{Argv: []string{"/no/such/program"}}, {Shell: true, Argv: []string{"kill -9 $$"}}} {
		if got, err := askHook(t.Context(), hook, nil); err == nil {
			t.Errorf("%q: %+v", hook.Argv, got)
		}
	}
}
