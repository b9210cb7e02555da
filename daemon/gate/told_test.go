package gate

import (
	"context"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// slowRecorder is a slow disk: a record is durable when the test says so, unless it was
// written with Telling.
type slowRecorder struct {
	begun chan record.Kind
	done  chan struct{}
}

func (s slowRecorder) Record(ctx context.Context, r *record.Record, _ []byte, _ []string) error {
	if IsReportOnly(ctx) {
		return nil
	}
	s.begun <- r.Kind
	<-s.done
	return nil
}

// A verdict is sent when its record is durable and not before. The record of an outcome delays
// nothing.
func TestVerdictsWaitForTheRecordAndOutcomesDoNot(t *testing.T) {
	h := newFixture()
	slow := slowRecorder{make(chan record.Kind), make(chan struct{})}
	h.gate.Recorder = slow
	a := h.gate.Attach(context.Background(), shimX, nil)
	defer a.Close(true)
	verdicts := collect(a)
	for seq := range uint64(3) {
		submitted := make(chan struct{})
		go func() {
			defer close(submitted)
			a.Submit(Submission{Seq: seq + 1, Side: wire.FromAgent, Line: []byte(aCall)})
		}()
		if kind := <-slow.begun; kind != record.KindCall {
			t.Fatalf("a record of kind %s is waited for", kind)
		}
		if len(verdicts) != 0 {
			t.Error("a verdict has left before its record")
		}
		slow.done <- struct{}{}
		if v := <-verdicts; v.Seq != seq+1 || v.Move != Forward {
			t.Errorf("got %+v", v)
		}
		<-submitted
		a.RecordOutcome(context.Background(), seq+1, "ok") // blocks forever if it waits
	}
}
