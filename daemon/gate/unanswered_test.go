package gate

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// orphans returns what is recorded of requests without an answer, and of outcomes.
func (h *fixture) orphans() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []string
	for _, r := range h.records {
		if r.Kind == record.KindOrphan || r.Kind == record.KindOutcome {
			all = append(all, fmt.Sprintf("%d %s %s %s: %s", r.Call, r.Method, r.Tool, r.Verdict, r.Reason))
		}
	}
	return strings.Join(all, "\n")
}

// A request without an answer is recorded once, when the limit is reached. A new limit applies
// at once, and a late outcome says that it is late.
func TestOrphans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture()
		var limit atomic.Int64
		limit.Store(int64(5 * time.Minute))
		h.gate.Orphan = func() time.Duration { return time.Duration(limit.Load()) }
		a := h.gate.Attach(context.Background(), shimX, nil)
		defer a.Close(true)
		a.Bind(func(Verdict) {})
		a.Submit(Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(aCall)})
		begun := time.Now()
		call := Unanswered{Call: 1, Side: wire.FromAgent, Method: "tools/call", ID: "1", Since: begun}
		list := Unanswered{Call: 2, Side: wire.FromAgent, Method: "tools/list", ID: "2", Since: begun.Add(time.Minute)}
		ask := Unanswered{Call: 3, Side: wire.FromServer, Method: "roots/list", ID: "3", Since: begun.Add(2 * time.Minute)}
		a.SetUnanswered([]Unanswered{call, list, ask}, 0)
		if n, since := a.Silent(); n != 2 || since != begun {
			t.Errorf("%d requests since %v", n, since)
		}
		want := func(all ...string) {
			t.Helper()
			synctest.Wait()
			if got := h.orphans(); got != strings.Join(all, "\n") {
				t.Errorf("on record:\n%s\nwant:\n%s", got, strings.Join(all, "\n"))
			}
		}
		time.Sleep(5*time.Minute - time.Second)
		want()
		time.Sleep(time.Second)
		first := "1 tools/call rm unanswered: the server has not answered for 5m0s"
		want(first)
		a.SetUnanswered([]Unanswered{call, list, ask}, 0) // once is enough
		want(first)
		limit.Store(int64(3 * time.Minute))
		a.Refresh()
		second, third := "2 tools/list  unanswered: the server has not answered for 4m0s", "3 roots/list  unanswered: the agent has not answered for 3m0s"
		want(first, second, third)
		a.RecordOutcome(context.Background(), 1, "ok")
		a.SetUnanswered(nil, 0)
		time.Sleep(time.Hour)
		want(first, second, third, "1 tools/call rm ok: it had been recorded as unanswered")
		if n, since := a.Silent(); n != 0 || !since.IsZero() {
			t.Errorf("%d requests since %v", n, since)
		}
	})
}

// An orphan that a previous daemon has recorded is not recorded again.
func TestOrphansOfAnEarlierDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture()
		h.gate.Orphan = func() time.Duration { return time.Minute }
		h.gate.Orphaned = func(string) map[uint64]bool { return map[uint64]bool{1: true} }
		earlier := map[uint64]record.Record{2: {Tool: "read_file", Profile: "production"}}
		a := h.gate.Attach(context.Background(), shimX, earlier)
		defer a.Close(true)
		since := time.Now().Add(-time.Hour)
		a.SetUnanswered([]Unanswered{{Call: 1, Method: "tools/call", Since: since}, {Call: 2, Method: "tools/call", Since: since}}, 0)
		synctest.Wait()
		if got, want := h.orphans(), "2 tools/call read_file unanswered: the server has not answered for 1h0m0s"; got != want {
			t.Errorf("on record:\n%s\nwant:\n%s", got, want)
		}
	})
}

// A request is found that arrives after there was nothing to look for. An outcome that is
// reported after its request is closed is still late. Requests beyond the limit are counted.
func TestOrphansComeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture()
		h.gate.Orphan = func() time.Duration { return time.Minute }
		a := h.gate.Attach(context.Background(), shimX, nil)
		defer a.Close(true)
		a.Bind(func(Verdict) {})
		a.SetUnanswered([]Unanswered{{Call: 9, Side: wire.FromServer, Method: "ping", Since: time.Now()}}, 0)
		synctest.Wait()
		a.SetUnanswered(nil, 0)
		time.Sleep(time.Hour)
		a.Submit(Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(aCall)})
		a.SetUnanswered([]Unanswered{{Call: 1, Side: wire.FromAgent, Method: "tools/call", Since: time.Now()}}, 7)
		if n, _ := a.Silent(); n != 8 {
			t.Errorf("%d have no answer", n)
		}
		time.Sleep(2 * time.Minute)
		a.SetUnanswered(nil, 0)
		a.RecordOutcome(context.Background(), 1, "ok")
		want := "1 tools/call rm unanswered: the server has not answered for 1m0s\n1 tools/call rm ok: it had been recorded as unanswered"
		if got := h.orphans(); got != want {
			t.Errorf("on record:\n%s\nwant:\n%s", got, want)
		}
	})
}
