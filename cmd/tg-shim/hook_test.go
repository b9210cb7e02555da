package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// hooked is an agent's run of a hook.
type hooked struct {
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
	done           chan error
}

// startHook runs `tg-shim hook` for an event. The agent is a program of its own: agents may not
// answer their own questions, and the test does.
func startHook(t *testing.T, h *rig.Fixture, event string, args ...string) *hooked {
	t.Helper()
	args = append([]string{"60", rig.Shipped(t, "tg-shim"), "hook", "--socket", h.Socket()}, args...)
	r := &hooked{cmd: exec.Command("timeout", args...), done: make(chan error, 1)}
	r.cmd.Env, r.cmd.Dir = h.Env, h.Path("work")
	r.cmd.Stdin, r.cmd.Stdout, r.cmd.Stderr = strings.NewReader(event), &r.stdout, &r.stderr
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { r.done <- r.cmd.Wait() }()
	return r
}

// end waits for the hook to exit and returns its exit code.
func (r *hooked) end(t *testing.T) int {
	t.Helper()
	err := <-r.done // timeout(1) ends it
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return r.cmd.ProcessState.ExitCode()
}

const hookConfiguration = `
schema: 1
governance:
  defaults: {action: forward}
  rules:
    - {match: shell, source: agent, action: approve}
    - {match: fetch, source: agent, action: deny, description: "the network is closed"}
pins: {mode: off}
`

// claudeEvent returns what Claude Code writes to a hook before it uses a tool.
func claudeEvent(tool, input string) string {
	return `{"session_id":"c","cwd":"/","hook_event_name":"PreToolUse","tool_name":"` + tool + `","tool_input":` + input + `,"tool_use_id":"t-1","permission_mode":"default"}`
}

// What an agent is about to do with its own tools is judged as calls of the server agent, and
// answered in the agent's words. Whatever can't be judged is denied.
func TestHook(t *testing.T) {
	h := newFixture(t, hookConfiguration)
	h.StartDaemon()
	for name, test := range map[string]struct {
		event, agent string
		args         []string
		status       int
		stdout       string // contained in it; empty: nothing is printed
		stderr       string
	}{
		"forwarded":             {event: claudeEvent("Read", `{"file_path":"/etc/hostname"}`)},
		"denied":                {event: claudeEvent("WebFetch", `{"url":"https://example.com"}`), stdout: `"permissionDecision":"deny","permissionDecisionReason":"Not executed. Denied by rule`},
		"of Cursor":             {agent: "cursor", event: `{"hook_event_name":"preToolUse","cursor_version":"2.9","conversation_id":"c","tool_name":"Read","tool_input":{"path":"x"}}`, stdout: `{"permission":"allow"}`},
		"a governed agent":      {event: claudeEvent("mcp__files__read", `{"path":"x"}`)},
		"an unknown tool":       {event: claudeEvent("Sing", `{"song":"x"}`)},
		"after a tool":          {event: `{"hook_event_name":"PostToolUse","tool_name":"Read","tool_input":{},"tool_response":"text","tool_use_id":"t-0"}`, args: []string{"--report"}},
		"no JSON":               {event: "rm -rf /", status: 2, stderr: "Not executed"},
		"a member twice":        {event: `{"hook_event_name":"PreToolUse","tool_name":"Read","tool_name":"Bash","tool_input":{}}`, status: 2, stderr: "tool_name"},
		"an unknown event":      {event: `{"hook_event_name":"Sunrise"}`, status: 2, stderr: "Sunrise"},
		"of another agent":      {event: `{"hook_event_name":"PreToolUse","turn_id":"1","tool_name":"Bash","tool_input":{}}`, status: 2, stderr: "codex has run it"},
		"of an agent too many":  {agent: "clippy", event: `{}`, status: 2, stderr: "clippy"},
		"two members for one":   {event: claudeEvent("Read", `{"path":"/a","file_path":"/b"}`), status: 2, stderr: "two members for path"},
		"nothing, and a report": {event: "", args: []string{"--report"}},
	} {
		t.Run(name, func(t *testing.T) {
			agent := "claude-code"
			if test.agent != "" {
				agent = test.agent
			}
			r := startHook(t, h, test.event, append(test.args, agent)...)
			status := r.end(t)
			if status != test.status || !strings.Contains(r.stdout.String(), test.stdout) || test.stdout == "" && r.stdout.Len() > 0 || !strings.Contains(r.stderr.String(), test.stderr) {
				t.Errorf("exit %d, want %d\nstdout: %s\nstderr: %s", status, test.status, r.stdout.String(), r.stderr.String())
			}
		})
	}
}

// A person is asked, and the answer reaches the agent.
func TestHookWaitsForAPerson(t *testing.T) {
	h := newFixture(t, hookConfiguration)
	h.StartDaemon()
	c, err := client.Dial(t.Context(), client.WithSocket(h.Path("run/thoughtgate/control.sock")))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ask := func(answer pb.Answer) *hooked {
		r := startHook(t, h, claudeEvent("Bash", `{"command":"make"}`), "--limit", "1h", "claude-code")
		var open []*pb.Approval
		eventually(t, "a question is open", func() bool {
			open, err = c.ListApprovals(t.Context(), false)
			return err == nil && len(open) > 0
		})
		q := open[0]
		if q.GetServer() != "agent" || q.GetTool() != "shell" || q.GetAgent() != "claude-code" {
			t.Errorf("a person is asked about %s of %s by %s", q.GetTool(), q.GetServer(), q.GetAgent())
		}
		if _, err := c.Decide(t.Context(), &pb.Decision{Id: q.GetId(), Subject: q.GetSubject(), Answer: answer, Surface: "terminal"}); err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := ask(pb.Answer_ANSWER_APPROVE); r.end(t) != 0 || r.stdout.Len() > 0 {
		t.Errorf("approved: exit %d: %s%s", r.cmd.ProcessState.ExitCode(), r.stdout.String(), r.stderr.String())
	}
	if r := ask(pb.Answer_ANSWER_DENY); r.end(t) != 0 || !strings.Contains(r.stdout.String(), `"permissionDecision":"deny"`) {
		t.Errorf("denied: exit %d: %s%s", r.cmd.ProcessState.ExitCode(), r.stdout.String(), r.stderr.String())
	}
}

// A call waits as long as its own hook says, not as the first event of the agent did: it is parked
// before the agent gives up. Repeated, it is judged again, though the agent gives it no id. The hook
// has 12 s, so that a busy machine has some seconds to tell the agent.
func TestHookParks(t *testing.T) {
	h := newFixture(t, hookConfiguration)
	h.StartDaemon()
	event := filepath.Join(t.TempDir(), "event")
	if err := os.WriteFile(event, []byte(strings.Replace(claudeEvent("Bash", `{"command":"make"}`), `"tool_use_id":"t-1",`, "", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	const script = `echo '{"hook_event_name":"SessionStart"}' | "$0" hook --socket "$1" --limit 1h --report claude-code
for i in 1 2; do "$0" hook --socket "$1" --limit 12s claude-code <"$2" || exit; done`
	cmd := exec.Command("timeout", "60", "sh", "-c", script, rig.Shipped(t, "tg-shim"), h.Socket(), event)
	cmd.Env, cmd.Dir = h.Env, h.Path("work")
	out, err := cmd.CombinedOutput()
	const answer = `(?m)^.*"permissionDecision":"deny".*Waiting for a person \(A-1\). Repeat the same call to learn the outcome. \(c-[0-9a-f]+-%d\)"}}$`
	if err != nil || !regexp.MustCompile(fmt.Sprintf(answer, 1)).Match(out) || !regexp.MustCompile(fmt.Sprintf(answer, 2)).Match(out) {
		t.Errorf("%v: %s", err, out)
	}
}

// An agent at a terminal that is configured to asks its own user. What it reports is on record as its
// claim. Another hook that reports the same call, and in which it would ask nobody, denies it.
func TestHookAsksNatively(t *testing.T) {
	h := newFixture(t, hookConfiguration+"hooks: {claude-code: {ask: native}}\n")
	h.StartDaemon()
	before := claudeEvent("Bash", `{"command":"make"}`)
	events := map[string]string{
		"before": before, "again": strings.Replace(before, `"default"`, `"bypassPermissions"`, 1),
		"after": `{"hook_event_name":"PostToolUse","tool_name":"Bash","tool_input":{},"tool_response":"text","tool_use_id":"t-1"}`,
	}
	dir := t.TempDir()
	for name, text := range events {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const script = `for e in before again; do "$0" hook --socket "$1" --limit 1h claude-code <"$2/$e"; done; "$0" hook --socket "$1" --report claude-code <"$2/after"`
	cmd := exec.Command("timeout", "60", "sh", "-c", script, rig.Shipped(t, "tg-shim"), h.Socket(), dir)
	cmd.Env, cmd.Dir = h.Env, h.Path("work")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	terminal, err := pty.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	const want = `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"ask","permissionDecisionReason":"ThoughtGate asks: the agent's own tool shell needs a person's approval"}}
{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"Not executed. Another hook was told to have the user asked about it."}}
`
	if err := cmd.Wait(); err != nil || out.String() != want {
		t.Errorf("%v: %s, want %s", err, &out, want)
	}
	c, err := client.Dial(t.Context(), client.WithSocket(h.Path("run/thoughtgate/control.sock")))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if open, err := c.ListApprovals(t.Context(), true); err != nil || len(open) > 0 {
		t.Errorf("questions: %v, %v", open, err)
	}
	var got []string
	for r, err := range c.ReadAudit(t.Context(), &pb.AuditQuery{Server: "agent"}) {
		if err != nil {
			t.Fatal(err)
		}
		if rec, err := record.Parse(r.GetLine()); err == nil && rec.Surface != "" {
			got = append(got, string(rec.Kind)+" "+rec.Verdict+" "+rec.Surface+": "+rec.Reason)
		}
	}
	if strings.Join(got, "\n") != "call forward host: claude-code is told to ask its own user: the agent's own tool shell needs a person's approval\noutcome ok host: claude-code says that its user allowed it" {
		t.Errorf("on record: %q", got)
	}
}

// Without a configuration, most of what an agent does just runs, and a person is asked about what
// can't be undone, with what would be lost.
func TestHookByDefault(t *testing.T) {
	h := newFixture(t, "schema: 1\npins: {mode: off}\n")
	h.StartDaemon()
	c, err := client.Dial(t.Context(), client.WithSocket(h.Path("run/thoughtgate/control.sock")))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	notes := h.Path("work/notes")
	if err := os.MkdirAll(notes, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(notes, "a.txt"), []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, event := range []string{
		claudeEvent("Bash", `{"command":"go test ./... && echo 'rm -rf /'","description":"run the tests"}`),
		claudeEvent("Write", `{"file_path":"`+notes+`/b.txt","content":"text"}`),
		claudeEvent("WebFetch", `{"url":"https://example.com/docs","prompt":"read"}`),
		claudeEvent("TodoWrite", `{"todos":[{"content":"delete the old files"}]}`),
	} {
		if r := startHook(t, h, event, "claude-code"); r.end(t) != 0 || r.stdout.Len()+r.stderr.Len() > 0 {
			t.Errorf("%s: %s%s", event, r.stdout.String(), r.stderr.String())
		}
	}
	r := startHook(t, h, claudeEvent("Bash", `{"command":"rm -rf `+notes+`"}`), "--limit", "1h", "claude-code")
	var open []*pb.Approval
	eventually(t, "a question is open", func() bool {
		open, err = c.ListApprovals(t.Context(), false)
		return err == nil && len(open) > 0
	})
	q := open[0]
	if facts := strings.Join(q.GetFacts(), "\n"); q.GetTool() != "shell" || !strings.Contains(facts, "destroys: deletes ") {
		t.Errorf("a person is asked about %s: %s", q.GetTool(), facts)
	}
	if _, err := c.Decide(t.Context(), &pb.Decision{Id: q.GetId(), Subject: q.GetSubject(), Answer: pb.Answer_ANSWER_DENY, Surface: "terminal"}); err != nil {
		t.Fatal(err)
	}
	if r.end(t) != 0 || !strings.Contains(r.stdout.String(), `"permissionDecision":"deny"`) {
		t.Errorf("denied: %s%s", r.stdout.String(), r.stderr.String())
	}
}

// Without a daemon nothing is judged, so the call is denied. A report says nothing.
func TestHookWithoutADaemon(t *testing.T) {
	h := newFixture(t, hookConfiguration)
	r := startHook(t, h, claudeEvent("Read", `{"file_path":"/x"}`), "claude-code")
	if status := r.end(t); status != 2 || !strings.Contains(r.stderr.String(), "tgctl daemon start") || r.stdout.Len() > 0 {
		t.Errorf("exit %d: %s%s", status, r.stdout.String(), r.stderr.String())
	}
	r = startHook(t, h, claudeEvent("Read", `{"file_path":"/x"}`), "--report", "claude-code")
	if status := r.end(t); status != 0 || r.stdout.Len()+r.stderr.Len() > 0 {
		t.Errorf("a report: exit %d: %s%s", status, r.stdout.String(), r.stderr.String())
	}
}
