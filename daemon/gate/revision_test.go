package gate

import (
	"context"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// An unsupported revision is answered with those that the server supports or, if it was not
// asked, with all that are known.
func TestSupportedRevisions(t *testing.T) {
	const request = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2027-01-01"}}}`
	h := newFixture()
	h.ruling = Ruling{Move: Deny, Gate: "rule", Code: mcp.CodeUnknownRevision}
	a := h.gate.Attach(context.Background(), shimX, nil)
	defer a.Close(true)
	c := collect(a)
	a.Submit(Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(request)})
	if got, want := string((<-c).Answer), `"data":{"supported":["2024-11-05","2025-03-26","2025-06-18","2025-11-25","2026-07-28"],"requested":"2027-01-01"}`; !strings.Contains(got, want) {
		t.Errorf("before it was asked:\n got %s\nwant %s", got, want)
	}
	a.RecordMessage(context.Background(), wire.FromServer, "server/discover", []byte(`{"jsonrpc":"2.0","id":0,"result":{"supportedVersions":["2026-07-28","2025-11-25","2031-01-01"]}}`))
	a.Submit(Submission{Seq: 2, Side: wire.FromAgent, Line: []byte(request)})
	if got, want := string((<-c).Answer), `"data":{"supported":["2026-07-28","2025-11-25"],"requested":"2027-01-01"}`; !strings.Contains(got, want) {
		t.Errorf("after it was asked:\n got %s\nwant %s", got, want)
	}
}
