package gate

import (
	"context"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// A line that was read already is not read again: what follows the message would be
// refused then.
func TestLineIsReadOnce(t *testing.T) {
	h := newHouse()
	a := h.gate.Attach(context.Background(), shimX, nil)
	defer a.Close(true)
	verdicts := collect(a)
	var e wire.Envelope
	if err := wire.Read([]byte(aCall), wire.FromAgent, &e); err != nil {
		t.Fatal(err)
	}
	line := []byte(aCall + " more")
	a.Submit(Submission{Seq: 1, Side: wire.FromAgent, Line: line, Envelope: e})
	if v := <-verdicts; v.Move != Forward || string(v.Line) != string(line) {
		t.Errorf("with its envelope: %+v", v)
	}
	a.Submit(Submission{Seq: 2, Side: wire.FromAgent, Line: line})
	if v := <-verdicts; v.Move != Deny || !strings.Contains(v.Reason, "more than one JSON value") {
		t.Errorf("without: %+v", v)
	}
	if r := h.records[0]; r.Tool != "rm" || r.MessageID != "7" {
		t.Errorf("recorded %+v", r)
	}
}
