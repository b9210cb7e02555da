package mcp

import (
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Rules of the wire that depend on the method. A code of 0 means accepted.
var checkCases = []struct {
	row, name string
	side      wire.Side
	line      string
	code      int
	mute      bool
	subject   string
}{
	{"acting notifications", "tools/call", agent, `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"x"}}`, -32600, true, ""},
	{"acting notifications", "resources/read", agent, `{"jsonrpc":"2.0","method":"resources/read","params":{"uri":"x:y"}}`, -32600, true, ""},
	{"acting notifications", "resources/subscribe", agent, `{"jsonrpc":"2.0","method":"resources/subscribe","params":{"uri":"x:y"}}`, -32600, true, ""},
	{"acting notifications", "prompts/get", agent, `{"jsonrpc":"2.0","method":"prompts/get","params":{"name":"x"}}`, -32600, true, ""},
	{"acting notifications", "tasks/update", agent, `{"jsonrpc":"2.0","method":"tasks/update","params":{"taskId":"x"}}`, -32600, true, ""},
	{"acting notifications", "sampling", server, `{"jsonrpc":"2.0","method":"sampling/createMessage","params":{}}`, -32600, true, ""},
	{"acting notifications", "tools/call from the server", server, `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"x"}}`, -32600, true, ""},
	{"acting notifications", "others", agent, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, 0, false, ""},

	{"without name or uri", "no params", agent, `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, -32602, false, ""},
	{"without name or uri", "no name", agent, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{}}}`, -32602, false, ""},
	{"without name or uri", "name in arguments", agent, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{"name":"x"}}}`, -32602, false, ""},
	{"without name or uri", "a number", agent, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":3}}`, -32602, false, ""},
	{"without name or uri", "an array", agent, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":["x"]}}`, -32602, false, ""},
	{"without name or uri", "null", agent, `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":null}}`, -32602, false, ""},
	{"without name or uri", "a name for a uri", agent, `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"name":"x"}}`, -32602, false, ""},
	{"without name or uri", "an object for a uri", agent, `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":{"x":1}}}`, -32602, false, ""},
	{"without name or uri", "skill without uri", agent, `{"jsonrpc":"2.0","id":1,"method":"skills/get","params":{}}`, -32602, false, ""},
	{"without name or uri", "directory without uri", agent, `{"jsonrpc":"2.0","id":1,"method":"resources/directory/read","params":{}}`, -32602, false, ""},
	{"without name or uri", "no ref", agent, `{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"argument":{}}}`, -32602, false, ""},
	{"without name or uri", "ref of no type", agent, `{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"name":"x"}}}`, -32602, false, ""},
	{"without name or uri", "ref of an unknown type", agent, `{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/tool","name":"x"}}}`, -32602, false, ""},
	{"without name or uri", "ref with a twin", agent, `{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"x","Name":"y"}}}`, -32602, false, ""},
	{"without name or uri", "no task", agent, `{"jsonrpc":"2.0","id":1,"method":"tasks/update","params":{}}`, -32602, false, ""},
	{"without name or uri", "subscriptions that are no list", agent, `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"notifications":{"resourceSubscriptions":"x:y"}}}`, -32602, false, ""},
	{"without name or uri", "subscriptions to no text", agent, `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"notifications":{"resourceSubscriptions":["x:y",1]}}}`, -32602, false, ""},

	{"unclear names", "empty", agent, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":""}}`, -32602, false, ""},
	{"unclear names", "NUL", agent, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm\u0000"}}`, -32602, false, ""},
	{"unclear names", "line feed", agent, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm\n"}}`, -32602, false, ""},
	{"unclear names", "escape", agent, `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"\u001b[2J"}}`, -32602, false, ""},
	{"unclear names", "C1 control", agent, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm\u0085"}}`, -32602, false, ""},
	{"unclear names", "right to left", agent, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\u202emr"}}`, -32602, false, ""},
	{"unclear names", "isolate", agent, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a\u2066b"}}`, -32602, false, ""},
	{"unclear names", "zero-width space", agent, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"r\u200bm"}}`, -32602, false, ""},
	{"unclear names", "joiner", agent, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"r\u200dm"}}`, -32602, false, ""},
	{"unclear names", "soft hyphen", agent, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"r\u00adm"}}`, -32602, false, ""},
	{"unclear names", "BOM", agent, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\ufeffrm"}}`, -32602, false, ""},
	{"unclear names", "tag characters", agent, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm\udb40\udc61"}}`, -32602, false, ""},
	{"unclear names", "variation selector", agent, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm\ufe0f"}}`, -32602, false, ""},
	{"unclear names", "filler", agent, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm\u3164"}}`, -32602, false, ""},
	{"unclear names", "line separator", agent, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm\u2028"}}`, -32602, false, ""},
	{"unclear names", "blank after", agent, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm "}}`, -32602, false, ""},
	{"unclear names", "blank before", agent, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":" rm"}}`, -32602, false, ""},
	{"unclear names", "no-break space", agent, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"r\u00a0m"}}`, -32602, false, ""},
	{"unclear names", "empty uri", agent, `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":""}}`, -32602, false, ""},
	{"unclear names", "control in a uri", agent, `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///a\u0000b"}}`, -32602, false, ""},
	{"unclear names", "line separator in a uri", agent, `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///a\u2028b"}}`, -32602, false, ""},
	{"unclear names", "control in a subscription", agent, `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"notifications":{"resourceSubscriptions":["a:b","a:\u0007"]}}}`, -32602, false, ""},

	{"clear names", "plain", agent, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_file"}}`, 0, false, "read_file"},
	{"clear names", "escaped", agent, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\u0072ead_file"}}`, 0, false, "read_file"},
	{"clear names", "other scripts", agent, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"読む file"}}`, 0, false, "読む file"},
	{"clear names", "prompt", agent, `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"p"}}`, 0, false, "p"},
	{"clear names", "uri", agent, `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:\/\/\/x y"}}`, 0, false, "file:///x y"},
	{"clear names", "skill", agent, `{"jsonrpc":"2.0","id":1,"method":"skills/get","params":{"uri":"skill://a/SKILL.md"}}`, 0, false, "skill://a/SKILL.md"},
	{"clear names", "completion of a prompt", agent, `{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"p"}}}`, 0, false, "p"},
	{"clear names", "completion of a template", agent, `{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/resource","uri":"x://{a}"}}}`, 0, false, "x://{a}"},
	{"clear names", "task", agent, `{"jsonrpc":"2.0","id":1,"method":"tasks/update","params":{"taskId":"t-1"}}`, 0, false, "t-1"},
	{"clear names", "subscriptions", agent, `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"notifications":{"resourceSubscriptions":["a:b"]}}}`, 0, false, ""},
	{"clear names", "subscriptions to lists only", agent, `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"notifications":{"toolsListChanged":true}}}`, 0, false, ""},
	{"clear names", "a method that has none", agent, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, 0, false, ""},
	{"clear names", "a method that nobody knows", agent, `{"jsonrpc":"2.0","id":1,"method":"acme/x","params":{"name":7}}`, 0, false, ""},

	{"requests of a modern server", "any", server, `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, -32600, true, ""},
	{"requests of a modern server", "legacy passes", server, `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`, 0, false, ""},
	{"answers", "pass", server, `{"jsonrpc":"2.0","id":1,"result":{}}`, 0, false, ""},
}

// A method that acts or asks in any era is never accepted as a notification, from either
// side: it would have no id for an answer, and nothing could be held.
func TestNothingActsWithoutAnID(t *testing.T) {
	acting := 0
	for k, rule := range rules {
		if !rule.Acting && !rule.Ask {
			continue
		}
		acting++
		for _, side := range []wire.Side{wire.FromAgent, wire.FromServer} {
			for _, modern := range []bool{false, true} {
				e := wire.Envelope{Kind: wire.Notification, Method: k.method, Modern: modern}
				if refusal := Check(side, &e, nil); refusal == nil || refusal.Answer {
					t.Errorf("%s of side %v, modern %v: %+v", k.method, side, modern, refusal)
				}
				if rule := Lookup(side, &e); rule.Treatment != Refuse {
					t.Errorf("%s of side %v, modern %v: looked up as %v", k.method, side, modern, rule.Treatment)
				}
			}
		}
	}
	if acting < 10 || !rules[key{"subscriptions/listen", wire.FromAgent, false, true}].Acting {
		t.Errorf("%d methods act", acting)
	}
}

func TestCheck(t *testing.T) {
	for _, c := range checkCases {
		t.Run(c.row+"/"+c.name, func(t *testing.T) {
			line := []byte(c.line)
			var e wire.Envelope
			if err := wire.Read(line, c.side, &e); err != nil {
				t.Fatal(err)
			}
			refusal := Check(c.side, &e, line)
			if c.code == 0 {
				if refusal != nil {
					t.Fatalf("refused: %v", refusal)
				}
				if got, err := SubjectOf(&e, line); err != nil || got != c.subject {
					t.Errorf("subject %q, %v; want %q", got, err, c.subject)
				}
				return
			}
			if refusal == nil {
				t.Fatal("passed")
			}
			if refusal.Code != c.code || refusal.Answer == c.mute || refusal.ID != e.ID {
				t.Errorf("refused with %d, answer %v, id %v", refusal.Code, refusal.Answer, refusal.ID)
			}
		})
	}
}

func TestListenURIs(t *testing.T) {
	line := []byte(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":[ "a:1", "b:\u0032" ,"c:3"],"toolsListChanged":true}}}`)
	var e wire.Envelope
	if err := wire.Read(line, agent, &e); err != nil {
		t.Fatal(err)
	}
	items, uris, err := ListenURIs(&e, line)
	if err != nil || len(uris) != 3 || uris[1] != "b:2" {
		t.Fatalf("%q, %v", uris, err)
	}
	cut, err := wire.Splice(line, items.Cut(func(i int) bool { return i == 1 })...)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":[ "a:1" ,"c:3"],"toolsListChanged":true}}}`
	if string(cut) != want {
		t.Errorf("got  %s\nwant %s", cut, want)
	}
}

func TestReferenceKind(t *testing.T) {
	for ref, want := range map[string]Subject{
		`{"type":"ref/prompt","name":"p"}`: Prompt, `{"type":"ref/resource","uri":"u"}`: Resource, `{"type":"x"}`: None, `{}`: None, `7`: None,
	} {
		line := []byte(`{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":` + ref + `}}`)
		var e wire.Envelope
		if err := wire.Read(line, agent, &e); err != nil {
			t.Fatal(err)
		}
		if got := ReferenceKind(&e, line); got != want {
			t.Errorf("%s: %d, want %d", ref, got, want)
		}
	}
}

// A name that is too long to be matched with every pattern is refused with that reason
// and withheld from lists.
func TestLongSubjects(t *testing.T) {
	for _, n := range []int{MaxSubject, MaxSubject + 1} {
		long := strings.Repeat("a", n)
		for _, about := range []string{
			`"method":"tools/call","params":{"name":"` + long + `"}`,
			`"method":"resources/read","params":{"uri":"` + long + `"}`,
			`"method":"prompts/get","params":{"name":"` + long + `"}`,
		} {
			line := []byte(`{"jsonrpc":"2.0","id":1,` + about + `}`)
			var e wire.Envelope
			if err := wire.Read(line, wire.FromAgent, &e); err != nil {
				t.Fatal(err)
			}
			refusal := Check(wire.FromAgent, &e, line)
			if is := refusal != nil && strings.Contains(refusal.Reason, "longer than 8192 bytes"); is != (n > MaxSubject) {
				t.Errorf("%.60s, %d bytes: %v", about, n, refusal)
			}
		}
		if ClearName(long) != (n <= MaxSubject) || ClearURI(long) != (n <= MaxSubject) {
			t.Errorf("%d bytes are clear: %v, %v", n, ClearName(long), ClearURI(long))
		}
	}
}
