package traces

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/observe/traces/collect"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

func configured(t *testing.T, otlp string) *config.Config {
	t.Helper()
	cfg, ds := config.Parse("/c/thoughtgate.yaml", []byte("schema: 1\ntelemetry: {enabled: true, otlp: "+otlp+"}\n"), func(string) string { return "" })
	if config.HasErrors(ds) {
		t.Fatal(ds)
	}
	return cfg
}

func to(url string) string { return fmt.Sprintf("{endpoint: %q}", url) }

func newTraces(t *testing.T) (*Traces, *rig.Buffer) {
	l := &rig.Buffer{}
	s := New(slog.New(slog.NewTextHandler(l, nil)), "test", func(string) string { return "" }, nil)
	t.Cleanup(s.Close)
	return s, l
}

func denied(seq uint64) *gate.Trace {
	now := time.Now()
	return &gate.Trace{Attachment: "a", Seq: seq, Method: "tools/call", Target: "rm", Start: now, End: now, Outcome: gate.OutcomeDenied}
}

// eventually waits until f returns true.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !f(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%s: not within a minute", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// Without traces there is no goroutine, and a call costs no allocation.
func TestOffIsFree(t *testing.T) {
	before := runtime.NumGoroutine()
	s, _ := newTraces(t)
	s.Set(&config.Config{})
	if n := testing.AllocsPerRun(100, func() {
		if s.Tracing() {
			t.Error("traces are on")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if now := runtime.NumGoroutine(); now > before {
		t.Errorf("%d goroutines, before %d", now, before)
	}

	c := collect.Start(nil)
	s.Set(configured(t, to(c.URL)))
	s.Traced(denied(1))
	if _, ok := c.Wait(1, time.Minute); !ok {
		t.Error("nothing has come")
	}
	s.Set(&config.Config{}) // a reload turns them off
	c.Close()
	eventually(t, "what ran for traces has ended", func() bool { return runtime.NumGoroutine() <= before })
	s.Traced(denied(2))
	if s.Tracing() {
		t.Error("traces are still on")
	}
}

// A collector that accepts requests and does not answer delays neither calls nor, for long, Close.
// Lost traces are counted.
func TestCollectorHangs(t *testing.T) {
	let, asked := make(chan struct{}), make(chan struct{}, 16)
	c := collect.Start(func(http.ResponseWriter, *http.Request) bool {
		asked <- struct{}{}
		<-let
		return true
	})
	defer c.Close()
	defer close(let)
	s, log := newTraces(t)
	s.Set(configured(t, to(c.URL)))
	s.Traced(denied(0))
	select {
	case <-asked:
	case <-time.After(time.Minute):
		t.Fatal("the collector is asked nothing")
	}
	began := time.Now()
	const many = 50_000
	for i := range uint64(many) {
		s.Traced(denied(i))
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("%d calls took %v", many, took)
	}
	var lost *missing
	if err := s.Failure(); !errors.As(err, &lost) || lost.n < many-2*mostWaiting {
		t.Errorf("failure: got %v", err)
	}
	ended := make(chan struct{})
	go func() { s.Close(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(time.Minute): // it would be more for all that waits
		t.Fatal("the end waits for the collector")
	}
	if !strings.Contains(log.String(), "traces can't be sent") {
		t.Errorf("log: %s", log)
	}
}

// Failures are logged once, and so is their end, without secrets.
func TestCollectorFails(t *testing.T) {
	var mu sync.Mutex
	failing := true
	c := collect.Start(func(w http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		if failing {
			http.Error(w, "what is "+r.Header.Get("Authorization")+"?\x1b[2J", http.StatusForbidden)
		}
		return failing
	})
	defer c.Close()
	s, log := newTraces(t)
	s.Set(configured(t, fmt.Sprintf("{endpoint: %q, headers: {Authorization: Bearer t0p-s3cret}}", c.URL)))
	s.Traced(denied(1))
	eventually(t, "the failure is told", func() bool { return strings.Contains(log.String(), "403 Forbidden") })
	if text := log.String() + s.Failure().Error(); strings.Contains(text, "t0p") || strings.Contains(text, "\x1b") {
		t.Errorf("got %s", text)
	}
	mu.Lock()
	failing = false
	mu.Unlock()
	s.Traced(denied(2))
	eventually(t, "the end of it is told", func() bool { return strings.Contains(log.String(), "traces are sent again") })
}

// Traces go only where the configuration says, whatever the environment, the collector or a
// resolver says.
func TestOnlyToTheEndpoint(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("another was asked: %s %s", r.Method, r.URL)
	}))
	defer other.Close()
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": other.URL, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": other.URL, "OTEL_EXPORTER_OTLP_HEADERS": "x-env=1",
		"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json", "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip", "OTEL_RESOURCE_ATTRIBUTES": "from.env=1",
		"OTEL_SERVICE_NAME": "env", "OTEL_TRACES_SAMPLER": "always_off", "OTEL_SDK_DISABLED": "true", "HTTP_PROXY": other.URL, "http_proxy": other.URL,
		"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "1",
	} {
		t.Setenv(name, value)
	}
	c := collect.Start(nil)
	defer c.Close()
	s, log := newTraces(t)
	s.Set(configured(t, to(c.URL)))
	s.Traced(denied(1))
	spans, ok := c.Wait(1, time.Minute)
	if !ok || len(spans[0].Attributes) < 3 || spans[0].Resource["service.name"] != "thoughtgated" || spans[0].Resource["from.env"] != "" || c.Headers().Get("x-env") != "" {
		t.Errorf("got %+v, headers %v", spans, c.Headers())
	}

	moved := collect.Start(func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		return true
	})
	defer moved.Close()
	s.Set(configured(t, to(moved.URL)))
	s.Traced(denied(2))
	eventually(t, "the redirection is refused", func() bool { return strings.Contains(log.String(), "307") })

	for address, want := range map[string]bool{"127.0.0.1:1": true, "[::1]:1": true, "192.0.2.1:4318": false, "[2001:db8::1]:80": false} {
		if err := onlyLoopback("tcp", address, nil); (err == nil) != want {
			t.Errorf("http to %s: got %v", address, err)
		}
	}
}

// Traces that ended before a reload go to the previous collector, later ones to the new collector.
func TestReloadMovesOn(t *testing.T) {
	first, second := collect.Start(nil), collect.Start(nil)
	defer first.Close()
	defer second.Close()
	s, _ := newTraces(t)
	s.Set(configured(t, to(first.URL)))
	s.Traced(denied(1))
	s.Set(configured(t, to(second.URL)))
	s.Traced(denied(2))
	s.Close() // sends both
	if a, b := len(first.Spans()), len(second.Spans()); a != 1 || b != 1 {
		t.Errorf("%d and %d spans, want one each", a, b)
	}
}

func TestHeaderFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file("cred", "Bearer abc\n", 0o400)
	for _, test := range []struct{ name, from, credentials, want, err string }{
		{"file", file("good", " Bearer abc \n", 0o600), "", "Bearer abc", ""},
		{"credential", "credential:cred", dir, "Bearer abc", ""},
		{"no credentials", "credential:cred", "", "", "LoadCredential=cred:PATH"},
		{"missing", filepath.Join(dir, "none"), "", "", "no such file"},
		{"of others", file("wide", "abc", 0o640), "", "", "others can use it"},
		{"two lines", file("two", "abc\ndef\n", 0o600), "", "", "one line"},
		{"empty", file("empty", "\n", 0o600), "", "", "one line"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := configured(t, fmt.Sprintf("{endpoint: \"https://c.example\", header_files: {Authorization: %q}}", test.from))
			s, err := settingsOf(cfg, func(string) string { return test.credentials })
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "abc") {
					t.Errorf("got %v, want %q", err, test.err)
				}
				return
			}
			if err != nil || s.headers["Authorization"] != test.want {
				t.Errorf("got %q, %v", s.headers, err)
			}
		})
	}
}

// Untrusted names are bounded and escaped.
func TestNamesAreBounded(t *testing.T) {
	trace := denied(1)
	trace.Target, trace.MessageID = strings.Repeat("ä", 1000)+"\x1b[2J", `"`+strings.Repeat("9", 1000)+`"`
	trace.Rule, trace.Method = "a\nb\u202e", "tools/call"
	for i := range 100 {
		trace.Policies = append(trace.Policies, fmt.Sprint(i))
	}
	trace.Session = "s-key0"
	spans := newSpanMaker(nil, "test", func(s string) string { return strings.ReplaceAll(s, "key0", "[secret]") }).of(ended{trace, placeOf(trace)})
	if n := len(spans[0].Name()); n > 2*mostText+1 {
		t.Errorf("a name of %d bytes", n)
	}
	for _, kv := range spans[0].Attributes() {
		if text := kv.Value.String(); len(text) > 16*mostText || strings.ContainsAny(text, "\x1b\n\u202e") || strings.Contains(text, "key0") {
			t.Errorf("%s: %q", kv.Key, text)
		}
	}
}

// Sampling is by trace.
func TestRate(t *testing.T) {
	d := &sender{rate: 0.25}
	kept := 0
	for i := range uint64(4000) {
		trace := denied(i)
		trace.Outcome = "ok"
		if d.wanted(ended{trace, placeOf(trace)}) {
			kept++
		}
	}
	if kept < 800 || kept > 1200 {
		t.Errorf("%d of 4000 were kept at a rate of 0.25", kept)
	}
	broken := denied(1)
	broken.Parent, broken.State = "00-xyz", "=,="
	if at := placeOf(broken); at.parent.IsValid() || !at.trace.IsValid() {
		t.Errorf("a traceparent that is none: %v", at)
	}
	if !d.wanted(ended{denied(1), placeOf(denied(1))}) {
		t.Error("a refusal was left out")
	}
}
