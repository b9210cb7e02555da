package gate

import (
	"slices"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Whoever waits for calls hears of each call of a tool when it comes, whatever becomes of it.
func TestArrived(t *testing.T) {
	h := newFixture()
	h.ruling = Ruling{Move: Deny, Gate: "rule"}
	var came []string
	h.gate.Arrived = func(c *Call) { came = append(came, c.Server+"/"+c.Subject) }
	a := h.gate.Attach(t.Context(), shimX, nil)
	a.Bind(func(Verdict) {})
	for i, line := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write","arguments":{}}}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"read","arguments":{}}}`,
		`{"jsonrpc":"2.0","id":3,"method":"prompts/get","params":{"name":"write"}}`,
	} {
		a.Submit(Submission{Seq: uint64(i + 1), Side: wire.FromAgent, Line: []byte(line)})
	}
	a.Close(true)
	if want := []string{"files/write", "files/read"}; !slices.Equal(came, want) {
		t.Errorf("got %q, want %q", came, want)
	}
}
