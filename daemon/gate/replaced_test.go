package gate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// What is cut out of a list may be as long as what is put in: it is another line
// all the same, and the shim must be sent it.
func TestListOfTheSameLengthIsReplaced(t *testing.T) {
	for pad := range 120 {
		page := `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a"},{"name":"b","description":"` + strings.Repeat("x", pad) + `"}]}}`
		h := newHouse()
		h.hidden = map[string]bool{"b": true}
		a := h.gate.Attach(context.Background(), shimX, nil)
		c := collect(a)
		a.Submit(Submission{Seq: 1, Side: wire.FromServer, Line: []byte(page), Answers: "tools/list", Modern: true})
		if v := <-c; v.Move != Forward || !v.Replaced {
			t.Errorf("%d bytes for %d: got %v, replaced %v", len(v.Line), len(page), v.Move, v.Replaced)
		}
		a.Close(true)
	}
}

// slowFacts takes its time over a call.
type slowFacts struct{ *house }

func (s slowFacts) Of(ctx context.Context, c *Call) []Fact {
	time.Sleep(20 * time.Millisecond) // as a slow disk or a dead mount would
	return s.house.Of(ctx, c)
}

// The next stream may bring a line again while the last one's is being judged.
func TestJudgedOnceOverTwoStreams(t *testing.T) {
	h := newHouse()
	h.gate.Facts = slowFacts{h}
	h.ruling = Ruling{Move: Ask, Workflow: "ops"}
	a := h.gate.Attach(context.Background(), shimX, nil)
	defer a.Close(true)
	a.Bind(func(Verdict) {})
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() { a.Submit(Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(aCall)}) })
	}
	both.Wait()
	if h.asked != 1 || h.verdicts() != "call:hold" {
		t.Errorf("asked %d times, records %q", h.asked, h.verdicts())
	}
}

// What was judged as the one side's word is not the other's under the same number:
// not by the verdict that is told again, nor by one that an earlier daemon recorded.
func TestSidesAreNotSwapped(t *testing.T) {
	const notice = `{"jsonrpc":"2.0","method":"notifications/acme"}`
	for _, again := range []bool{true, false} {
		h := newHouse()
		h.ruling = Ruling{Move: Forward}
		digest := sha256.Sum256([]byte(notice))
		earlier := map[uint64]record.Record{1: {Verdict: "forward", Digest: hex.EncodeToString(digest[:]), Direction: Direction(wire.FromServer)}}
		if again {
			earlier = nil
		}
		a := h.gate.Attach(context.Background(), shimX, earlier)
		c := collect(a)
		if again {
			a.Submit(Submission{Seq: 1, Side: wire.FromServer, Line: []byte(notice)})
			if v := <-c; v.Move != Forward {
				t.Fatalf("got %v", v)
			}
		}
		h.ruling = Ruling{Move: Deny}
		a.Submit(Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(notice)})
		if v := <-c; v.Move != Deny {
			t.Errorf("told again %v: the same line of the other side is answered with %v", again, v.Move)
		}
		a.Close(true)
	}
}
