package policy

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

var lacksAll = gate.Lacks{Arguments: true, Details: true, Annotations: true, Session: true, Process: true, Command: true}

func TestPartly(t *testing.T) {
	s := load(t, `schema: 1
sources:
  - {id: tied, command: "*/real"}
  - {id: off, enabled: false, command: "*/real"}
governance:
  rules:
    - {match: stop, action: deny}
    - {match: ask, action: approve}
    - {match: "*", source: bank, action: policy}
`, `@id("args") forbid (principal, action == ThoughtGate::Action::"x/args", resource) when { context.arguments has force };
@id("lists") forbid (principal, action == ThoughtGate::Action::"x/lists", resource) when { context.lists has a };
@id("details") forbid (principal, action == ThoughtGate::Action::"x/details", resource) when { context.fact_details has secret };
@id("session") forbid (principal, action == ThoughtGate::Action::"x/session", resource) when { context.session.calls > 9 };
@id("claims") forbid (principal, action == ThoughtGate::Action::"x/claims", resource) when { context.annotations has readOnlyHint };
@id("cwd") forbid (principal, action == ThoughtGate::Action::"x/cwd", resource) when { principal.cwd like "/tmp/*" };
@id("user") forbid (principal in ThoughtGate::User::"root", action == ThoughtGate::Action::"x/user", resource);
@id("member") forbid (principal, action == ThoughtGate::Action::"x/member", resource) when { principal in ThoughtGate::User::"root" };
@id("command") forbid (principal, action == ThoughtGate::Action::"x/command", resource) when { ThoughtGate::Server::"x".command like "*x*" };
@id("argument") forbid (principal, action == ThoughtGate::Action::"x/argument", resource) when { context.time.hour == 99 && resource.name == "argument" && principal has session };
@id("time") forbid (principal, action == ThoughtGate::Action::"x/time", resource) when { context.time.hour == 12 };
@id("never") forbid (principal, action == ThoughtGate::Action::"x/never", resource);
@id("never2") forbid (principal, action == ThoughtGate::Action::"x/never", resource) when { context.arguments has force };
@id("pay") permit (principal, action == ThoughtGate::Action::"bank/pay", resource) when { context.arguments.amount < 9 };
@id("draw") permit (principal, action == ThoughtGate::Action::"bank/draw", resource);
@id("stop") forbid (principal, action == ThoughtGate::Action::"x/stop", resource) when { context.arguments has force };
`)
	p := s.Partly()
	if !p.NeedsCommand() {
		t.Error("a source is bound to a command, and nobody needs commands")
	}
	secret := []gate.Fact{{Name: "secret"}}
	for _, tt := range []struct {
		server, tool string
		facts        []gate.Fact
		want         string
	}{
		{"x", "ls", nil, "forward; rule; defaults.action"},
		{"x", "ask", nil, `ask; rule; "ask" (thoughtgate.yaml:8); ask default`},
		{"x", "stop", nil, `deny; rule; "stop" (thoughtgate.yaml:7)`},
		{"x", "args", nil, `doubt: the policy "args" (test.cedar:1) reads the arguments, which the record does not have`},
		{"x", "lists", nil, "doubt: the policy \"lists\" (test.cedar:2) reads the arguments,"},
		{"x", "details", secret, "doubt: the policy \"details\" (test.cedar:3) reads details of the facts,"},
		{"x", "details", nil, "forward; rule; defaults.action"},
		{"x", "session", nil, "doubt: the policy \"session\" (test.cedar:4) reads the earlier calls of the session,"},
		{"x", "claims", nil, "doubt: the policy \"claims\" (test.cedar:5) reads the tool's annotations,"},
		{"x", "cwd", nil, "doubt: the policy \"cwd\" (test.cedar:6) reads the agent's process,"},
		{"x", "user", nil, "doubt: the policy \"user\" (test.cedar:7) reads the agent's process,"},
		{"x", "member", nil, "doubt: the policy \"member\" (test.cedar:8) reads the agent's process,"},
		{"x", "command", nil, "doubt: the policy \"command\" (test.cedar:9) reads the server's command,"},
		{"x", "argument", nil, "forward; rule; defaults.action"},
		{"x", "time", nil, "deny; permit; defaults.action; time"},
		{"x", "never", nil, "deny; permit; defaults.action; never"},
		{"bank", "pay", nil, "doubt: the policy \"pay\" (test.cedar:14) reads the arguments,"},
		{"bank", "draw", nil, `forward; permit; "*" (thoughtgate.yaml:9); draw`},
		{"bank", "ls", nil, `deny; permit; "*" (thoughtgate.yaml:9)`},
		{"tied", "ls", nil, `doubt: the source "tied" (thoughtgate.yaml:3) is bound to a command,`},
		{"off", "ls", nil, `hidden; visible; source "off" (thoughtgate.yaml:4)`},
	} {
		r, doubt, err := p.RulePartly(context.Background(), toolCall(t, tt.server, tt.tool, `{}`), tt.facts, lacksAll)
		got := inShort(r, err)
		if doubt != "" {
			got = "doubt: " + doubt
		}
		if got != tt.want && !(strings.HasPrefix(tt.want, "doubt: ") && strings.HasPrefix(got, tt.want)) {
			t.Errorf("%s/%s: got %s, want %s", tt.server, tt.tool, got, tt.want)
		}
		r, doubt, err = p.RulePartly(context.Background(), toolCall(t, tt.server, tt.tool, `{}`), tt.facts, gate.Lacks{})
		if want := judge(s, toolCall(t, tt.server, tt.tool, `{}`), tt.facts...); doubt != "" || inShort(r, err) != want {
			t.Errorf("%s/%s with nothing lacking: got %s, %s, want %s", tt.server, tt.tool, inShort(r, err), doubt, want)
		}
	}
}

// Without a doubt, what was lacking could not have mattered: for any value of it the verdict is
// the same.
func TestPartlyIsSure(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := drawUser(rt)
		server, tool := oneOf(rt, "server", servers...), oneOf(rt, "tool", tools...)
		facts := []gate.Fact{{Name: oneOf(rt, "fact", "secret", "sends")}}
		r, doubt, err := s.Partly().RulePartly(context.Background(), toolCall(t, server, tool, `{}`), facts, lacksAll)
		if doubt != "" {
			return
		}
		for _, arguments := range []string{`{}`, `{"n":2}`, `{"n":0}`, `{"n":"x"}`, `{"m":[1]}`} {
			for _, command := range []string{"/bin/real", "other"} {
				c := toolCall(t, server, tool, arguments)
				c.Command = []string{command}
				c.Project = fmt.Sprint("/p/", command)
				got, gotErr := s.Rule(context.Background(), c, facts)
				if refused(got, gotErr) != refused(r, err) {
					rt.Fatalf("without doubt %s, with %s %s", inShort(r, err), arguments, inShort(got, gotErr))
				}
			}
		}
	})
}
