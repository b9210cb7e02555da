package fleet

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/proto"

	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/courier"
	format "github.com/thoughtgate/thoughtgated/internal/fleet"
	"github.com/thoughtgate/thoughtgated/internal/fleet/stream"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// collector is a receiver of OTLP logs that verifies what it gets.
type collector struct {
	t *testing.T

	mu      sync.Mutex
	lines   []string // in the order in which they came
	batches int
	header  http.Header // of the last request
	last    *logs.ResourceLogs
	answers []func(http.ResponseWriter) // for the next requests, whose records are not taken
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	z, err := gzip.NewReader(r.Body)
	var body []byte
	if err == nil {
		body, err = io.ReadAll(z)
	}
	var data logs.LogsData
	if err == nil {
		err = proto.Unmarshal(body, &data)
	}
	if err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/logs" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		c.t.Errorf("%s %s with %v: %v", r.Method, r.URL, r.Header, err)
		return
	}
	c.batches++
	c.header, c.last = r.Header, data.GetResourceLogs()[0]
	if len(c.answers) > 0 {
		answer := c.answers[0]
		c.answers = c.answers[1:]
		answer(w)
		return
	}
	for _, l := range c.last.GetScopeLogs()[0].GetLogRecords() {
		c.lines = append(c.lines, l.GetBody().GetStringValue())
	}
}

// next has the collector answer the next request in another way.
func (c *collector) next(answer func(http.ResponseWriter)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers = append(c.answers, answer)
}

// taken returns how many records it has, how many batches came, and what is wrong with them as one log.
func (c *collector) taken() (records, batches int, faults []*stream.Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	check := stream.NewCheck(logID)
	for _, line := range c.lines {
		if f := check.Add(record.Entry{Line: []byte(line)}); f != nil {
			faults = append(faults, f)
		}
	}
	return len(c.lines), c.batches, faults
}

// sender sends a log to a collector.
type sender struct {
	*daemon
	id     *courier.Identity
	cursor string
}

func newSender(t *testing.T, records int) (*sender, *collector) {
	t.Helper()
	s := newSite(t)
	c := &collector{t: t}
	token := s.token()
	token.OTLP = s.serve(t, "127.0.0.1", c).URL + "/v1/logs"
	id, _, err := courier.Enrol(t.Context(), token)
	must(t, err)
	dir := t.TempDir()
	d := &daemon{dir: dir, records: records}
	must(t, d.write(t.Context()))
	return &sender{d, id, filepath.Join(dir, "sent.json")}, c
}

// run sends until it fails, or all records up to the last one were acknowledged. It returns the failure.
func (s *sender) run(t *testing.T, log string, last uint64) error {
	t.Helper()
	c, err := courier.NewCollector(s.id, s.cursor)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	failed := make(chan error, 10)
	u := &courier.Uploader{Log: log, Read: s.read, Collector: c, Failed: func(err error) {
		if err != nil {
			failed <- err
		}
	}}
	var running sync.WaitGroup
	running.Go(func() { _ = u.Run(ctx) })
	defer running.Wait()
	defer cancel()
	for {
		select {
		case err := <-failed:
			return err
		case <-time.After(20 * time.Millisecond):
		}
		if got, err := c.Last(log); err == nil && got.Seq >= last {
			return nil
		}
		if ctx.Err() != nil {
			t.Fatal("the records were not sent within a minute")
		}
	}
}

// What a collector gets is the log, with what a SIEM filters by; and after a kill between the acknowledgement
// and the cursor, one batch again.
func TestOTLP(t *testing.T) {
	s, c := newSender(t, 256)
	s.id.Header = filepath.Join(t.TempDir(), "header")
	must(t, os.WriteFile(s.id.Header, []byte("Authorization: Bearer sesame\n"), 0o600))
	if err := s.run(t, logID, 256); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(s.cursor)
	must(t, err)
	s.records = 512
	must(t, s.write(t.Context()))
	if err := s.run(t, logID, 512); err != nil {
		t.Fatal(err)
	}
	if n, _, faults := c.taken(); n != 512 || faults != nil {
		t.Errorf("%d records, %v", n, faults)
	}
	if got := c.header.Get("Authorization"); got != "Bearer sesame" {
		t.Errorf("authorization %q", got)
	}
	device, err := s.id.Device()
	must(t, err)
	of := fmt.Sprint(c.last.GetResource().GetAttributes())
	for _, want := range []string{"service.name", `"thoughtgate"`, "thoughtgate.fleet", `"acme"`, "thoughtgate.group", `"dev"`, "thoughtgate.device", device} {
		if !strings.Contains(of, want) {
			t.Errorf("of the resource %s: no %s", of, want)
		}
	}
	all := c.last.GetScopeLogs()[0].GetLogRecords()
	one := fmt.Sprint(all[len(all)-1].GetAttributes())
	for _, want := range []string{logID, "int_value:512", `"call"`, `"forward"`, `"files"`, `"read_file"`} {
		if !strings.Contains(one, want) {
			t.Errorf("of the record %s: no %s", one, want)
		}
	}
	if l := all[len(all)-1]; l.GetSeverityText() != "INFO" || l.GetTimeUnixNano() == 0 {
		t.Errorf("severity %s, time %d", l.GetSeverityText(), l.GetTimeUnixNano())
	}
	must(t, os.WriteFile(s.cursor, before, 0o600)) // as if it had been killed before it was written
	if err := s.run(t, logID, 512); err != nil {
		t.Fatal(err)
	}
	n, _, faults := c.taken()
	for _, f := range faults {
		if f.Kind != stream.Double || f.From <= 256 {
			t.Errorf("after a kill: %v", f)
		}
	}
	if n != 768 || len(faults) != 256 {
		t.Errorf("after a kill: %d records, %d faults; want the last 256 twice", n, len(faults))
	}
}

// A collector that is busy is left alone for as long as it says.
func TestOTLPBusy(t *testing.T) {
	s, c := newSender(t, 256)
	c.next(func(w http.ResponseWriter) {
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	began := time.Now()
	col, err := courier.NewCollector(s.id, s.cursor)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	u := &courier.Uploader{Log: logID, Read: s.read, Collector: col}
	var running sync.WaitGroup
	running.Go(func() { _ = u.Run(ctx) })
	defer running.Wait()
	defer cancel()
	until(t, "the records are there", func() bool { return u.Sent() == 256 })
	if waited := time.Since(began); waited < 3*time.Second {
		t.Errorf("again after %v; want 3 s", waited)
	}
	if n, batches, faults := c.taken(); n != 256 || batches != 2 || faults != nil {
		t.Errorf("%d records, %d batches, %v", n, batches, faults)
	}
}

// What a collector has not taken whole is said, and stays to be sent.
func TestOTLPRefused(t *testing.T) {
	answer := func(status int, kind, text string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		}
	}
	s, c := newSender(t, 256)
	s.id.Header = filepath.Join(t.TempDir(), "header")
	must(t, os.WriteFile(s.id.Header, []byte("Authorization: Bearer sesame"), 0o600))
	for _, refusal := range []struct {
		want   string
		answer func(http.ResponseWriter)
	}{
		{"has rejected 3 records: \"too old\"", answer(200, "application/x-protobuf", "\x0a\x0b\x08\x03\x12\x07too old")},
		{"instead of application/x-protobuf", answer(200, "application/json", `{"partialSuccess":{"rejectedLogRecords":"3"}}`)},
		{"read the collector's answer", answer(200, "application/x-protobuf", "\x0a\x7f")},
		{`400 Bad Request: "no, [secret]"`, answer(400, "text/plain", "no, sesame")},
		{"301", func(w http.ResponseWriter) {
			w.Header().Set("Location", "https://127.0.0.1:1/")
			w.WriteHeader(http.StatusMovedPermanently)
		}},
	} {
		c.next(refusal.answer)
		if err := s.run(t, logID, 256); err == nil || !strings.Contains(err.Error(), refusal.want) {
			t.Errorf("%v; want %s", err, refusal.want)
		}
		if _, err := os.Stat(s.cursor); err == nil {
			t.Errorf("%s: the records count as sent", refusal.want)
		}
	}
	must(t, os.Chmod(s.id.Header, 0o644))
	if err := s.run(t, logID, 256); err == nil || !strings.Contains(err.Error(), "others can use it") {
		t.Errorf("a header that others can read: %v", err)
	}
	must(t, os.Chmod(s.id.Header, 0o600))
	c.next(answer(200, "application/x-protobuf", "\x0a\x09\x12\x07warning"))
	if err := s.run(t, logID, 256); err != nil {
		t.Errorf("a warning: %v", err)
	}
}

// A log whose last sent record is another is an alarm, and nothing of it is sent. Of another log, nothing was sent.
func TestOTLPFork(t *testing.T) {
	s, c := newSender(t, 256)
	if err := s.run(t, logID, 256); err != nil {
		t.Fatal(err)
	}
	sent, err := os.ReadFile(s.cursor)
	must(t, err)
	cursor, err := courier.NewCollector(s.id, s.cursor)
	must(t, err)
	if last, err := cursor.Last("fedcba9876543210"); err != nil || last.Seq != 0 {
		t.Errorf("another log: its record %d was sent, %v", last.Seq, err)
	}
	must(t, os.Remove(s.segment()))
	s.records = 512
	must(t, s.write(t.Context()))
	if err := s.run(t, logID, 257); err == nil || !strings.Contains(err.Error(), courier.ErrFork.Error()) || !strings.Contains(err.Error(), "record 256") {
		t.Errorf("another history: %v", err)
	}
	for _, bad := range []string{"", "{}", `{"log":"` + logID + `"}`} {
		must(t, os.WriteFile(s.cursor, []byte(bad), 0o600))
		if err := s.run(t, logID, 512); err == nil || !strings.Contains(err.Error(), "which records were sent") {
			t.Errorf("the cursor %q: %v", bad, err)
		}
	}
	if _, batches, _ := c.taken(); batches != 1 || !strings.Contains(string(sent), format.Digest([]byte(c.lines[255]))) {
		t.Errorf("%d batches; the cursor is %s", batches, sent)
	}
}

// The running courier sends records beside getting policies.
func TestOTLPFromCourier(t *testing.T) {
	s := newSite(t)
	c := &collector{t: t}
	token := s.token()
	token.OTLP = s.serve(t, "127.0.0.1", c).URL + "/v1/logs"
	v := s.join(t, token)
	until(t, "the policy and the records", func() bool { return v.version() == 1 && v.state(t).Sent == 256 })
	if n, _, faults := c.taken(); n != 256 || faults != nil {
		t.Errorf("%d records, %v", n, faults)
	}
}
