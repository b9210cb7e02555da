package mcp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

func TestKnownRevision(t *testing.T) {
	for version, want := range map[string]bool{
		`"2026-07-28"`: true, `"2025-11-25"`: true, `"2026-07-2\u0038"`: true,
		`"2027-01-01"`: false, `""`: false, `"2026-07-28 "`: false, `"draft"`: false,
	} {
		line := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":` + version + `}}}`)
		var e wire.Envelope
		if err := wire.Read(line, agent, &e); err != nil {
			t.Fatal(err)
		}
		if got := KnownRevision(&e, line); got != want {
			t.Errorf("%s: %v, want %v", version, got, want)
		}
	}
	if !KnownRevision(&wire.Envelope{Kind: wire.Request, Method: "ping"}, nil) {
		t.Error("a request of the legacy era, which names no revision, is not known")
	}
}

func TestSupported(t *testing.T) {
	for members, want := range map[string]string{
		`"supportedVersions":["2026-07-28","2025-11-25"]`:   "2026-07-28 2025-11-25",
		`"supportedVersions":["2027-01-01",5,"2025-11-25"]`: "2025-11-25",
		`"supportedVersions":"2026-07-28"`:                  "",
		`"capabilities":{}`:                                 "",
	} {
		line := []byte(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":{%s}}`, members))
		var e wire.Envelope
		if err := wire.Read(line, server, &e); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(Supported(&e, line), " "); got != want {
			t.Errorf("%s: %q, want %q", members, got, want)
		}
	}
	if got := Supported(&wire.Envelope{Kind: wire.Error}, nil); got != nil {
		t.Errorf("an error names %q", got)
	}
}

// A client that uses an unknown revision is told the supported ones, whatever it
// requested.
func TestDenyRevision(t *testing.T) {
	line := []byte(`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2027-01-01"},"name":"t"}}`)
	var e wire.Envelope
	if err := wire.Read(line, agent, &e); err != nil {
		t.Fatal(err)
	}
	got := string(Deny(line, &e, Denial{Code: CodeUnknownRevision, Gate: "rule", Supported: []string{"2026-07-28"}}))
	want := `{"jsonrpc":"2.0","id":"a","error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28"],"requested":"2027-01-01"}}}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
