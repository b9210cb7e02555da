package gate

import (
	"errors"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// A canary is denied whatever rules are in force, and the denial says by what. An accident on
// its way is not hidden. A server of any other name is not affected.
func TestCanary(t *testing.T) {
	const refused = "Denied by rule built in: canary: it is a test call of `tgctl doctor`"
	for name, tt := range map[string]struct {
		change func(*fixture)
		server string
		move   Move
		rule   string
		answer string
	}{
		"forwarded by the policy": {func(*fixture) {}, record.CanaryServer, Deny, record.CanaryRule, refused},
		"asked about": {func(h *fixture) { h.ruling = Ruling{Move: Ask, Rule: "r"} }, record.CanaryServer,
			Deny, record.CanaryRule, refused},
		"hidden": {func(h *fixture) {
			h.ruling = Ruling{Move: Deny, Gate: "visible", Hidden: true, Code: mcp.CodeInvalidParams}
		}, record.CanaryServer,
			Deny, record.CanaryRule, refused},
		"under the development profile": {func(h *fixture) { h.profile = Development }, record.CanaryServer,
			Deny, record.CanaryRule, refused},
		"an accident":    {func(h *fixture) { h.err = errors.New("policy p1: type error") }, record.CanaryServer, Deny, "", "policy p1: type error"},
		"another server": {func(*fixture) {}, "canary", Forward, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture()
			tt.change(h)
			v, a := submitTo(h, Shim{Attachment: "0123456789abcdef", Server: tt.server, Requested: Production}, aCall)
			a.Close(true)
			if r := h.records[0]; v.Move != tt.move || r.Rule != tt.rule || r.Verdict != tt.move.String() {
				t.Errorf("%v, recorded %s by %q; want %v by %q", v.Move, r.Verdict, r.Rule, tt.move, tt.rule)
			}
			if !strings.Contains(string(v.Answer), tt.answer) {
				t.Errorf("the agent is told %s, want %q", v.Answer, tt.answer)
			}
		})
	}
}

// The command that an agent's hook is asked about is denied, in development too, and no other.
func TestCanaryCommand(t *testing.T) {
	for name, tt := range map[string]struct {
		server, tool, arguments string
		move                    Move
	}{
		"the command":         {agenthook.Server, agenthook.Shell, `{"command":"true thoughtgate-canary","cwd":"/"}`, Deny},
		"another command":     {agenthook.Server, agenthook.Shell, `{"command":"true thoughtgate-canary; ls"}`, Forward},
		"another tool":        {agenthook.Server, agenthook.Read, `{"command":"true thoughtgate-canary"}`, Forward},
		"a server's own tool": {"files", agenthook.Shell, `{"command":"true thoughtgate-canary"}`, Forward},
	} {
		h := newFixture()
		h.profile = Development
		v, a := submitTo(h, Shim{Attachment: "0123456789abcdef", Server: tt.server}, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tt.tool+`","arguments":`+tt.arguments+`}}`)
		a.Close(true)
		if r := h.records[0]; v.Move != tt.move || (r.Rule == record.CanaryRule) != (tt.move == Deny) {
			t.Errorf("%s: %v, recorded %s by %q", name, v.Move, r.Verdict, r.Rule)
		}
	}
}

// A call that a person changes into the canary's command is a canary.
func TestCanaryByEdit(t *testing.T) {
	c := &Call{Case: Case{Server: agenthook.Server}}
	c.Side, c.Line = wire.FromAgent, []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"shell","arguments":{"command":"ls"}}}`)
	if err := wire.Read(c.Line, c.Side, &c.Envelope); err != nil {
		t.Fatal(err)
	}
	c.Method, c.Subject = "tools/call", agenthook.Shell
	before := c.isCanary()
	edited, err := c.withArguments([]byte(`{"command":"true thoughtgate-canary"}`), "a person")
	if err != nil || before || !edited.isCanary() || c.isCanary() {
		t.Errorf("before %v, edited %v, the first afterwards %v, %v", before, edited.isCanary(), c.isCanary(), err)
	}
}

// What the canary's server sends is not a call and passes.
func TestCanaryOfAServer(t *testing.T) {
	c := &Call{Message: Message{Side: wire.FromServer}, Case: Case{Server: record.CanaryServer}}
	c.ruling.Move = Forward
	if (&Gate{}).denyCanary(t.Context(), c); c.ruling.Move != Forward {
		t.Errorf("got %v, want it forwarded", c.ruling.Move)
	}
}
