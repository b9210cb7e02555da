package daemon

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/hook"
	"github.com/thoughtgate/thoughtgated/daemon/session"
	"github.com/thoughtgate/thoughtgated/internal/proc"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// A call of a governed server passes the hook and is judged when it comes to the server. One that
// has run and did not come there, as an agent does that has another server of that name, is shown.
func TestACallThatPassedTheHook(t *testing.T) {
	u := newUndoing(t)
	d := u.daemon
	self, err := proc.Look(int32(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	wrap := session.Process{PID: 1 << 30, Start: 1}
	if _, err := d.sessions.Open(t.Context(), wrap, session.Spec{ID: strings.Repeat("ab", 16), Agent: "claude-code", Command: []string{"claude"}, Project: u.project}); err != nil {
		t.Fatal(err)
	}
	line := []session.Process{self.Process, wrap}
	files, err := d.sessions.Join(t.Context(), session.Hello{
		Shim: gate.Shim{Attachment: "attachment-of-files-1", Server: "files", Patience: time.Hour}, Peer: self.Process, Parent: self.Process, Line: line, Programs: []string{"/bin/claude", "/bin/tgctl"},
	}, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	files.Attachment.Bind(func(gate.Verdict) {})
	reports := func(event, id, tool string) {
		t.Helper()
		out, err := d.hooks.Handle(t.Context(), hook.Request{
			Agent: "claude-code", Event: []byte(`{"hook_event_name":"` + event + `","tool_use_id":"` + id + `","tool_name":"mcp__files__` + tool + `","tool_input":{}}`),
			Line: append([]proc.Process{{PID: 1<<30 + 1, Start: 1}}, line...), Programs: []string{"/bin/tg-shim", "/bin/claude", "/bin/tgctl"}, Patience: time.Hour,
		})
		if err != nil || len(out.Stdout)+len(out.Stderr)+out.Status > 0 {
			t.Fatalf("%s: %s%s, %v", event, out.Stdout, out.Stderr, err)
		}
	}
	reports("PreToolUse", "1", "write")
	files.Attachment.Submit(gate.Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write","arguments":{}}}`)})
	reports("PostToolUse", "1", "write")
	reports("PreToolUse", "2", "read")
	reports("PostToolUse", "2", "read")
	for until := time.Now().Add(time.Minute); len(d.hooks.Unseen()) == 0 && time.Now().Before(until); {
		<-time.After(time.Millisecond)
	}
	if shown := d.hooks.Unseen(); len(shown) != 1 || shown[0].Text != "passed at the hook, never came to its server: `files/read`" {
		t.Errorf("shown: %+v", shown)
	}
}
