package gate

import (
	"bytes"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// What a workflow does not show stays hidden wherever it occurs: in the arguments of a call,
// and in a server's request, alone, with others or in an answer.
func TestWhatIsNotShown(t *testing.T) {
	const ask = `{"method":"elicitation/create","params":{"message":"hunter2","requestedSchema":{}}}`
	for name, c := range map[string]struct {
		side wire.Side
		line string
	}{
		"arguments":          {wire.FromAgent, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"message":"hunter2"}}}`},
		"arguments and more": {wire.FromAgent, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"message":"hunter2"},"_meta":{"a":1}}}`},
		"a question":         {wire.FromServer, `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"hunter2","requestedSchema":{}}}`},
		"one in an answer":   {wire.FromServer, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{"a":` + ask + `}}}`},
		"two in an answer":   {wire.FromServer, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{"a":` + ask + `,"b":` + ask + `}}}`},
		"a page":             {wire.FromServer, `{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","elicitationId":"e","url":"https://example.com","message":"hunter2"}]}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := (&Gate{}).Read(Shim{}, Submission{Seq: 1, Side: c.side, Line: []byte(c.line), Answers: "tools/call"})
			if err != nil {
				t.Fatal(err)
			}
			shown := c
			if c.carriesAsks() {
				asks, err := c.asks()
				if err != nil || len(asks) == 0 {
					t.Fatalf("asks: %d, %v", len(asks), err)
				}
				shown = c.together(asks)
			}
			hide := func([]byte) string { return "hidden" }
			values, areParams := c.values()
			for where, got := range map[string][]byte{
				"shown":    rawjson.Mask(shown.Params(), shown.InParams([]string{"message"}), hide),
				"recorded": rawjson.Mask(values, c.inValues([]string{"message"}, areParams), hide),
			} {
				if !bytes.Contains(got, []byte(`"hidden"`)) || bytes.Contains(got, []byte("hunter2")) {
					t.Errorf("%s: %s", where, got)
				}
			}
		})
	}
}
