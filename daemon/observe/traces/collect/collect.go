// Package collect is a small OpenTelemetry collector for tests: it receives traces over OTLP (HTTP,
// protobuf) and keeps them.
package collect

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	pb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is a received span.
type Span struct {
	Trace, ID, Parent string // hexadecimal; Parent is empty for a root span
	State             string // tracestate
	Name              string
	Kind              string // server, client, internal
	Error             string // empty if the status is not an error
	Attributes        map[string]string
	Resource          map[string]string
	Start, End        time.Time
}

// Collector is a running collector. Its methods are safe for concurrent use.
type Collector struct {
	*httptest.Server

	mu      sync.Mutex // guards the fields below
	spans   []Span
	headers http.Header // of the last request
	faults  []error
	came    chan struct{} // closed when more spans have arrived
}

// Start starts a collector, which the caller must close. first, if not nil, gets each request
// first; if it returns true, the request is done.
func Start(first func(http.ResponseWriter, *http.Request) bool) *Collector {
	c := &Collector{came: make(chan struct{})}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if first != nil && first(w, r) {
			return
		}
		if err := c.take(r); err != nil {
			c.mu.Lock()
			c.faults = append(c.faults, err)
			c.mu.Unlock()
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	}))
	return c
}

func (c *Collector) take(r *http.Request) error {
	if r.Method != http.MethodPost || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		return fmt.Errorf("%s %s with %s is not an export of traces", r.Method, r.URL.Path, r.Header.Get("Content-Type"))
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	var data pb.TracesData
	if err := proto.Unmarshal(body, &data); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.headers = r.Header.Clone()
	for _, rs := range data.GetResourceSpans() {
		for _, ss := range rs.GetScopeSpans() {
			for _, s := range ss.GetSpans() {
				c.spans = append(c.spans, span(s, rs.GetResource().GetAttributes()))
			}
		}
	}
	close(c.came)
	c.came = make(chan struct{})
	return nil
}

func span(s *pb.Span, resource []*common.KeyValue) Span {
	out := Span{
		Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId()),
		State: s.GetTraceState(), Name: s.GetName(), Kind: strings.ToLower(strings.TrimPrefix(s.GetKind().String(), "SPAN_KIND_")),
		Attributes: texts(s.GetAttributes()), Resource: texts(resource),
		Start: time.Unix(0, int64(s.GetStartTimeUnixNano())), End: time.Unix(0, int64(s.GetEndTimeUnixNano())),
	}
	if s.GetStatus().GetCode() == pb.Status_STATUS_CODE_ERROR {
		out.Error = s.GetStatus().GetMessage()
	}
	return out
}

func texts(attrs []*common.KeyValue) map[string]string {
	m := map[string]string{}
	for _, a := range attrs {
		m[a.GetKey()] = a.GetValue().GetStringValue()
		for _, v := range a.GetValue().GetArrayValue().GetValues() {
			m[a.GetKey()] += v.GetStringValue() + ";"
		}
	}
	return m
}

// Spans returns the spans received so far.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Headers returns the headers of the last request.
func (c *Collector) Headers() http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.headers
}

// Faults returns the errors of invalid requests.
func (c *Collector) Faults() []error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.faults)
}

// Wait returns the spans once there are n calls among them, counted by the spans of kind server. It
// returns false if they don't arrive within most.
func (c *Collector) Wait(n int, most time.Duration) ([]Span, bool) {
	late := time.After(most)
	for {
		c.mu.Lock()
		spans, came := slices.Clone(c.spans), c.came
		c.mu.Unlock()
		calls := 0
		for _, s := range spans {
			if s.Kind == "server" {
				calls++
			}
		}
		if calls >= n {
			return spans, true
		}
		select {
		case <-came:
		case <-late:
			return spans, false
		}
	}
}

// Tree draws the spans of a trace, each below its parent, by name, kind and error. Spans whose
// parent is missing are at the left, in the order of their start.
func Tree(spans []Span) string {
	spans = slices.Clone(spans)
	slices.SortStableFunc(spans, func(a, b Span) int { return a.Start.Compare(b.Start) })
	var b strings.Builder
	var draw func(parent string, depth int)
	draw = func(parent string, depth int) {
		for _, s := range spans {
			known := slices.ContainsFunc(spans, func(o Span) bool { return o.ID == s.Parent && o.Trace == s.Trace })
			if depth == 0 && known || depth > 0 && s.Parent != parent {
				continue
			}
			fmt.Fprintf(&b, "%s%s (%s)", strings.Repeat("  ", depth), s.Name, s.Kind)
			if s.Error != "" {
				fmt.Fprintf(&b, " error: %s", s.Error)
			}
			b.WriteByte('\n')
			draw(s.ID, depth+1)
		}
	}
	draw("", 0)
	return b.String()
}
