package gate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// What is removed from a list may be as long as what is added. It is still another line, and
// the shim must get it.
func TestListOfTheSameLengthIsReplaced(t *testing.T) {
	for pad := range 120 {
		page := `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a"},{"name":"b","description":"` + strings.Repeat("x", pad) + `"}]}}`
		h := newFixture()
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

// What a previous daemon recorded for one side is not used for the other side under the same
// number.
func TestSidesAreNotSwapped(t *testing.T) {
	const notice = `{"jsonrpc":"2.0","method":"notifications/acme"}`
	h := newFixture()
	h.ruling = Ruling{Move: Deny}
	digest := sha256.Sum256([]byte(notice))
	a := h.gate.Attach(context.Background(), shimX, map[uint64]record.Record{
		1: {Verdict: "forward", Digest: hex.EncodeToString(digest[:]), Direction: Direction(wire.FromServer)},
	})
	defer a.Close(true)
	c := collect(a)
	a.Submit(Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(notice)})
	if v := <-c; v.Move != Deny {
		t.Errorf("the same line of the other side is answered with %v", v.Move)
	}
}
