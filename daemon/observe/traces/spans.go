package traces

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0" // the last version that has MCP; see docs/metrics.md
	"go.opentelemetry.io/otel/trace"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/display"
)

// stageNames are the names of internal spans. A call's span is named after its method and tool.
var stageNames = map[gate.Stage]string{
	gate.StageGate: "thoughtgate.gate", gate.StageCedar: "thoughtgate.cedar", gate.StageAsk: "thoughtgate.approval", gate.StageHooks: "thoughtgate.extensions",
}

// mostText is the limit of each text in a span, in bytes.
const mostText = 128

// place is where a trace belongs: its trace id and parent span.
type place struct {
	trace  trace.TraceID
	parent trace.SpanContext // the agent's span; invalid if it named none
}

// placeOf returns the trace that the agent named for the call. If it named none, the trace id is
// derived from the call, so that the spans of two daemons for one call are in one trace. That
// happens if the first daemon is stopped before the call ends.
func placeOf(t *gate.Trace) place {
	carrier := propagation.MapCarrier{"traceparent": t.Parent, "tracestate": t.State}
	ctx := propagation.TraceContext{}.Extract(context.Background(), carrier)
	parent := trace.SpanContextFromContext(ctx)
	if parent.IsValid() {
		return place{parent.TraceID(), parent}
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "thoughtgate trace %q %d", t.Attachment, t.Seq))
	return place{trace: trace.TraceID(sum[:16])}
}

// spanMaker makes spans of finished traces.
type spanMaker struct {
	redact   func(string) string // nil: no secrets are redacted
	resource *resource.Resource
	scope    instrumentation.Scope
}

func newSpanMaker(about map[string]string, build string, redact func(string) string) *spanMaker {
	all := map[string]string{"service.name": "thoughtgated", "service.version": build}
	for key, value := range about {
		all[key] = value
	}
	var attrs []attribute.KeyValue
	for key, value := range all {
		attrs = append(attrs, attribute.String(key, value))
	}
	return &spanMaker{
		redact:   redact,
		resource: resource.NewWithAttributes(semconv.SchemaURL, attrs...),
		scope:    instrumentation.Scope{Name: "github.com/thoughtgate/thoughtgated", Version: build, SchemaURL: semconv.SchemaURL},
	}
}

// all returns the spans of a batch.
func (m *spanMaker) all(batch []ended) []sdk.ReadOnlySpan {
	var spans []sdk.ReadOnlySpan
	for _, e := range batch {
		spans = append(spans, m.of(e)...)
	}
	return spans
}

// of returns the spans of a trace: that of the call, and one for each part of it. They are made
// after the fact from recorded times, for which the SDK has a stub.
func (m *spanMaker) of(e ended) []sdk.ReadOnlySpan {
	t := e.trace
	call := tracetest.SpanStub{
		Name: m.nameOf(t), SpanKind: trace.SpanKindServer, SpanContext: e.at.next(), Parent: e.at.parent,
		StartTime: t.Start, EndTime: t.End, Attributes: m.about(t), Status: statusOf(t),
	}
	if kind := errorOf(t); kind != "" {
		call.Attributes = append(call.Attributes, semconv.ErrorTypeKey.String(kind))
	}
	stubs := []tracetest.SpanStub{call}
	for _, p := range t.Parts {
		above := call.SpanContext
		if p.Within >= 0 {
			above = stubs[p.Within+1].SpanContext
		}
		stubs = append(stubs, m.part(e, p, above))
	}
	var spans []sdk.ReadOnlySpan
	for _, s := range stubs {
		s.Resource, s.InstrumentationScope = m.resource, m.scope
		spans = append(spans, s.Snapshot())
	}
	return spans
}

func (m *spanMaker) part(e ended, p gate.Part, above trace.SpanContext) tracetest.SpanStub {
	t := e.trace
	s := tracetest.SpanStub{
		Name: stageNames[p.Stage], SpanKind: trace.SpanKindInternal, SpanContext: e.at.next(), Parent: above,
		StartTime: p.Start, EndTime: slices.MaxFunc([]time.Time{p.End, p.Start}, time.Time.Compare),
	}
	switch p.Stage {
	case gate.StageServer:
		s.Name, s.SpanKind = m.nameOf(t), trace.SpanKindClient
		s.Attributes = append(m.protocol(t), semconv.NetworkTransportPipe)
		if kind := errorOf(t); kind != "" && kind != gate.OutcomeDenied { // a call that is judged again may end as denied
			s.Status = statusOf(t)
			s.Attributes = append(s.Attributes, semconv.ErrorTypeKey.String(kind))
		}
	case gate.StageAsk:
		s.Attributes = m.texts(nil, "thoughtgate.approval.id", t.Approval, "thoughtgate.approval.state", t.Answer)
	}
	return s
}

// next returns the context of a new span in the trace.
func (p place) next() trace.SpanContext {
	var id trace.SpanID
	for !id.IsValid() {
		rand.Read(id[:]) // never fails
	}
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: p.trace, SpanID: id, TraceFlags: trace.FlagsSampled, TraceState: p.parent.TraceState(),
	})
}

func (m *spanMaker) nameOf(t *gate.Trace) string {
	name := m.text(t.Method)
	if t.Target != "" {
		name += " " + m.text(t.Target)
	}
	return name
}

// protocol returns the attributes of the MCP conventions.
func (m *spanMaker) protocol(t *gate.Trace) []attribute.KeyValue {
	attrs := m.texts(nil, string(semconv.McpMethodNameKey), t.Method, string(semconv.JSONRPCRequestIDKey), strings.Trim(t.MessageID, `"`))
	switch t.Method {
	case "tools/call":
		attrs = append(m.texts(attrs, string(semconv.GenAIToolNameKey), t.Target), semconv.GenAIOperationNameExecuteTool)
	case "prompts/get":
		attrs = m.texts(attrs, string(semconv.GenAIPromptNameKey), t.Target)
	}
	return attrs
}

// about returns the attributes of a call.
func (m *spanMaker) about(t *gate.Trace) []attribute.KeyValue {
	attrs := m.texts(append(m.protocol(t), semconv.NetworkTransportPipe),
		"thoughtgate.call", t.ID, "thoughtgate.session", t.Session, "thoughtgate.agent", t.Agent, "thoughtgate.server", t.Server,
		"thoughtgate.direction", gate.Direction(t.Side), "thoughtgate.verdict", t.Verdict, "thoughtgate.gate", t.Gate,
		"thoughtgate.rule", t.Rule, "thoughtgate.profile", t.Profile, "thoughtgate.would", t.Would, "thoughtgate.outcome", t.Outcome)
	return m.list(m.list(attrs, "thoughtgate.policies", t.Policies), "thoughtgate.extensions", t.Extensions)
}

// list adds an attribute with the first texts of all, unless all is empty.
func (m *spanMaker) list(attrs []attribute.KeyValue, name string, all []string) []attribute.KeyValue {
	if len(all) == 0 {
		return attrs
	}
	some := slices.Clone(all[:min(len(all), 16)])
	for i := range some {
		some[i] = m.text(some[i])
	}
	return append(attrs, attribute.StringSlice(name, some))
}

// texts adds the attributes in pairs of name and value that have a value.
func (m *spanMaker) texts(attrs []attribute.KeyValue, pairs ...string) []attribute.KeyValue {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			attrs = append(attrs, attribute.String(pairs[i], m.text(pairs[i+1])))
		}
	}
	return attrs
}

// errorOf returns the error.type of a trace, or "".
func errorOf(t *gate.Trace) string {
	switch t.Outcome {
	case "tool_error", "protocol_error", "not_written", gate.OutcomeDenied, gate.OutcomeLost, gate.OutcomeWithheld:
		return t.Outcome
	}
	return ""
}

func statusOf(t *gate.Trace) sdk.Status {
	if kind := errorOf(t); kind != "" {
		return sdk.Status{Code: codes.Error, Description: kind}
	}
	return sdk.Status{}
}

// text returns s as it may leave this machine: without secrets, escaped, and at most mostText bytes
// long.
func (m *spanMaker) text(s string) string {
	if m.redact != nil {
		s = m.redact(s)
	}
	return bounded(string(display.Name(s)), mostText)
}

// bounded cuts s to most bytes, at a character boundary.
func bounded(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}
