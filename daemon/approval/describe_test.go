package approval

import (
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// What a workflow hides is hidden in a call's arguments, or in its params if it has no
// arguments.
func TestHiddenMembersAreNotShown(t *testing.T) {
	for _, one := range []struct {
		side wire.Side
		line string
	}{
		{wire.FromAgent, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"login","arguments":{"user":"ann","key":"tulip"}}}`},
		{wire.FromAgent, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"login","_meta":{"x":1},"arguments":{"user":"ann","key":"tulip"}}}`},
		{wire.FromServer, `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"ann","key":"tulip"}}`},
	} {
		c := &gate.Call{Message: gate.Message{Side: one.side, Line: []byte(one.line)}}
		if err := wire.Read(c.Line, c.Side, &c.Envelope); err != nil {
			t.Fatal(err)
		}
		c.Method = c.Envelope.Method
		q := describe(&gate.Question{Call: c, Ruling: gate.Ruling{Redact: []string{"key"}}}, time.Now())
		if said := string(q.Params); strings.Contains(said, "tulip") || !strings.Contains(said, "ann") || !strings.Contains(said, "(not shown)") {
			t.Errorf("%s is shown as %s", one.line, said)
		}
	}
}
