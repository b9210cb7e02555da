package mcp

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

const version = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`

// full is a denial with every field set.
var full = Denial{
	Code: CodePolicy, Text: "Not executed. Denied by policy `p`: \"quoted\"\n.", Gate: "permit", ErrorType: "policy_denied",
	Reason: "deletes need a person", Approval: "A-17", Correlation: "c-1", Policies: []string{"p", "q\"r"},
}

const fullData = `,"data":{"gate":"permit","error_type":"policy_denied","policies":["p","q\"r"],"reason":"deletes need a person","approval":"A-17","correlation_id":"c-1"}`
const fullText = `"Not executed. Denied by policy ` + "`p`" + `: \"quoted\"\n."`

func TestDeny(t *testing.T) {
	hidden := Denial{Hidden: true, Code: CodeRule, Text: "secret reason", Gate: "visible", Policies: []string{"p"}}
	gone := Denial{Code: CodeGate, Text: "gate unavailable"}
	accident := Denial{Code: CodeGate, Text: "no record", Gate: "accident"}
	tests := []struct {
		name string
		side wire.Side
		line string
		d    Denial
		want string
	}{
		{"a call, legacy", agent, `{"jsonrpc":"2.0","id":"a\u0041","method":"tools/call","params":{"name":"t"}}`, full,
			`{"jsonrpc":"2.0","id":"a\u0041","result":{"content":[{"type":"text","text":` + fullText + `}],"isError":true}}`},
		{"a call, modern", agent, `{"jsonrpc":"2.0","id":-7,"method":"tools/call","params":{"name":"t",` + version + `}}`, full,
			`{"jsonrpc":"2.0","id":-7,"result":{"content":[{"type":"text","text":` + fullText + `}],"isError":true,"resultType":"complete"}}`},
		{"a call as a task", agent, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","task":{"ttl":60}}}`, full,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-31002,"message":` + fullText + fullData + `}}`},
		{"a hidden tool", agent, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t\"x"}}`, hidden,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Unknown tool: t\"x"}}`},
		{"a hidden prompt", agent, `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"t"}}`, hidden,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Unknown prompt: t"}}`},
		{"a hidden resource, legacy", agent, `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"x:y"}}`, hidden,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"Resource not found: x:y"}}`},
		{"a hidden resource, modern", agent, `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"x:y",` + version + `}}`, hidden,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Resource not found: x:y"}}`},
		{"a read", agent, `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"x:y"}}`, full,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-31002,"message":` + fullText + fullData + `}}`},
		{"an unknown method", agent, `{"jsonrpc":"2.0","id":1,"method":"acme/x"}`, Denial{Code: CodeUnknownMethod, Text: "Method not found"},
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}`},
		{"the gate is gone", agent, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`, gone,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-31010,"message":"gate unavailable"}}`},
		{"an accident in the daemon", agent, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`, accident,
			`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"no record"}],"isError":true}}`},
		{"a notification", agent, `{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`, full, ``},

		{"sampling", server, `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}`, Denial{Code: CodeRule, Text: "x"},
			`{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"denied by policy"}}`},
		{"elicitation", server, `{"jsonrpc":"2.0","id":"e","method":"elicitation/create","params":{"mode":"url"}}`, full,
			`{"jsonrpc":"2.0","id":"e","result":{"action":"decline"}}`},
		{"roots", server, `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`, Denial{Code: CodeRule, Text: "x"},
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"roots are not available"}}`},

		{"the result of a call", server, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required"}}`,
			Denial{Code: CodeRule, Text: "x", Gate: "rule", Method: "tools/call", Modern: true},
			`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"x"}],"isError":true,"resultType":"complete"}}`},
		{"the result of a read", server, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required"}}`,
			Denial{Code: CodeRule, Text: "x", Method: "resources/read", Modern: true},
			`{"jsonrpc":"2.0","id":1,"error":{"code":-31001,"message":"x"}}`},
		{"an error without an id", server, `{"jsonrpc":"2.0","error":{"code":1,"message":"x"}}`, full, ``},

		{"text made of the rest", agent, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`,
			Denial{Code: CodePolicy, Gate: "permit", Policies: []string{"a", "b"}, Reason: "no.", Correlation: "c-2"},
			`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"Not executed. Denied by policy ` + "`a`, `b`" + `: no. Repeating the call will not help; ask the user. (c-2)"}],"isError":true}}`},
		{"text that is no text", agent, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`, Denial{Code: CodeRule, Text: "a\xffb\x00"},
			`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a` + "\uFFFD" + `b\u0000"}],"isError":true}}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			line := []byte(test.line)
			var e wire.Envelope
			if err := wire.Read(line, test.side, &e); err != nil {
				t.Fatal(err)
			}
			got := Deny(line, &e, test.d)
			if string(got) != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			if got != nil {
				readable(t, got, &e, line)
			}
		})
	}
}

// readable checks that the reader accepts an answer of this package.
func readable(t *testing.T, answer []byte, asked *wire.Envelope, line []byte) {
	t.Helper()
	var e wire.Envelope
	if err := wire.Read(answer, wire.FromAgent, &e); err != nil {
		t.Fatalf("%s: %v", answer, err)
	}
	if string(e.ID.Of(answer)) != string(asked.ID.Of(line)) {
		t.Errorf("%s answers another id than %s", answer, line)
	}
	if !json.Valid(answer) {
		t.Errorf("not JSON: %s", answer)
	}
}

func TestDenyLongName(t *testing.T) {
	line := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + strings.Repeat("é", 4<<20) + `"}}`)
	var e wire.Envelope
	if err := wire.Read(line, agent, &e); err != nil {
		t.Fatal(err)
	}
	got := Deny(line, &e, Denial{Hidden: true})
	if len(got) > 400 {
		t.Errorf("an answer of %d bytes", len(got))
	}
	readable(t, got, &e, line)
}

func TestRefuseUnread(t *testing.T) {
	got := RefuseUnread([]byte(`"x\ud83d\udc0d"`), CodeParse, `bad "line"`)
	if want := `{"jsonrpc":"2.0","id":"x\ud83d\udc0d","error":{"code":-32700,"message":"bad \"line\""}}`; string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := RefuseUnread(nil, CodeParse, "x"); got != nil {
		t.Errorf("an answer to nobody: %s", got)
	}
}

func TestRefuseRevision(t *testing.T) {
	line := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2031-01-01"}}}`)
	var e wire.Envelope
	if err := wire.Read(line, agent, &e); err != nil {
		t.Fatal(err)
	}
	want := `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28","2025-11-25"],"requested":"2031-01-01"}}}`
	if got := RefuseRevision(line, &e, []string{"2026-07-28", "2025-11-25"}); string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
