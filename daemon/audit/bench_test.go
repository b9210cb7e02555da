package audit

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

var benchDigest = strings.Repeat("ef", 32)

// usual returns the record of an ordinary call.
func usual() *record.Record {
	return &record.Record{
		Kind: record.KindCall, Attachment: "5f3a9c0d1e2b4a68", Call: 7, ID: "c-5f3a9c0d-7", Session: "s-1f2e3d4c",
		Agent: "claude-code", Server: "filesystem", Launch: benchDigest, Direction: "agent_to_server", Method: "tools/call",
		Tool: "read_file", MessageID: "17", Verdict: "forward", Gate: "rule", Rule: `"read_*" (thoughtgate.yaml:12)`,
		Profile: "production", Set: benchDigest, Digest: benchDigest, LatencyUS: 41,
	}
}

// usualValues are the arguments of an ordinary call.
var usualValues = []byte(`{"path":"/home/user/project/internal/main.go","head":100}`)

func asTheyAre(v []byte, _ []string, _ func([]byte) string) []byte { return v }

func BenchmarkRecord(b *testing.B) {
	for _, mode := range []config.Sync{config.SyncNever, config.SyncInterval, config.SyncAlways} {
		for _, writers := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("%s/%d at once", mode, writers), func(b *testing.B) {
				l := open(b, b.TempDir(), Options{Sync: mode, Redact: asTheyAre})
				b.ReportAllocs()
				b.ResetTimer()
				var all sync.WaitGroup
				for w := range writers {
					all.Go(func() {
						for i := w; i < b.N; i += writers {
							if err := l.Record(context.Background(), usual(), usualValues, nil); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				all.Wait()
				b.StopTimer()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
				closeLog(b, l)
			})
		}
	}
}
