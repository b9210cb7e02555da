package daemon_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/rig"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Each shim costs the daemon a fixed number of goroutines, and none for a call that
// has its verdict. Both ends of the connections are in this process.
func TestGoroutinesOfAttachments(t *testing.T) {
	h := newHome(t, someRules)
	h.start(t)
	ask(t, h.attachAs(t, "0123456789abcdef-first"), 1, "read_file")
	before := runtime.NumGoroutine()
	const shims, each, calls = 20, 14, 20
	for i := range shims {
		a := h.attachAs(t, fmt.Sprintf("0123456789abcdef-%d", i))
		for seq := range uint64(calls) {
			if v := ask(t, a, seq+1, "read_file"); v.GetAction() != pb.Action_ACTION_FORWARD {
				t.Fatalf("call %d: %v", seq, v)
			}
		}
	}
	for end := time.Now().Add(rig.Patience); runtime.NumGoroutine()-before > shims*each; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines for %d shims, want %d for each at most", runtime.NumGoroutine()-before, shims, each)
		}
	}
	t.Logf("%.1f goroutines for each shim", float64(runtime.NumGoroutine()-before)/shims)
}
