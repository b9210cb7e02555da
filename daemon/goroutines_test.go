package daemon_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

// Each shim costs the daemon a fixed number of goroutines, and a call with a verdict costs none.
// Both ends of all pipes and connections are in this process.
func TestGoroutinesOfAttachments(t *testing.T) {
	h := newHome(t, someRules)
	h.start(t)
	h.attach(t).expect("forward", "", "read_file")
	before := runtime.NumGoroutine()
	const shims, each, calls = 20, 17, 20
	for range shims {
		a := h.attach(t)
		for range calls {
			a.expect("forward", "", "read_file")
		}
	}
	for end := time.Now().Add(rig.Timeout); runtime.NumGoroutine()-before > shims*each; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines for %d shims, want %d for each at most", runtime.NumGoroutine()-before, shims, each)
		}
	}
	t.Logf("%.1f goroutines for each shim", float64(runtime.NumGoroutine()-before)/shims)
}
