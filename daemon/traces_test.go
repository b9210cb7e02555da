package daemon_test

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/observe/traces"
	"github.com/thoughtgate/thoughtgated/daemon/observe/traces/collect"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// tracedRules sends traces to an endpoint, and uses Cedar for tools that read.
const tracedRules = `schema: 1
governance:
  defaults: {action: forward, asks: approve}
  rules:
    - {match: "delete_*", action: deny}
    - {match: "send_*", action: approve}
    - {match: "read_*", action: policy, policy_id: p}
cedar: {policies: [p.cedar]}
telemetry:
  enabled: true
  otlp: {endpoint: "%s", header_files: {Authorization: token}}
  sampling: {success_sample_rate: %v}
  resource: {deployment.environment.name: test}
`

const (
	agentTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	agentSpan  = "00f067aa0ba902b7"
	// The agent's trace context, with its own formatting.
	agentMeta = `{ "traceparent" : "00-` + agentTrace + `-` + agentSpan + `-01", "tracestate":"v=1\u002c w=2", "baggage":"k=v"}`
)

func tracedHome(t *testing.T, rate any) (*home, *collect.Collector) {
	t.Helper()
	c := collect.Start(nil)
	t.Cleanup(func() {
		c.Close()
		if faults := c.Faults(); len(faults) > 0 {
			t.Errorf("the collector refused: %v", faults)
		}
	})
	h := newHome(t, fmt.Sprintf(tracedRules, c.URL, rate))
	h.writeBeside(t, "p.cedar", `permit (principal, action, resource);`)
	h.writeBeside(t, "token", "Bearer t0p\n")
	return h, c
}

// traced makes the agent call a tool with this _meta. A forwarded call is unchanged byte for byte.
func (p *played) traced(tool, meta string) fate {
	p.t.Helper()
	return p.request(fmt.Sprintf(`"method":"tools/call","params":{"name":%q,"arguments":{"text":"s3cret"},"_meta":%s}`, tool, meta))
}

// Each call is one trace below the agent's span, with everything that happened to it, and without
// its arguments.
func TestTraces(t *testing.T) {
	for _, test := range []struct {
		name, tool string
		answer     string // of the server
		tree       string
		attributes map[string]string // of the call, in part
	}{
		{"forward", "read_file", done,
			"tools/call read_file (server)\n  thoughtgate.gate (internal)\n    thoughtgate.cedar (internal)\n  tools/call read_file (client)\n",
			map[string]string{"mcp.method.name": "tools/call", "gen_ai.tool.name": "read_file", "gen_ai.operation.name": "execute_tool",
				"network.transport": "pipe", "jsonrpc.request.id": "1", "thoughtgate.verdict": "forward", "thoughtgate.gate": "permit",
				"thoughtgate.outcome": "ok", "thoughtgate.server": "files", "error.type": ""}},
		{"deny", "delete_file", "",
			"tools/call delete_file (server) error: denied\n  thoughtgate.gate (internal)\n",
			map[string]string{"thoughtgate.verdict": "deny", "thoughtgate.gate": "rule", "thoughtgate.outcome": "denied", "error.type": "denied"}},
		{"held and taken back", "send_mail", "",
			"tools/call send_mail (server)\n  thoughtgate.gate (internal)\n    thoughtgate.cedar (internal)\n  thoughtgate.approval (internal)\n",
			map[string]string{"thoughtgate.outcome": "cancelled", "error.type": ""}},
		{"tool error", "read_file", failed,
			"tools/call read_file (server) error: tool_error\n  thoughtgate.gate (internal)\n    thoughtgate.cedar (internal)\n  tools/call read_file (client) error: tool_error\n",
			map[string]string{"thoughtgate.verdict": "forward", "error.type": "tool_error"}},
		{"protocol error", "other", broken,
			"tools/call other (server) error: protocol_error\n  thoughtgate.gate (internal)\n    thoughtgate.cedar (internal)\n  tools/call other (client) error: protocol_error\n", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			h, collector := tracedHome(t, 1)
			h.start(t)
			a := h.attach(t)
			if f := a.traced(test.tool, agentMeta); f.verdict == "ask" {
				a.takeBack()
			}
			if test.answer != "" {
				a.answer(test.answer)
			}
			spans, ok := collector.Wait(1, time.Minute)
			if got := collect.Tree(spans); !ok || got != test.tree {
				t.Fatalf("got\n%swant\n%s", got, test.tree)
			}
			inTheAgentsTrace(t, spans)
			for name, want := range test.attributes {
				if got := spans[0].Attributes[name]; got != want {
					t.Errorf("%s: got %q, want %q", name, got, want)
				}
			}
			if got := collector.Headers().Get("Authorization"); got != "Bearer t0p" {
				t.Errorf("Authorization: got %q", got)
			}
		})
	}
}

// inTheAgentsTrace checks that the spans of one call are in the agent's trace, do not contain the
// arguments, and are in order.
func inTheAgentsTrace(t *testing.T, spans []collect.Span) {
	t.Helper()
	if spans[0].Parent != agentSpan {
		t.Errorf("the call's parent: got %s", spans[0].Parent)
	}
	for _, s := range spans {
		if s.Trace != agentTrace || s.State != "v=1,w=2" {
			t.Errorf("%s: trace %s, state %q", s.Name, s.Trace, s.State)
		}
		if s.End.Before(s.Start) || s.Start.Before(spans[0].Start) || s.End.After(spans[0].End) {
			t.Errorf("%s: from %v to %v, and the call from %v to %v", s.Name, s.Start, s.End, spans[0].Start, spans[0].End)
		}
		if s.Resource["service.name"] != "thoughtgated" || s.Resource["deployment.environment.name"] != "test" {
			t.Errorf("resource: %v", s.Resource)
		}
		for _, text := range append(slices.Collect(maps.Values(s.Attributes)), s.Name) {
			if strings.Contains(text, "s3cret") || strings.Contains(text, "t0p") {
				t.Errorf("%s: %q", s.Name, text)
			}
		}
	}
}

// tracedWorld returns a world that sends its traces, with calls that have this _meta.
func tracedWorld(t *testing.T, meta string) (*world, *collect.Collector) {
	t.Helper()
	collector := collect.Start(nil)
	t.Cleanup(collector.Close)
	w, err := newWorld(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sent := traces.New(slog.New(slog.DiscardHandler), "test", func(string) string { return "" }, nil)
	t.Cleanup(func() {
		sent.Close()
		if err := w.close(); err != nil {
			t.Error(err)
		}
	})
	cfg, ds := config.Parse("t.yaml", fmt.Appendf(nil, "schema: 1\ntelemetry: {enabled: true, otlp: {endpoint: %q}, resource: {deployment.environment.name: test}}\n", collector.URL), nil)
	if cfg == nil {
		t.Fatal(ds)
	}
	sent.Set(cfg)
	w.gate.Tracer = sent
	w.line = strings.Replace(w.line, voidMeta, meta, 1)
	return w, collector
}

// The trace of an approved call has the person's time, and the gates before and after it.
func TestTraceOfAnApproval(t *testing.T) {
	w, collector := tracedWorld(t, agentMeta)
	a, verdicts := w.attach(nil)
	defer a.Close(true)
	w.submit(a, 1)
	if v := <-verdicts; v.Move != gate.Ask {
		t.Fatalf("got %v", v)
	}
	if err := w.decide(true); err != nil {
		t.Fatal(err)
	}
	if v := <-verdicts; v.Move != gate.Forward || string(v.Line) != w.line || v.Replaced {
		t.Errorf("what goes on is not what came: %v", v)
	}
	a.RecordOutcome(t.Context(), 1, "ok")
	spans, _ := collector.Wait(1, time.Minute)
	const want = "tools/call write_note (server)\n  thoughtgate.gate (internal)\n    thoughtgate.cedar (internal)\n  thoughtgate.approval (internal)\n" +
		"  thoughtgate.gate (internal)\n    thoughtgate.cedar (internal)\n  tools/call write_note (client)\n"
	if got := collect.Tree(spans); got != want {
		t.Fatalf("got\n%swant\n%s", got, want)
	}
	inTheAgentsTrace(t, spans)
	for _, s := range spans {
		if s.Name == "thoughtgate.approval" && (s.Attributes["thoughtgate.approval.id"] != "A-1" || s.Attributes["thoughtgate.approval.state"] != "approved") {
			t.Errorf("the approval: %v", s.Attributes)
		}
	}
	if got := spans[0].Attributes; got["thoughtgate.gate"] != "ask" || got["thoughtgate.policies"] != "writes;" || got["thoughtgate.outcome"] != "ok" {
		t.Errorf("the call: %v", got)
	}
}

// Traces of failures are always sent. The others are sampled as configured; a trace that the agent
// does not sample is not sent.
func TestTracesAreSampled(t *testing.T) {
	h, collector := tracedHome(t, 0)
	d, _ := h.start(t)
	a := h.attach(t)
	for _, answer := range []string{done, failed} {
		a.traced("other", agentMeta)
		a.answer(answer)
	}
	a.traced("other", agentMeta)
	a.takeBack()
	a.next(a.toServer) // the server is notified
	a.traced("delete_file", agentMeta)
	lost := h.attach(t)
	lost.traced("other", agentMeta)
	lost.close()
	spans, _ := collector.Wait(3, time.Minute)
	if got, want := outcomes(spans), "denied lost tool_error"; got != want {
		t.Errorf("with a rate of 0 %q were sent, want %q", got, want)
	}

	h.write(t, fmt.Sprintf(tracedRules, collector.URL, 1))
	d.Reload(t.Context(), "test")
	unsampled := strings.Replace(agentMeta, `-01"`, `-00"`, 1)
	for _, answer := range []string{done, broken} {
		a.traced("other", unsampled)
		a.answer(answer)
	}
	a.traced("other", agentMeta)
	a.answer(done)
	spans, _ = collector.Wait(5, time.Minute)
	if got, want := outcomes(spans), "denied lost ok protocol_error tool_error"; got != want {
		t.Errorf("after the reload %q were sent, want %q", got, want)
	}
}

// outcomes lists the outcomes of calls.
func outcomes(spans []collect.Span) string {
	var all []string
	for _, s := range spans {
		if s.Kind == "server" {
			all = append(all, s.Attributes["thoughtgate.outcome"])
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// A name made up by an agent may contain a secret.
func TestTracesKeepSecretsOutOfNames(t *testing.T) {
	h, collector := tracedHome(t, 1)
	h.start(t)
	secret := "ghp_" + strings.Repeat("aB3dE5gH7j", 4)[:36]
	h.attach(t).traced("delete_"+secret, agentMeta)
	spans, _ := collector.Wait(1, time.Minute)
	if got := fmt.Sprint(spans); !strings.Contains(got, "delete_") || strings.Contains(got, secret) {
		t.Errorf("got %s", got)
	}
}

// A call that is held while the daemon is replaced has a span of each daemon, in one trace, even if
// the agent named none.
func TestTracesOverARestart(t *testing.T) {
	w, collector := tracedWorld(t, `{}`)
	held := func(earlier map[uint64]record.Record) *gate.Attachment {
		t.Helper()
		a, verdicts := w.attach(earlier)
		w.submit(a, 1)
		if v := <-verdicts; v.Move != gate.Ask {
			t.Fatalf("got %v", v)
		}
		return a
	}
	held(nil).Close(false)
	spans, _ := collector.Wait(1, time.Minute)
	if got, want := collect.Tree(spans), "tools/call write_note (server)\n  thoughtgate.gate (internal)\n    thoughtgate.cedar (internal)\n  thoughtgate.approval (internal)\n"; got != want {
		t.Errorf("of the first daemon: got\n%swant\n%s", got, want)
	}
	if err := w.restart(); err != nil {
		t.Fatal(err)
	}
	a := held(w.earlier())
	defer a.Close(true)
	a.Cancel(1)
	spans, _ = collector.Wait(2, time.Minute)
	if got, want := outcomes(spans), "cancelled interrupted"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, s := range spans {
		if s.Trace != spans[0].Trace {
			t.Errorf("%s: trace %s and %s", s.Name, s.Trace, spans[0].Trace)
		}
	}
}

// A header that can't be read is reported, and a reload fixes it.
func TestTracesWithoutTheirHeader(t *testing.T) {
	h, collector := tracedHome(t, 1)
	token := filepath.Join(filepath.Dir(h.config), "token")
	if err := os.Chmod(token, 0o644); err != nil {
		t.Fatal(err)
	}
	d, _ := h.start(t)
	control, a := h.control(t), h.attach(t)
	st, err := control.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if all := strings.Join(st.GetWarnings(), "\n"); !strings.Contains(all, "read the header Authorization: ") || strings.Contains(all, "t0p") {
		t.Errorf("warnings: %q", all)
	}
	a.traced("delete_file", agentMeta)
	if err := os.Chmod(token, 0o600); err != nil {
		t.Fatal(err)
	}
	d.Reload(t.Context(), "test")
	a.traced("delete_file", agentMeta)
	spans, _ := collector.Wait(1, time.Minute)
	if len(spans) == 0 || spans[0].Attributes["jsonrpc.request.id"] != "2" {
		t.Errorf("got %v", spans)
	}
}
