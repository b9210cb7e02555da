package extension_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension"
	"github.com/thoughtgate/thoughtgated/internal/test/fake"
)

// While an extension is killed, restarted and upgraded and its folder changes, each call either
// has its mark or is denied.
func TestNoCallPassesUnjudged(t *testing.T) {
	t.Parallel()
	h := newFixture(t).start()
	install := func() {
		h.install(fake.Extension{Name: "x", Modes: []string{"modify"}, Manifest: "hooks: {before: {}}\nrestart: {attempts: 50, first: 10ms, most: 20ms}\n"})
	}
	install()
	ctx, stop := context.WithCancel(t.Context())
	var judged, refused atomic.Int64
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				c := call(t, "files", "write_file", fmt.Sprintf(`{"caller":%d,"n":%d}`, i, n))
				got := h.Before(t.Context(), c)
				switch {
				case got.Move == gate.Deny && strings.Contains(got.Reason, `"x"`):
					refused.Add(1)
				case got.Move == gate.Forward && string(got.Changed) == fmt.Sprintf(`{"caller":%d,"n":%d,"seen_by":"x"}`, i, n):
					judged.Add(1)
				default:
					t.Errorf("caller %d, call %d: %+v, %s", i, n, got, got.Changed)
					return
				}
			}
		})
	}
	enough := func() {
		t.Helper()
		before := judged.Load()
		h.until("calls are judged", func() bool { return judged.Load() > before+20 })
	}
	for range 3 {
		enough()
		if v, err := h.Get("x"); err == nil && v.Status.PID > 0 {
			_ = syscall.Kill(v.Status.PID, syscall.SIGKILL) // it may have ended by itself
		}
		enough()
		if _, err := h.Fleet().Restart(t.Context(), "extension", "x", ""); err != nil {
			t.Error(err)
		}
		enough()
		install()
	}
	enough()
	stop()
	callers.Wait()
	t.Logf("%d calls were judged and %d refused", judged.Load(), refused.Load())
	if _, err := h.Remove(t.Context(), "x", true, extension.Actor{}); err != nil {
		t.Error(err)
	}
}
