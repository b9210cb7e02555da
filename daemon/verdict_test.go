package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/sock"
	"github.com/thoughtgate/thoughtgated/internal/test/programs"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// verdicts is a test fixture: the gates as a daemon assembles them, with one shim attached.
type verdicts struct {
	daemon   *Daemon
	project  string
	attached *gate.Attachment
	last     gate.Verdict
	seq      uint64
	lines    []gate.Submission
}

// newVerdicts starts the gates. Without recorded, nothing is recorded, so that only the cost of the
// gates is measured.
func newVerdicts(tb testing.TB, recorded bool) *verdicts {
	tb.Helper()
	dir := tb.TempDir()
	paths := sock.Paths{Config: dir + "/config", State: dir + "/state", Runtime: dir + "/run"}
	if err := paths.Prepare(); err != nil {
		tb.Fatal(err)
	}
	for _, folder := range []string{paths.Config, dir + "/project/src"} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			tb.Fatal(err)
		}
	}
	home := func(name string) string {
		if name == "HOME" {
			return dir
		}
		return ""
	}
	d, err := New(Options{Paths: paths, Getenv: home, Logger: slog.New(slog.DiscardHandler), Build: "test"})
	if err != nil {
		tb.Fatal(err)
	}
	if !recorded {
		d.judge.Recorder = d.metrics.Recorder(nowhere{})
	}
	if err := os.WriteFile(dir+"/project/src/main.go", []byte("package main\n"), 0o600); err != nil {
		tb.Fatal(err)
	}
	v := &verdicts{daemon: d, project: dir + "/project", attached: d.judge.Attach(context.Background(), gate.Shim{
		Attachment: "0123456789abcdef", Agent: "claude-code", Project: dir + "/project", Cwd: dir + "/project", Server: "files",
		Launch: "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", Command: []string{"/usr/bin/files", dir + "/project"},
	}, nil)}
	v.attached.Bind(func(verdict gate.Verdict) { v.last = verdict })
	tb.Cleanup(func() {
		v.attached.Close(true)
		d.close()
	})
	return v
}

// reads makes the judged calls read a file.
func (v *verdicts) reads(path string) {
	for i := range 256 {
		s := gate.Submission{Side: wire.FromAgent, Line: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"read_file","arguments":{"path":%q}}}`, i, path)}
		v.lines = append(v.lines, s)
	}
}

// judge judges one ordinary call and reports its outcome.
func (v *verdicts) judge(tb testing.TB) {
	v.seq++
	s := v.lines[v.seq%uint64(len(v.lines))]
	s.Seq = v.seq
	v.attached.Submit(s)
	if v.last.Seq != v.seq || v.last.Move != gate.Forward {
		tb.Fatalf("%+v", v.last)
	}
}

func (v *verdicts) outcome() { v.attached.RecordOutcome(context.Background(), v.seq, "ok") }

// mostAllocations is the limit of allocations for the verdict and outcome of an ordinary call,
// without the record. They need 23, or 27 where paths must be resolved link by link, because the
// system has no call for that or forbids it.
const mostAllocations = 28

// Allocations show what a clock on a busy machine can't.
//
//gotest:plain pools drop items at random under the race detector
func TestVerdictAllocatesLittle(t *testing.T) {
	if programs.UnderRace() {
		t.Skip("pools forget at random under the race detector")
	}
	v := newVerdicts(t, false)
	v.reads("src/main.go")
	call := func() {
		v.judge(t)
		v.outcome()
	}
	for range 64 { // the first calls fill the caches
		call()
	}
	if got := rig.Allocations(500, call); int(got) > mostAllocations {
		t.Errorf("a verdict takes %.1f allocations, want at most %d", got, mostAllocations)
	}
}

// BenchmarkVerdict measures the cost of the gates for an ordinary call, and the additional cost of
// the record: the medians of the verdict, and of the outcome, which follows the answer. In cold,
// other data has replaced the caches.
func BenchmarkVerdict(b *testing.B) {
	other := make([]byte, 8<<20)
	for _, how := range []string{"gates", "recorded"} {
		for _, caches := range []string{"warm", "cold"} {
			b.Run(how+"/"+caches, func(b *testing.B) {
				v := newVerdicts(b, how == "recorded")
				v.reads(v.project + "/src/main.go")
				v.judge(b)
				v.outcome()
				verdicts, outcomes := make([]time.Duration, b.N), make([]time.Duration, b.N)
				b.ReportAllocs()
				b.ResetTimer()
				for i := range b.N {
					if caches == "cold" {
						for at := 0; at < len(other); at += 64 {
							other[at]++
						}
					}
					began := time.Now()
					v.judge(b)
					judged := time.Now()
					v.outcome()
					verdicts[i], outcomes[i] = judged.Sub(began), time.Since(judged)
				}
				b.ReportMetric(0, "ns/op") // it would include the caches
				b.ReportMetric(median(verdicts), "ns/verdict")
				b.ReportMetric(median(outcomes), "ns/outcome")
			})
		}
	}
}

func median(of []time.Duration) float64 {
	slices.Sort(of)
	return float64(of[len(of)/2])
}
