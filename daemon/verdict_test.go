package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/rig"
	"github.com/thoughtgate/thoughtgated/internal/sock"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// verdicts are the gates as a daemon puts them together, with one shim attached.
type verdicts struct {
	attached *gate.Attachment
	last     gate.Verdict
	seq      uint64
	lines    [][]byte
}

// newVerdicts starts them. Without recorded nothing is written down, which leaves what
// the gates themselves cost.
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
	v := &verdicts{attached: d.judge.Attach(context.Background(), gate.Shim{
		Attachment: "0123456789abcdef", Agent: "claude-code", Project: dir + "/project", Cwd: dir + "/project", Server: "files",
		Launch: "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", Command: []string{"/usr/bin/files", dir + "/project"},
	}, nil)}
	v.attached.Bind(func(verdict gate.Verdict) { v.last = verdict })
	for i := range 256 {
		v.lines = append(v.lines, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"read","arguments":{"path":"/srv/notes/%d.txt","text":""}}}`, i, i))
	}
	tb.Cleanup(func() {
		v.attached.Close(true)
		d.close()
	})
	return v
}

// call has one ordinary call judged, and told how it ended.
func (v *verdicts) call(tb testing.TB) {
	v.seq++
	v.attached.Submit(gate.Submission{Seq: v.seq, Side: wire.FromAgent, Line: v.lines[v.seq%uint64(len(v.lines))]})
	if v.last.Seq != v.seq || v.last.Move != gate.Forward {
		tb.Fatalf("%+v", v.last)
	}
	v.attached.Outcome(context.Background(), v.seq, "ok")
}

// mostAllocations is how many allocations an ordinary call's verdict and outcome may
// take together, without the record. They take 19, and 26 where paths have to be
// followed link by link, since the system has no call for more or forbids it.
const mostAllocations = 34

// Allocations tell what a clock on a busy machine can't.
func TestVerdictAllocatesLittle(t *testing.T) {
	if rig.UnderRace() {
		t.Skip("pools forget at random under the race detector")
	}
	v := newVerdicts(t, false)
	for range 64 { // what is kept for later calls is made by the first
		v.call(t)
	}
	if got := rig.Allocations(500, func() { v.call(t) }); int(got) > mostAllocations { // the collector may empty a pool
		t.Errorf("a verdict takes %.1f allocations, want at most %d", got, mostAllocations)
	}
}

// BenchmarkVerdict is what the gates cost for an ordinary call, and what the record
// adds to that.
func BenchmarkVerdict(b *testing.B) {
	for name, recorded := range map[string]bool{"gates": false, "recorded": true} {
		b.Run(name, func(b *testing.B) {
			v := newVerdicts(b, recorded)
			v.call(b)
			b.ReportAllocs()
			for b.Loop() {
				v.call(b)
			}
		})
	}
}
