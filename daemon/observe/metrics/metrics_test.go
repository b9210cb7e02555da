package metrics

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

var update = flag.Bool("update", false, "write the table of docs/metrics.md anew")

// keeper is a recorder that stores nothing, and fails if it has an error.
type keeper struct{ err error }

func (k *keeper) Record(context.Context, *record.Record, []byte, []string) error { return k.err }

func someState() State {
	return State{
		Servers: []Server{{ID: "files", Started: true}, {ID: "files", Started: true}, {ID: "github"}, {ID: "db", Started: true}, {ID: "docs", Shared: true}},
		Kept:    []Kept{{"backend", "github", "running", 2}, {"backend", "github", "failed", 3}, {"extension", "scrubber\x1b", "running", 0}},

		Sessions: 2, Ungoverned: 1, Open: 3, Waiting: 4, HeldDefinitions: 5, WithheldStarts: 6,
		Set:   Set{Digest: "abc", Profile: "production", Rules: 7, Policies: 8, Since: time.Unix(1_700_000_000, 5e8), ReloadFailed: true},
		Audit: Audit{Bytes: 1000, Unindexed: 100, Failing: true, Synced: true, Unsynced: 9, Lag: 1500 * time.Millisecond},
	}
}

// parsed returns the metrics of m as Prometheus parses them.
func parsed(t *testing.T, m *Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	text, err := m.Text()
	if err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return families
}

// value returns the value of a metric with these labels; of a histogram, the number of
// observations; -1 if there is none.
func value(families map[string]*dto.MetricFamily, name string, labels ...string) float64 {
	for _, m := range families[name].GetMetric() {
		var got []string
		for _, l := range m.GetLabel() {
			got = append(got, l.GetName()+"="+l.GetValue())
		}
		slices.Sort(labels)
		if slices.Equal(got, labels) {
			return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return -1
}

func call(verdict, gate string) *record.Record {
	return &record.Record{
		Kind: record.KindCall, Server: "files", Direction: "agent_to_server", Method: "tools/call", Tool: "write_file",
		Verdict: verdict, Gate: gate, Profile: "production", LatencyUS: 40,
	}
}

func TestWhatRecordsTell(t *testing.T) {
	k := &keeper{}
	m := New("1.2.3", someState)
	r := m.Recorder(k)
	put := func(all ...*record.Record) {
		for _, one := range all {
			_ = r.Record(t.Context(), one, nil, nil) // the counts are checked below
		}
	}
	would := call("forward", "rule")
	would.Would, would.Profile = "WOULD_BLOCK", "development"
	hold := call("hold", "ask")
	hold.Approval = "A-1"
	after := call("forward", "ask")
	after.Approval = "A-1"
	put(call("forward", "rule"), call("deny", "permit"), would, hold, after,
		&record.Record{Kind: record.KindOutcome, Server: "files", Verdict: "tool_error"},
		&record.Record{Kind: record.KindOrphan, Server: "files", Direction: "agent_to_server", Method: "tools/call", Verdict: "unanswered"},
		&record.Record{Kind: record.KindDecision, Server: "files", Verdict: "approved", Surface: "terminal", LatencyUS: 7e6},
		&record.Record{Kind: record.KindDecision, Server: "files", Verdict: "rejected", Surface: "made up", LatencyUS: 7e6},
		&record.Record{Kind: record.KindDecision, Server: "files", Verdict: "expired"},
		&record.Record{Kind: record.KindReload, Verdict: "refused"},
		&record.Record{Kind: record.KindAttach, Verdict: "attached"},
		&record.Record{Kind: record.KindAttach, Verdict: "reattached"},
		&record.Record{Kind: record.KindDetach, Verdict: "lost"},
		&record.Record{Kind: record.KindDetach, Verdict: "left"},
		&record.Record{Kind: record.KindDenied, Verdict: "deny"})
	k.err = errors.New("the disk is full")
	put(call("forward", "rule"))
	s := m.Meter("files")
	s.Messages(wire.FromAgent, "tools/call", 3)
	s.Messages(wire.FromServer, "no such method", 2)
	s.Refused(wire.KindBatch)

	got := parsed(t, m)
	for _, want := range []struct {
		value  float64
		name   string
		labels []string
	}{
		{3, "thoughtgate_stdio_messages_total", []string{"server_id=files", "direction=agent_to_server", "method=tools/call"}},
		{2, "thoughtgate_stdio_messages_total", []string{"server_id=files", "direction=server_to_agent", "method=other"}},
		{2, "thoughtgate_stdio_governance_decisions_total", []string{"server_id=files", "decision=forward", "profile=production"}},
		{2, "thoughtgate_stdio_governance_decisions_total", []string{"server_id=files", "decision=deny", "profile=production"}},
		{1, "thoughtgate_stdio_governance_decisions_total", []string{"server_id=files", "decision=WOULD_BLOCK", "profile=development"}},
		{1, "thoughtgate_stdio_framing_errors_total", []string{"server_id=files", "error_type=batch"}},
		{2, "thoughtgate_stdio_server_state", []string{"server_id=files", "state=running"}},
		{1, "thoughtgate_stdio_server_state", []string{"server_id=github", "state=starting"}},
		{1, "thoughtgate_stdio_server_state", []string{"server_id=github", "state=running"}}, // shared
		{-1, "thoughtgate_stdio_server_state", []string{"server_id=github", "state=failed"}},
		{1, "thoughtgate_stdio_server_state", []string{"server_id=db", "state=running"}},
		{1, "thoughtgate_stdio_orphaned_requests_total", []string{"server_id=files", "direction=agent_to_server", "method=tools/call"}},
		{2, "thoughtgate_stdio_approval_latency_seconds", []string{"server_id=files"}},
		{3, "thoughtgate_stdio_active_servers", nil},
		{1, "thoughtgate_gate_verdicts_total", []string{"gate=accident", "verdict=deny"}},
		{1, "thoughtgate_gate_verdicts_total", []string{"gate=permit", "verdict=deny"}},
		{2, "thoughtgate_gate_verdicts_total", []string{"gate=rule", "verdict=forward"}},
		{1, "thoughtgate_gate_verdicts_total", []string{"gate=ask", "verdict=hold"}},
		{5, "thoughtgate_judge_duration_seconds", nil}, // without the one that waited for a person
		{2, "thoughtgate_tool_calls_total", []string{"server_id=files", "tool=write_file", "decision=forward"}},
		{1, "thoughtgate_call_outcomes_total", []string{"server_id=files", "outcome=tool_error"}},
		{1, "thoughtgate_policy_set_info", []string{"digest=abc", "profile=production"}},
		{1_700_000_000.5, "thoughtgate_policy_set_timestamp_seconds", nil},
		{7, "thoughtgate_policy_rules", nil},
		{8, "thoughtgate_policy_cedar_policies", nil},
		{1, "thoughtgate_policy_reloads_total", []string{"result=refused"}},
		{1, "thoughtgate_policy_reload_failed", nil},
		{3, "thoughtgate_approvals_open", nil},
		{4, "thoughtgate_approvals_waiting_calls", nil},
		{1, "thoughtgate_approvals_ended_total", []string{"state=approved", "surface=terminal"}},
		{1, "thoughtgate_approvals_ended_total", []string{"state=rejected", "surface=other"}},
		{1, "thoughtgate_approvals_ended_total", []string{"state=expired", "surface=none"}},
		{5, "thoughtgate_definitions_held", nil},
		{6, "thoughtgate_starts_withheld", nil},
		{16, "thoughtgate_audit_records_total", nil},
		{1, "thoughtgate_audit_errors_total", nil},
		{17, "thoughtgate_audit_write_duration_seconds", nil},
		{9, "thoughtgate_audit_unsynced_records", nil},
		{1.5, "thoughtgate_audit_lag_seconds", nil},
		{100, "thoughtgate_audit_unindexed_bytes", nil},
		{1000, "thoughtgate_audit_size_bytes", nil},
		{1, "thoughtgate_audit_failing", nil},
		{3, "thoughtgate_processes", []string{"kind=server", "state=running"}},
		{1, "thoughtgate_processes", []string{"kind=server", "state=starting"}},
		{1, "thoughtgate_processes", []string{"kind=backend", "state=running"}},
		{1, "thoughtgate_processes", []string{"kind=backend", "state=failed"}},
		{1, "thoughtgate_processes", []string{"kind=extension", "state=running"}},
		{5, "thoughtgate_process_restarts_total", []string{"kind=backend", "name=github"}},
		{0, "thoughtgate_process_restarts_total", []string{"kind=extension", `name=scrubber\u{1b}`}},
		{5, "thoughtgate_shims", nil},
		{2, "thoughtgate_sessions", nil},
		{1, "thoughtgate_ungoverned_servers", nil},
		{1, "thoughtgate_shim_reattachments_total", nil},
		{1, "thoughtgate_shims_lost_total", nil},
		{1, "thoughtgate_callers_refused_total", nil},
	} {
		if v := value(got, want.name, want.labels...); v != want.value {
			t.Errorf("%s%v is %v, want %v", want.name, want.labels, v, want.value)
		}
	}
	defined(t, got)
}

// defined checks that every metric is defined and collected with the right kind and labels, and
// that promlint reports nothing.
func defined(t *testing.T, got map[string]*dto.MetricFamily) {
	t.Helper()
	var ours []*dto.MetricFamily
	for _, d := range definitions {
		f := got[d.name]
		if f == nil {
			t.Errorf("%s is not told", d.name)
			continue
		}
		ours = append(ours, f)
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		if kind := strings.ToLower(f.GetType().String()); kind != d.kind || !slices.Equal(labels, slices.Sorted(slices.Values(d.labels))) {
			t.Errorf("%s is a %s with %v, want a %s with %v", d.name, kind, labels, d.kind, d.labels)
		}
	}
	for name := range got {
		if strings.HasPrefix(name, "thoughtgate_") && !slices.ContainsFunc(definitions, func(d definition) bool { return d.name == name }) {
			t.Errorf("%s is not defined", name)
		}
	}
	problems, err := promlint.NewWithMetricFamilies(ours).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v %v", problems, err)
	}
}

// Servers and agents choose their names freely.
func TestStrangersNamesAreBounded(t *testing.T) {
	m := New("dev", func() State {
		s := someState()
		for i := range 1000 {
			s.Servers = append(s.Servers, Server{ID: fmt.Sprint("stranger ", i)})
		}
		return s
	})
	r := m.Recorder(&keeper{})
	random := rand.New(rand.NewPCG(1, 2))
	odd := []string{"", "\xff\xfe", "a\nb", `q"u\o`, "\x1b[2J", "gnp\u202etxt", "{le=\"1\"}", "\u0085", strings.Repeat("x", 64<<10), strings.Repeat("\u202e", 40)}
	for i := range 10_000 {
		c := call([]string{"forward", "deny", "hold"}[i%3], "rule")
		c.Tool = fmt.Sprintf("%s%x", odd[i%len(odd)], random.Uint64())
		c.Server = fmt.Sprint("s", i%16)
		if i%2 == 0 {
			c.Server = fmt.Sprintf("%s%x", odd[i/2%len(odd)], random.Uint64())
		}
		if err := r.Record(t.Context(), c, nil, nil); err != nil {
			t.Fatal(err)
		}
		m.Meter(c.Server).Messages(wire.FromAgent, c.Tool, 1)
	}
	text, err := m.Text()
	if err != nil {
		t.Fatal(err)
	}
	if i := bytes.IndexFunc(text, func(c rune) bool { return c != '\n' && (!unicode.IsPrint(c) || c == unicode.ReplacementChar) }); i >= 0 {
		t.Errorf("an unescaped character: %q", text[i:min(i+40, len(text))])
	}
	got, counted := parsed(t, m), 0.0
	tools, servers := map[string]bool{}, map[string]bool{}
	for _, one := range got["thoughtgate_tool_calls_total"].GetMetric() {
		counted += one.GetCounter().GetValue()
		labels := map[string]string{}
		for _, l := range one.GetLabel() {
			labels[l.GetName()] = l.GetValue()
			if len(l.GetValue()) > longestName {
				t.Errorf("%s is %d bytes long", l.GetName(), len(l.GetValue()))
			}
		}
		servers[labels["server_id"]] = true
		tools[labels["server_id"]+"/"+labels["tool"]] = true
	}
	if counted != 10_000 {
		t.Errorf("%v calls were counted, want 10000", counted)
	}
	if len(servers) > mostServers+1 || len(servers) < mostServers/2 {
		t.Errorf("%d servers are told apart, want at most %d", len(servers), mostServers)
	}
	if most := mostTools + 2*(mostServers+1); len(tools) > most || len(tools) < mostTools/2 {
		t.Errorf("%d tools are told apart, want at most %d", len(tools), most)
	}
	if len(m.tools.shown) > mostTools || len(m.servers.shown) > mostServers {
		t.Errorf("%d tools and %d servers are kept", len(m.tools.shown), len(m.servers.shown))
	}
	for _, family := range []string{"thoughtgate_stdio_messages_total", "thoughtgate_stdio_server_state"} {
		if n := len(got[family].GetMetric()); n > mostServers+1+3 {
			t.Errorf("%s has %d series", family, n)
		}
	}
	if len(text) > 1<<20 {
		t.Errorf("%d bytes of text", len(text))
	}
}

// One server that lists endlessly leaves labels for the tools of others.
func TestOneServerLeavesRoom(t *testing.T) {
	n := newNames(mostToolsPerServer, mostTools)
	for i := range 10_000 {
		n.of("greedy", fmt.Sprint(i))
	}
	if got := n.of("greedy", "one more"); got != other {
		t.Errorf("one more is %q, want %q", got, other)
	}
	if got := n.of("files", "read_file"); got != "read_file" {
		t.Errorf("a tool of another server is %q", got)
	}
}

// Counting is part of each call.
func TestCountingAllocatesNothing(t *testing.T) {
	m := New("dev", someState)
	r, s := m.Recorder(&keeper{}), m.Meter("files")
	one := call("forward", "rule")
	outcome := &record.Record{Kind: record.KindOutcome, Server: "files", Verdict: "ok"}
	n := testing.AllocsPerRun(1000, func() {
		_ = r.Record(context.Background(), one, nil, nil)     // does not fail
		_ = r.Record(context.Background(), outcome, nil, nil) // does not fail
		s.Messages(wire.FromAgent, "tools/call", 1)
	})
	if n > 0 {
		t.Errorf("%v allocations for a call", n)
	}
}

func BenchmarkCall(b *testing.B) {
	m := New("dev", someState)
	r, one := m.Recorder(&keeper{}), call("forward", "rule")
	b.ReportAllocs()
	for b.Loop() {
		_ = r.Record(context.Background(), one, nil, nil) // does not fail
	}
}

func TestSamples(t *testing.T) {
	m := New("dev", someState)
	_ = m.Recorder(&keeper{}).Record(t.Context(), call("deny", "rule"), nil, nil) // does not fail
	samples, err := m.Samples()
	if err != nil {
		t.Fatal(err)
	}
	find := func(name string) Sample {
		i := slices.IndexFunc(samples, func(s Sample) bool { return s.Name == name })
		if i < 0 {
			t.Fatalf("no sample of %s", name)
		}
		return samples[i]
	}
	if s := find("thoughtgate_gate_verdicts_total"); s.Kind != "counter" || s.Value != 1 || !slices.Equal(s.Labels, []Label{{"gate", "rule"}, {"verdict", "deny"}}) {
		t.Errorf("got %+v", s)
	}
	if s := find("thoughtgate_judge_duration_seconds"); s.Kind != "histogram" || s.Count != 1 || len(s.Buckets) != len(quick) || s.Buckets[len(quick)-1].Value != 1 {
		t.Errorf("got %+v", s)
	}
	find("process_start_time_seconds")
	find("go_goroutines")
}

// The page is generated from the definitions, between two marks.
func TestPage(t *testing.T) {
	const page, begin, end = "../../../docs/metrics.md", "<!-- metrics: begin -->\n", "<!-- metrics: end -->\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no marks %q and %q", page, begin, end)
	}
	var b strings.Builder
	b.WriteString("| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, d := range definitions {
		labels := "`" + strings.Join(d.labels, "`, `") + "`"
		if len(d.labels) == 0 {
			labels = ""
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", d.name, d.kind, labels, d.help)
	}
	want := head + begin + b.String() + end + tail
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(text) != want {
		t.Errorf("%s is not what the definitions say; run this test with -update", page)
	}
	for _, kind := range wire.Kinds() {
		if !strings.Contains(want, "`"+kind+"`") {
			t.Errorf("%s does not name the error_type %s", page, kind)
		}
	}
	for _, limit := range []int{mostServers, mostTools, mostToolsPerServer, longestName} {
		if !strings.Contains(want, fmt.Sprintf(" %d ", limit)) {
			t.Errorf("%s does not name the limit %d", page, limit)
		}
	}
}
