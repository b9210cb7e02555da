package gate

import (
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// All of params is asked about, recorded and compared, except for transport members, and those
// only if they have the proper form.
func TestParams(t *testing.T) {
	const trace = `"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":"a=b, c=d","baggage":"k=v"`
	for _, tt := range []struct {
		params, shown, beside, kept string
		ofParams                    bool
	}{
		{`{"name":"t","arguments":{"a":1}}`, ``, ``, `{"a":1}`, false},
		{`{"name":"t","arguments":{"a":1},"_meta":{}}`, `{"name":"t","arguments":{"a":1}}`, ``, `{"a":1}`, false},
		{`{"_meta":{"progressToken":1}, "name":"t","arguments":{"a":1}}`, `{"name":"t","arguments":{"a":1}}`, ``, `{"a":1}`, false},
		{`{"name":"t","arguments":{"a":1},"_meta":{` + trace + `,"progressToken":"x-1"}}`, `{"name":"t","arguments":{"a":1}}`, ``, `{"a":1}`, false},
		{`{"name":"t","_meta":{"x":[1,2],"progressToken":-1.5,"y":{}}}`, `{"name":"t","_meta":{"x":[1,2],"y":{}}}`, `{"_meta":{"x":[1,2],"y":{}}}`, `{"name":"t","_meta":{"x":[1,2],"y":{}}}`, false},
		{`{"name":"t","arguments":{"a":1},"_meta":{"x":1}}`, ``, `{"_meta":{"x":1}}`, `{"name":"t","arguments":{"a":1},"_meta":{"x":1}}`, true},
		{`{"name":"t","arguments":{},"task":{"ttl":1}}`, ``, `{"task":{"ttl":1}}`, `{"name":"t","arguments":{},"task":{"ttl":1}}`, true},
		{`{"name":"t","arguments":{},"to":"x"}`, ``, `{"to":"x"}`, `{"name":"t","arguments":{},"to":"x"}`, true},
		{`{"name":"t","arguments":{},"_meta":{"progressToken":"a b"}}`, ``, `{"_meta":{"progressToken":"a b"}}`, `{"name":"t","arguments":{},"_meta":{"progressToken":"a b"}}`, true},
		{`{"name":"t","arguments":{},"_meta":{"progressToken":{"a":1}}}`, ``, `{"_meta":{"progressToken":{"a":1}}}`, `{"name":"t","arguments":{},"_meta":{"progressToken":{"a":1}}}`, true},
		{`{"name":"t","arguments":{},"_meta":{"Traceparent":"x"}}`, ``, `{"_meta":{"Traceparent":"x"}}`, `{"name":"t","arguments":{},"_meta":{"Traceparent":"x"}}`, true},
		{`{"name":"t","arguments":{},"_meta":[1]}`, ``, `{"_meta":[1]}`, `{"name":"t","arguments":{},"_meta":[1]}`, true},
		{`{"name":"t","arguments":{},"_meta":{"progress\u0054oken":1}}`, `{"name":"t","arguments":{}}`, ``, `{}`, false},
	} {
		line := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + tt.params + `}`)
		c, err := (&Gate{}).Read(Shim{}, Submission{Seq: 1, Side: wire.FromAgent, Line: line})
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if tt.shown == "" {
			tt.shown = tt.params
		}
		kept, ofParams := c.values()
		if got := string(c.Params()); got != tt.shown {
			t.Errorf("%s: shown %s", tt.params, got)
		}
		if got := string(c.Beside()); got != tt.beside {
			t.Errorf("%s: beside the arguments %s", tt.params, got)
		}
		if string(kept) != tt.kept || ofParams != tt.ofParams {
			t.Errorf("%s: kept %s, %v", tt.params, kept, ofParams)
		}
	}
}
