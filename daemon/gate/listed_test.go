package gate

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// heard is a listener that stores what it gets.
type heard struct{ tools []string }

func (h *heard) Listed(c *Call, tools []Definition) {
	for _, t := range tools {
		h.tools = append(h.tools, fmt.Sprintf("%s/%s %s", c.Server, t.Name, t.InputSchema))
	}
}

// The listener gets what the agent is shown, and nothing else.
func TestListenerHearsWhatIsShown(t *testing.T) {
	const read, write = `{"name":"read","inputSchema":{"type":"object"},"description":"d"}`, `{"name":"write"}`
	for name, test := range map[string]struct {
		result, answers string
		hidden          string
		profile         Profile
		full            bool
		want            string
	}{
		"tools":                   {`{"tools":[` + read + `,` + write + `]}`, "tools/list", "", Production, false, `fs/read {"type":"object"}, fs/write `},
		"one is hidden":           {`{"tools":[` + write + `,` + read + `]}`, "tools/list", "write", Production, false, `fs/read {"type":"object"}`},
		"all are":                 {`{"tools":[` + write + `]}`, "tools/list", "write", Production, false, ``},
		"hidden in development":   {`{"tools":[` + write + `]}`, "tools/list", "write", Development, false, `fs/write `},
		"no list":                 {`{}`, "tools/list", "", Production, false, ``},
		"a list of another thing": {`{"prompts":[` + read + `]}`, "prompts/list", "", Production, false, ``},
		"a name that comes twice": {`{"tools":[` + read + `,` + read + `,` + write + `]}`, "tools/list", "", Production, false, `fs/write `},
		"no list at all":          {`{"tools":{}}`, "tools/list", "", Production, false, ``},
		"it can't be recorded":    {`{"tools":[` + write + `]}`, "tools/list", "", Production, true, ``},
		"a schema with a twin":    {`{"tools":[{"name":"x","inputSchema":{},"InputSchema":{}},` + write + `]}`, "tools/list", "", Production, false, `fs/write `},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture()
			h.profile, h.hidden = test.profile, map[string]bool{test.hidden: test.hidden != ""}
			if test.full {
				h.full = ErrUnrecorded
			}
			listener := &heard{}
			h.gate.Listener = listener
			a := h.gate.Attach(t.Context(), Shim{Attachment: "0123456789abcdef", Server: "fs", Requested: test.profile}, nil)
			verdicts := collect(a)
			a.Submit(Submission{Seq: 1, Side: wire.FromServer, Answers: test.answers, Line: []byte(`{"jsonrpc":"2.0","id":1,"result":` + test.result + `}`)})
			<-verdicts
			if got := strings.Join(listener.tools, ", "); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// Calls are counted together for all shims of an agent.
func TestCallsAreCounted(t *testing.T) {
	h := newFixture()
	calls := new(atomic.Int64)
	for _, id := range []string{"0123456789abcdef", "fedcba9876543210"} {
		a := h.gate.Attach(t.Context(), Shim{Attachment: id, Server: "fs", Calls: calls}, nil)
		verdicts := collect(a)
		for _, s := range []Submission{
			{Seq: 1, Side: wire.FromAgent, Line: []byte(aCall)},
			{Seq: 2, Side: wire.FromServer, Answers: "tools/list", Line: []byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`)},
			{Seq: 3, Side: wire.FromAgent, Line: []byte(aCall)},
		} {
			a.Submit(s)
			<-verdicts
		}
	}
	if got := calls.Load(); got != 4 {
		t.Errorf("counted %d, want 4", got)
	}
}
