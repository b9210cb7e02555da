package gate

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// endlessFacts inspects a call until ctx ends.
type endlessFacts struct{ *fixture }

func (e endlessFacts) Of(ctx context.Context, _ *Call) []Fact {
	e.note("looking")
	<-ctx.Done()
	return nil
}

// A call that can't be judged in time is denied, and the reason says so.
func TestJudgingHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture()
		h.gate.Facts = endlessFacts{h}
		v, a := submitTo(h, shimX, aCall)
		defer a.Close(true)
		if v.Move != Deny || !strings.Contains(v.Reason, "could not be judged within 5s") || !strings.Contains(string(v.Answer), "could not be judged within 5s") {
			t.Errorf("got %v %q, told %s", v.Move, v.Reason, v.Answer)
		}
		if got := h.verdicts(); got != "call:deny" {
			t.Errorf("records: %s", got)
		}
	})
}

// An approved call is judged again, with the same time limit.
func TestJudgingAnApprovedCallHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture()
		h.ruling = Ruling{Move: Ask, Workflow: "ops"}
		a := h.gate.Attach(context.Background(), shimX, nil)
		defer a.Close(true)
		c := collect(a)
		a.Submit(Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(aCall)})
		if v := <-c; v.Move != Ask {
			t.Fatalf("got %v", v.Move)
		}
		h.gate.Facts = endlessFacts{h}
		h.answers <- Answer{ID: "A-1", Approved: true, State: "approved"}
		if v := <-c; v.Move != Deny || !strings.Contains(v.Reason, "could not be judged within 5s") {
			t.Errorf("got %v %q", v.Move, v.Reason)
		}
	})
}

// Judging ends when nobody waits for the verdict. The line then has no verdict and no record.
func TestJudgingStopsWhenNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture()
		h.gate.Facts = endlessFacts{h}
		a := h.gate.Attach(context.Background(), shimX, nil)
		defer a.Close(true)
		c := collect(a)
		s := Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(aCall)}
		stream, tear := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() {
			defer close(over)
			a.SubmitFor(stream, s)
		}()
		synctest.Wait()
		tear()
		<-over
		if got := h.verdicts(); got != "" || len(c) > 0 {
			t.Errorf("records %q, %d verdicts", got, len(c))
		}
	})
}

// Filtering a list has the same time limit.
func TestListsHaveADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture()
		slow := &slowSight{fixture: h}
		h.gate.Policy = func() Policy { return slow }
		a := h.gate.Attach(context.Background(), shimX, nil)
		defer a.Close(true)
		c := collect(a)
		var tools []string
		for i := range 20 {
			tools = append(tools, fmt.Sprintf(`{"name":"tool%d"}`, i))
		}
		a.Submit(Submission{
			Seq: 1, Side: wire.FromServer, Answers: "tools/list",
			Line: []byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[` + strings.Join(tools, ",") + `]}}`),
		})
		if v := <-c; v.Move != Deny || !strings.Contains(v.Reason, "the server's list is too long") {
			t.Errorf("got %v %q", v.Move, v.Reason)
		}
	})
}

// slowSight is a Policy that takes a second for each name in a list.
type slowSight struct{ *fixture }

func (s *slowSight) Visible(*Call, string, string) bool {
	time.Sleep(time.Second) // of the bubble's clock
	return true
}

// Judging ends when the line is cancelled. The record says so, and there is no verdict.
func TestJudgingStopsWhenItIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, profile := range []Profile{Production, Development} {
			h := newFixture()
			h.profile = profile
			h.gate.Facts = endlessFacts{h}
			a := h.gate.Attach(context.Background(), shimX, nil)
			c := collect(a)
			over := make(chan struct{})
			go func() {
				defer close(over)
				a.SubmitFor(t.Context(), Submission{Seq: 2, Side: wire.FromAgent, Line: []byte(aCall)})
			}()
			synctest.Wait()
			begun := time.Now()
			a.Cancel(1)
			synctest.Wait()
			select {
			case <-over:
				t.Error("another line was taken back, and it is judged no more")
			default:
			}
			a.Cancel(2)
			<-over
			if took := time.Since(begun); took > 0 || len(c) > 0 {
				t.Errorf("it was judged for %v more, with %d verdicts", took, len(c))
			}
			if got := h.verdicts(); got != "call:deny" || h.records[0].Reason != "cancelled before it was judged" || h.records[0].Call != 2 {
				t.Errorf("records %q: %+v", got, h.records[0])
			}
			a.Close(true)
		}
	})
}

// A line that waits for the previous one to be judged can be cancelled meanwhile.
func TestCancelBehindAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that judging does not take too long on a busy machine
		h := newFixture()
		h.gate.Facts = endlessFacts{h}
		a := h.gate.Attach(context.Background(), shimX, nil)
		defer a.Close(true)
		c := collect(a)
		var over sync.WaitGroup
		for _, seq := range []uint64{2, 4} {
			over.Go(func() { a.SubmitFor(t.Context(), Submission{Seq: seq, Side: wire.FromAgent, Line: []byte(aCall)}) })
			for there := false; !there; runtime.Gosched() { // the bubble's clock stands still while one waits for the other's lock
				a.mu.Lock()
				_, there = a.underway[seq]
				a.mu.Unlock()
			}
		}
		a.Cancel(4)
		a.Cancel(2)
		over.Wait()
		if len(c) > 0 {
			t.Errorf("%d verdicts", len(c))
		}
		for _, r := range h.records {
			if r.Reason != "cancelled before it was judged" {
				t.Errorf("call %d: %s", r.Call, r.Reason)
			}
		}
		if got := h.verdicts(); got != "call:deny call:deny" {
			t.Errorf("records: %s", got)
		}
	})
}
