package rehearse_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/thoughtgate/thoughtgated/daemon/audit"
	"github.com/thoughtgate/thoughtgated/daemon/facts"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/policy"
	"github.com/thoughtgate/thoughtgated/daemon/rehearse"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// onRecord returns a recorded tool call, without values.
func onRecord(r record.Record) *rehearse.Recorded {
	r.Kind = record.KindCall
	if r.Method == "" {
		r.Method = "tools/call"
	}
	if r.Direction == "" {
		r.Direction = "agent_to_server"
	}
	if r.Server == "" {
		r.Server = "x"
	}
	if r.Profile == "" {
		r.Profile = "production"
	}
	if r.Time.IsZero() {
		r.Time = noon
	}
	r.MessageID = "1"
	return &rehearse.Recorded{Record: r, Whole: true}
}

// tried returns the results of a backtest of records by the policy, one on each line.
func tried(t testing.TB, p *policy.Set, records ...*rehearse.Recorded) string {
	t.Helper()
	b := rehearse.NewBacktest(p.Partly())
	for i, r := range records {
		if r.Seq == 0 {
			r.Seq = uint64(i + 1)
		}
		if r.Call == 0 {
			r.Call = uint64(i + 1)
		}
		b.Add(t.Context(), r)
	}
	return told(b)
}

func told(b *rehearse.Backtest) string {
	var lines []string
	for _, f := range b.Flips() {
		k := f.Kind
		word := "tighter"
		if k.Loosens() {
			word = "looser"
		}
		lines = append(lines, fmt.Sprintf("%s %s %s: %s (%s) to %s (%s), %d from %d to %d", word, k.Server, strings.TrimSpace(strings.TrimPrefix(k.Method, "tools/call")+" "+k.Subject), k.Was, k.WasBy, k.Would, k.WouldBy, f.Calls, f.First, f.Last))
	}
	for _, u := range b.Unknowns() {
		lines = append(lines, fmt.Sprintf("unknown %s %s: was %s, %s, %d", u.Kind.Server, u.Kind.Subject, u.Kind.Was, u.Kind.Because, u.Calls))
	}
	s := b.Summary
	return strings.Join(append(lines, fmt.Sprintf("%d: %d same, %d tighter, %d looser, %d unknown", s.Calls, s.Same, s.Tighter, s.Looser, s.Unknown)), "\n")
}

func TestBacktest(t *testing.T) {
	p := set(t, `schema: 1
sources: [{id: tied, command: "*/real *"}]
governance:
  defaults: {action: forward, asks: forward}
  rules:
    - {match: "rm*", action: deny}
    - {match: "send*", action: approve}
    - {when: secret, action: approve}
    - {match: "file:///etc/*", action: deny}
    - {match: "*", source: bank, action: policy}
    - {match: "*", method: "acme/*", action: forward}
`, cedar)
	values := func(r *rehearse.Recorded, kept string, whole bool) *rehearse.Recorded {
		r.Values, r.Whole = nil, whole
		if kept != "" {
			r.Values = []byte(kept)
		}
		return r
	}
	command := func(r *rehearse.Recorded, command ...string) *rehearse.Recorded {
		r.Command = command
		return r
	}
	for _, tt := range []struct {
		name    string
		records []*rehearse.Recorded
		want    string
	}{
		{"as it was", []*rehearse.Recorded{
			onRecord(record.Record{Tool: "ls", Verdict: "forward", Gate: "rule"}),
			onRecord(record.Record{Tool: "rm", Verdict: "deny", Gate: "rule"}),
			onRecord(record.Record{Tool: "send", Verdict: "hold", Gate: "rule"}),
		}, "3: 3 same, 0 tighter, 0 looser, 0 unknown"},
		{"grouped, looser first", []*rehearse.Recorded{
			onRecord(record.Record{Tool: "rm", Verdict: "forward", Gate: "rule", Rule: "old"}),
			onRecord(record.Record{Tool: "ls", Verdict: "deny", Gate: "rule", Rule: "old"}),
			onRecord(record.Record{Tool: "rm", Verdict: "forward", Gate: "rule", Rule: "old"}),
			onRecord(record.Record{Tool: "rm", Verdict: "forward", Gate: "rule", Rule: "older"}),
		}, `looser x ls: deny (old) to forward (defaults.action (thoughtgate.yaml:4)), 1 from 2 to 2
tighter x rm: forward (old) to deny ("rm*" (thoughtgate.yaml:6)), 2 from 1 to 3
tighter x rm: forward (older) to deny ("rm*" (thoughtgate.yaml:6)), 1 from 4 to 4
4: 0 same, 3 tighter, 1 looser, 0 unknown`},
		{"a person is no rule, and counts once", []*rehearse.Recorded{
			onRecord(record.Record{Attachment: "a", Call: 7, Tool: "ls", Verdict: "hold", Gate: "rule", Approval: "A-1"}),
			onRecord(record.Record{Attachment: "a", Call: 7, Tool: "ls", Verdict: "deny", Gate: "ask", Approval: "A-1"}),
			onRecord(record.Record{Attachment: "a", Call: 8, Tool: "send", Verdict: "forward", Gate: "ask", Approval: "A-2"}),
			onRecord(record.Record{Attachment: "a", Call: 9, Tool: "send", Verdict: "deny", Gate: "ask"}),
			onRecord(record.Record{Attachment: "a", Call: 10, Tool: "send", Verdict: "forward", Gate: "ask", Surface: "host"}),
		}, "looser x ls: ask (rule) to forward (defaults.action (thoughtgate.yaml:4)), 1 from 1 to 1\n4: 3 same, 0 tighter, 1 looser, 0 unknown"},
		{"development is not the verdict", []*rehearse.Recorded{
			onRecord(record.Record{Tool: "rm", Verdict: "forward", Would: "WOULD_BLOCK", Gate: "rule", Profile: "development"}),
			onRecord(record.Record{Tool: "send", Verdict: "forward", Would: "WOULD_ASK", Gate: "rule", Profile: "development"}),
			onRecord(record.Record{Tool: "ls", Verdict: "forward", Would: "WOULD_HIDE", Gate: "visible", Profile: "development"}),
		}, "looser x ls: deny (visible) to forward (defaults.action (thoughtgate.yaml:4)), 1 from 3 to 3\n3: 2 same, 0 tighter, 1 looser, 0 unknown"},
		{"facts of then", []*rehearse.Recorded{
			onRecord(record.Record{Tool: "save", Verdict: "forward", Gate: "rule", Facts: []string{"secret"}}),
			onRecord(record.Record{Tool: "save", Verdict: "hold", Gate: "ask", Rule: "built in: ours", Facts: []string{"ours"}}),
		}, "tighter x save: forward (rule) to ask (\"*\" when secret (thoughtgate.yaml:8)), 1 from 1 to 1\n2: 1 same, 1 tighter, 0 looser, 0 unknown"},
		{"arguments", []*rehearse.Recorded{
			values(onRecord(record.Record{Server: "bank", Tool: "pay", Verdict: "forward", Gate: "permit", Policies: []string{"p", "q"}}), `{"amount":5}`, true),
			values(onRecord(record.Record{Server: "bank", Tool: "pay", Verdict: "forward", Gate: "permit", Policies: []string{"p", "q"}}), `{"amount":50}`, true),
			values(onRecord(record.Record{Server: "bank", Tool: "pay", Verdict: "forward", Gate: "permit"}), `{"amount":"hmac:00"}`, false),
			values(onRecord(record.Record{Server: "bank", Tool: "pay", Verdict: "deny", Gate: "permit"}), "", false),
			values(onRecord(record.Record{Server: "bank", Tool: "draw", Verdict: "forward", Gate: "permit"}), "", false),
			values(onRecord(record.Record{Tool: "rm", Verdict: "deny", Gate: "rule"}), `{"a":"hmac:00"}`, false),
		}, `tighter bank pay: forward (p, q) to deny ("*" (thoughtgate.yaml:10)), 1 from 2 to 2
tighter bank draw: forward (permit) to deny ("*" (thoughtgate.yaml:10)), 1 from 5 to 5
unknown bank pay: was forward, the policy "pay" (a.cedar:1) reads the arguments, which the record does not have, 1
unknown bank pay: was deny, the policy "pay" (a.cedar:1) reads the arguments, which the record does not have, 1
6: 2 same, 2 tighter, 0 looser, 2 unknown`},
		{"without arguments", []*rehearse.Recorded{
			values(onRecord(record.Record{Server: "bank", Tool: "pay", Verdict: "deny", Gate: "accident"}), `{"name":"pay","_meta":{"progressToken":1}}`, true),
		}, "1: 1 same, 0 tighter, 0 looser, 0 unknown"},
		{"commands", []*rehearse.Recorded{
			onRecord(record.Record{Server: "tied", Tool: "ls", Verdict: "forward", Gate: "rule"}),
			command(onRecord(record.Record{Server: "tied", Tool: "ls", Verdict: "forward", Gate: "rule"}), "/bin/real", "x"),
			command(onRecord(record.Record{Server: "tied", Tool: "ls", Verdict: "forward", Gate: "rule"}), "/bin/other", "x"),
		}, `tighter tied ls: forward (rule) to deny (source "tied" (thoughtgate.yaml:2)), 1 from 3 to 3
unknown tied ls: was forward, the source "tied" (thoughtgate.yaml:2) is bound to a command, and the server's command is not recorded, 1
3: 1 same, 1 tighter, 0 looser, 1 unknown`},
		{"other methods", []*rehearse.Recorded{
			values(onRecord(record.Record{Method: "resources/read", Tool: "file:///etc/x", Verdict: "forward", Gate: "rule"}), `{"uri":"hmac:00"}`, false),
			values(onRecord(record.Record{Method: "prompts/get", Tool: "rm", Verdict: "forward", Gate: "rule"}), `{"name":"rm"}`, true),
			values(onRecord(record.Record{Method: "subscriptions/listen", Verdict: "forward", Gate: "rule"}), `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{},"io.modelcontextprotocol/clientCapabilities":{}},"notifications":{"resourceSubscriptions":["memo:1","file:///etc/x"]}}`, true),
			values(onRecord(record.Record{Method: "subscriptions/listen", Verdict: "forward", Gate: "rule"}), "", false),
			values(onRecord(record.Record{Method: "completion/complete", Tool: "rm", Verdict: "forward", Gate: "rule"}), `{"ref":{"type":"ref/prompt","name":"rm"},"argument":{"name":"a","value":"b"}}`, true),
			values(onRecord(record.Record{Method: "sampling/createMessage", Direction: "server_to_agent", Verdict: "hold", Gate: "rule"}), "", false),
			values(onRecord(record.Record{Method: "elicitation/create", Direction: "server_to_agent", Verdict: "forward", Gate: "rule"}), "", false),
			onRecord(record.Record{Method: "roots/list", Direction: "server_to_agent", Verdict: "forward", Gate: "rule"}),
			values(onRecord(record.Record{Method: "acme/do", Verdict: "deny", Gate: "rule", Rule: "unknown methods"}), `{"a":"hmac:00"}`, false),
		}, `looser x sampling/createMessage: ask (rule) to forward (defaults.asks (thoughtgate.yaml:4)), 1 from 6 to 6
looser x acme/do: deny (unknown methods) to forward ("*" (thoughtgate.yaml:11)), 1 from 9 to 9
tighter x resources/read file:///etc/x: forward (rule) to deny ("file:///etc/*" (thoughtgate.yaml:9)), 1 from 1 to 1
tighter x prompts/get rm: forward (rule) to deny ("rm*" (thoughtgate.yaml:6)), 1 from 2 to 2
tighter x subscriptions/listen: forward (rule) to deny ("file:///etc/*" (thoughtgate.yaml:9)), 1 from 3 to 3
tighter x completion/complete rm: forward (rule) to deny ("rm*" (thoughtgate.yaml:6)), 1 from 5 to 5
unknown x : was forward, the content of subscriptions/listen is not recorded, 1
unknown x : was forward, the content of elicitation/create is not recorded, 1
9: 1 same, 4 tighter, 2 looser, 2 unknown`},
		{"what is no call", []*rehearse.Recorded{
			onRecord(record.Record{Method: "tools/list", Direction: "server_to_agent", Verdict: "forward", Gate: "visible"}),
			onRecord(record.Record{Method: "tools/call", Direction: "server_to_agent", Verdict: "deny", Gate: "rule"}),
			onRecord(record.Record{Method: "sampling/createMessage", Verdict: "forward", Gate: "rule"}),
		}, "0: 0 same, 0 tighter, 0 looser, 0 unknown"},
		{"extensions", []*rehearse.Recorded{
			onRecord(record.Record{Tool: "ls", Verdict: "forward", Gate: "rule", Extensions: []string{"guard"}, Profile: "production"}),
			onRecord(record.Record{Tool: "ls", Verdict: "deny", Gate: "extension", Extensions: []string{"guard"}}),
			onRecord(record.Record{Tool: "ls", Verdict: "forward", Gate: "rule", Extensions: []string{"guard"}, Profile: "development", Would: "WOULD_REDACT"}),
		}, `unknown x ls: was deny, the gate extension decided, which a backtest does not run, 1
unknown x ls: was forward, extensions would have changed it, and the changed call was judged, 1
3: 1 same, 0 tighter, 0 looser, 2 unknown`},
		{"gates that are not tried", []*rehearse.Recorded{
			onRecord(record.Record{Tool: "ls", Verdict: "deny", Gate: "pin"}),
			onRecord(record.Record{Tool: "ls", Verdict: "deny", Gate: "rule", Rule: ".thoughtgate.yaml:4 of the repository"}),
			onRecord(record.Record{Tool: "rm", Verdict: "deny", Gate: "rule", Rule: ".thoughtgate.yaml:4 of the repository"}),
		}, `unknown x ls: was deny, the gate pin decided, which a backtest does not run, 1
unknown x ls: was deny, the repository's own file decided, and its content is not recorded, 1
3: 1 same, 0 tighter, 0 looser, 2 unknown`},
		{"what can't be read", []*rehearse.Recorded{
			onRecord(record.Record{Tool: "", Verdict: "deny", Gate: "accident"}),
			onRecord(record.Record{Method: "ping", Direction: "server_to_agent", Verdict: "deny", Gate: "accident"}),
		}, "unknown x : was deny, the subject of tools/call is missing, 1\n1: 0 same, 0 tighter, 0 looser, 1 unknown"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tried(t, p, tt.records...); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// The number of kinds of calls is bounded; the number of calls is not.
func TestBacktestIsBounded(t *testing.T) {
	p := set(t, "schema: 1\ngovernance: {defaults: {action: deny}}\n", "")
	b := rehearse.NewBacktest(p.Partly())
	for i := range 5000 {
		b.Add(t.Context(), onRecord(record.Record{Call: uint64(i + 1), Seq: uint64(i + 1), Tool: fmt.Sprint("t", i), Verdict: "forward", Gate: "rule"}))
	}
	if n := len(b.Flips()); n != 2000 || !b.More || b.Tighter != 5000 || b.First != noon {
		t.Errorf("%d kinds, more %v, summary %+v", n, b.More, b.Summary)
	}
}

func TestCommandOf(t *testing.T) {
	for _, command := range [][]string{{"a"}, {"/bin/x", "a b", `"q" \ ]`, "é\n", ""}, {}} {
		got := rehearse.CommandOf(&record.Record{Reason: fmt.Sprintf("%q", command)})
		if !slices.Equal(got, command) || got == nil {
			t.Errorf("got %q, want %q", got, command)
		}
	}
	for _, reason := range []string{"", "attached", "[", `["a"`, `["a" b]`, `["a"] more`} {
		if got := rehearse.CommandOf(&record.Record{Reason: reason}); got != nil {
			t.Errorf("%s: got %q", reason, got)
		}
	}
}

// noPerson is an approver that refuses to ask.
type noPerson struct{}

func (noPerson) Ask(context.Context, *gate.Question) (gate.Held, error) {
	return nil, errors.New("nobody is here")
}

const (
	oldRules = `schema: 1
governance:
  rules:
    - {match: "a*", action: deny}
    - {match: "b*", action: approve}
    - {when: secret, action: approve}
    - {match: "*", source: s2, action: policy}
`
	newRules = `schema: 1
governance:
  rules:
    - {match: "b*", action: deny}
    - {match: "a*", source: s1, action: approve}
    - {when: acts, action: deny}
    - {match: "*", source: s2, action: policy}
`
	newCedar = `@id("small") permit (principal, action in ThoughtGate::Action::"tools/call", resource) when { context.arguments has n && context.arguments.n < 5 };
@id("text") forbid (principal, action in ThoughtGate::Action::"tools/call", resource) when { context.arguments has text && context.arguments.text like "*x*" };
`
)

// For calls that a real gate judged and a real log stored, a backtest gives the candidate's own
// verdict, or says that it is unknown.
func TestBacktestIsTheCandidate(t *testing.T) {
	old, candidate := set(t, oldRules, `permit (principal, action, resource) when { context.arguments has n };`), set(t, newRules, newCedar)
	finder := facts.New(facts.Options{Home: "/home/u"})
	rapid.Check(t, func(rt *rapid.T) {
		log, err := audit.Open(t.TempDir(), audit.Options{Redact: facts.Redact})
		if err != nil {
			rt.Fatal(err)
		}
		defer log.Close()
		g := &gate.Gate{Policy: func() gate.Policy { return old }, Facts: finder, Approver: noPerson{}, Recorder: log, Logger: slog.New(slog.DiscardHandler)}
		b := rehearse.NewBacktest(candidate.Partly())
		want := map[string]int{}
		calls := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) [3]string {
			return [3]string{
				rapid.SampledFrom([]string{"s1", "s2"}).Draw(t, "server"),
				rapid.SampledFrom([]string{"alpha", "beta", "delete_it", "other"}).Draw(t, "tool"),
				rapid.SampledFrom([]string{"", `{}`, `{"n":1}`, `{"n":9}`, `{"text":"x"}`, `{"text":"y","n":1}`, `{"n":"z"}`,
					`{"password":"hunter2-correct-horse"}`, `{"n":1,"text":"ghp_A8fK2mQ9xL4vR7tY1wZ6cB3nD5hJ0sG8pE2u"}`}).Draw(t, "arguments"),
			}
		}), 1, 8).Draw(rt, "calls")
		for i, call := range calls {
			a := g.Attach(context.Background(), gate.Shim{Attachment: fmt.Sprint("attachment", i), Server: call[0]}, nil)
			params := map[string]any{"name": call[1]}
			if call[2] != "" {
				params["arguments"] = json.RawMessage(call[2])
			}
			raw, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
			if err != nil {
				rt.Fatal(err)
			}
			a.Submit(gate.Submission{Seq: 1, Side: wire.FromAgent, Line: raw})
			a.Close(true)
			c, err := g.Read(gate.Shim{Server: call[0]}, gate.Submission{Seq: 1, Side: wire.FromAgent, Line: raw})
			if err != nil {
				rt.Fatal(err)
			}
			c.Profile = gate.Production
			was, would := moveOf(old, c, finder), moveOf(candidate, c, finder)
			switch {
			case would > was:
				want["tighter"]++
			case would < was:
				want["looser"]++
			default:
				want["same"]++
			}
		}
		err = log.Read(context.Background(), audit.Query{Kind: record.KindCall}, func(_ uint64, line, values []byte) error {
			r, ok := rehearse.Parse(line)
			if !ok {
				return errors.New("a record that can't be read")
			}
			if !r.Whole {
				r.Values, r.Whole, r.Params = log.Kept(values)
			}
			b.Add(context.Background(), r)
			return nil
		})
		if err != nil {
			rt.Fatal(err)
		}
		s := b.Summary
		if int(s.Calls) != len(calls) || s.Same+s.Tighter+s.Looser+s.Unknown != s.Calls {
			rt.Fatalf("%d calls: %+v", len(calls), s)
		}
		missing := 0
		for word, got := range map[string]uint64{"same": s.Same, "tighter": s.Tighter, "looser": s.Looser} {
			if int(got) > want[word] {
				rt.Fatalf("%d %s, are %d: %s", got, word, want[word], told(b))
			}
			missing += want[word] - int(got)
		}
		if missing != int(s.Unknown) {
			rt.Fatalf("want %v: %s", want, told(b))
		}
		for _, u := range b.Unknowns() {
			if !strings.Contains(u.Kind.Because, "reads the arguments") {
				rt.Fatalf("unknown because %s", u.Kind.Because)
			}
		}
	})
}

// moveOf returns the strictness of the gates' verdict: from 0 for forward to 2 for deny.
func moveOf(p *policy.Set, c *gate.Call, f gate.Facts) int {
	r, err := p.Rule(context.Background(), c, f.Of(context.Background(), c))
	switch {
	case err != nil, r.Move == gate.Deny:
		return 2
	case r.Move == gate.Ask:
		return 1
	}
	return 0
}
