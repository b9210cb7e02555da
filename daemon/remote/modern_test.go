package remote

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// The examples of the specification, and what they leave open.
func TestHeaderValue(t *testing.T) {
	for text, want := range map[string]string{
		"us-west1":            "us-west1",
		"Hello, 世界":           "=?base64?SGVsbG8sIOS4lueVjA==?=",
		" padded ":            "=?base64?IHBhZGRlZCA=?=",
		"line1\nline2":        "=?base64?bGluZTEKbGluZTI=?=",
		"=?base64?literal?=":  "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=",
		"":                    "",
		"a b":                 "a b",
		"tab\tin":             "=?base64?dGFiCWlu?=",
		"=?base64?":           "=?base64?",
		"a\r\nX-Injected: 1":  "=?base64?YQ0KWC1JbmplY3RlZDogMQ==?=",
		"nbsp\u00a0":          "=?base64?bmJzcMKg?=",
		"file:///a?b=c#d%20e": "file:///a?b=c#d%20e",
	} {
		if got := headerValue(text); got != want {
			t.Errorf("%q is sent as %q, want %q", text, got, want)
		}
	}
}

// The headers repeat the bytes that are sent.
func TestModernHeaders(t *testing.T) {
	request := func(method, params string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `,` + meta + `}}`
	}
	mirrors := []mirror{{[]string{"region"}, "Region"}, {[]string{"a", "b"}, "Deep"}}
	for line, want := range map[string][]string{
		request("tools/call", `"name":"echo"`):                                                                {"Mcp-Name: echo"},
		request("tools/call", `"name":"\u0065cho"`):                                                           {"Mcp-Name: echo"},
		request("tools/call", `"name":"löschen"`):                                                             {"Mcp-Name: =?base64?bMO2c2NoZW4=?="},
		request("resources/read", `"uri":"file:///x","name":"y"`):                                             {"Mcp-Name: file:///x"},
		request("prompts/get", `"name":"p","uri":"u"`):                                                        {"Mcp-Name: p"},
		request("tools/list", `"name":"p"`):                                                                   nil,
		request("tools/call", `"name":"e","arguments":{"region":"eu\n1","a":{"b":true}}`):                     {"Mcp-Name: e", "Mcp-Param-Deep: true", "Mcp-Param-Region: =?base64?ZXUKMQ==?="},
		request("tools/call", `"name":"e","arguments":{"region":null,"a":{"b":42.0}}`):                        {"Mcp-Name: e", "Mcp-Param-Deep: 42"},
		request("tools/call", `"name":"e","arguments":{"region":-7,"a":[1]}`):                                 {"Mcp-Name: e", "Mcp-Param-Region: -7"},
		request("tools/call", `"name":"e","arguments":{"region":9007199254740991,"a":{}}`):                    {"Mcp-Name: e", "Mcp-Param-Region: 9007199254740991"},
		request("tools/call", `"name":"e","arguments":{"region":9007199254740993,"a":{"b":{}}}`):              {"Mcp-Name: e"},
		request("tools/call", `"name":"e","arguments":{"region":1.5,"a":{"b":1e400}}`):                        {"Mcp-Name: e"},
		request("tools/call", `"name":"e","arguments":{"region":"`+strings.Repeat("x", maxValueBytes+1)+`"}`): {"Mcp-Name: e"},
	} {
		var e wire.Envelope
		if err := wire.Read([]byte(line), wire.FromAgent, &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		h := http.Header{}
		setModern(h, []byte(line), &e, mirrors)
		var got []string
		for name, values := range h {
			if name != methodHeader && name != versionHeader {
				got = append(got, name+": "+strings.Join(values, "|"))
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%.200s (-want +got):\n%s", line, diff)
		}
		if h.Get(methodHeader) != e.Method || h.Get(versionHeader) != "2026-07-28" {
			t.Errorf("%.200s: headers %v", line, h)
		}
	}
}

func TestMirrors(t *testing.T) {
	tool := func(schema string) string { return `{"name":"e","inputSchema":` + schema + `}` }
	for definition, want := range map[string]string{
		tool(`{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"Region"},"q":{"type":"string"}}}`):                                        "[{[r] Region}]",
		tool(`{"properties":{"a":{"type":"object","properties":{"b":{"x-mcp-header":"B","type":"boolean"}}},"c":{"type":"integer","x-mcp-header":"b-2"}}}`): "[{[a b] B} {[c] b-2}]",
		tool(`{"properties":{"x-mcp-header":{"type":"string","x-mcp-header":"H"}}}`):                                                                        "[{[x-mcp-header] H}]",
		tool(`{"properties":{"r":{"type":"string"}}}`):                                                                                                      "[]",
		`{"name":"x-mcp-header"}`: "[]",
		tool(`{"properties":{"r":{"type":"number","x-mcp-header":"R"}}}`):                                          "error",
		tool(`{"properties":{"r":{"type":["string","null"],"x-mcp-header":"R"}}}`):                                 "error",
		tool(`{"properties":{"r":{"x-mcp-header":"R"}}}`):                                                          "error",
		tool(`{"properties":{"r":{"type":"object","x-mcp-header":"R"}}}`):                                          "error",
		tool(`{"type":"string","x-mcp-header":"R"}`):                                                               "error",
		tool(`{"properties":{"r":{"type":"string","x-mcp-header":""}}}`):                                           "error",
		tool(`{"properties":{"r":{"type":"string","x-mcp-header":7}}}`):                                            "error",
		tool(`{"properties":{"r":{"type":"string","x-mcp-header":"a b"}}}`):                                        "error",
		tool(`{"properties":{"r":{"type":"string","x-mcp-header":"a\r\nb"}}}`):                                     "error",
		tool(`{"properties":{"r":{"type":"string","x-mcp-header":"R"},"s":{"type":"string","x-mcp-header":"r"}}}`): "error",
		tool(`{"items":{"properties":{"r":{"type":"string","x-mcp-header":"R"}}}}`):                                "error",
		tool(`{"anyOf":[{"properties":{"r":{"type":"string","x-mcp-header":"R"}}}]}`):                              "error",
		tool(`{"properties":{"l":{"type":"array","items":{"type":"string","x-mcp-header":"R"}}}}`):                 "error",
		tool(`{"properties":["x-mcp-header"]}`):                                                                    "error",
		tool(`{"properties":[{"x-mcp-header":1}]}`):                                                                "error",
	} {
		got := "error"
		if mirrors, err := mirrorsOf([]byte(definition)); err == nil {
			got = fmt.Sprint(mirrors)
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", definition, got, want)
		}
	}
}

// modernServer answers calls of the tool echo whose header Mcp-Param-N has the value of n.
func modernServer(schema func() string, special map[string]handlerFunc) handlerFunc {
	return func(w http.ResponseWriter, r *http.Request, message string) {
		for part, h := range special {
			if strings.Contains(message, part) {
				h(w, r, message)
				return
			}
		}
		id := idOf(message)
		switch {
		case r.Method != http.MethodPost || r.Header.Get(sessionHeader) != "":
			w.WriteHeader(http.StatusMethodNotAllowed)
		case strings.Contains(message, "tools/list"):
			writeJSON(w, `{"jsonrpc":"2.0","id":`+id+`,"result":{"resultType":"complete","tools":[ {"name":"bad","inputSchema":{"x-mcp-header":1}} , {"name":"echo","inputSchema":`+schema()+`}],"ttlMs":1}}`)
		case r.Header.Get("Mcp-Param-N") != id || r.Header.Get(methodHeader) != "tools/call" || r.Header.Get(nameHeader) != "echo":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			writeJSON(w, `{"jsonrpc":"2.0","id":`+id+`,"error":{"code":-32020,"message":"Header mismatch"}}`)
		default:
			writeJSON(w, `{"jsonrpc":"2.0","id":`+id+`,"result":{"content":[]}}`)
		}
	}
}

const mirrored = `{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"}}}`

// A server whose headers are not as it wants is asked for its tools, once, and the call is repeated, once.
func TestHeaderMismatch(t *testing.T) {
	rec := record(modernServer(func() string { return mirrored }, nil))
	a := connect(t, serve(t, rec, true))
	line := strings.Replace(modernCall(1), `"_meta":{`, `"_meta":{"progressToken":7,`, 1)
	a.write(line)
	a.expect(`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
	lists := rec.requests("tools/list")
	if len(lists) != 1 || len(rec.requests("tools/call")) != 2 || strings.Contains(lists[0].body, "progressToken") || !strings.Contains(lists[0].body, "clientInfo") {
		t.Errorf("the server got %v", rec.requests(""))
	}
	a.write(modernCall(2))
	a.expect(`{"jsonrpc":"2.0","id":2,"result":{"content":[]}}`)
	if n := len(rec.requests("")); n != 4 {
		t.Errorf("the server got %d requests: what it wants is not remembered", n)
	}
	a.nothing()

	rec = record(modernServer(func() string { return `{}` }, nil))
	a = connect(t, serve(t, rec, true))
	a.write(modernCall(1))
	a.expect(`{"jsonrpc":"2.0","id":1,"error":{"code":-32020,"message":"Header mismatch"}}`)
	if n := len(rec.requests("")); n != 3 {
		t.Errorf("the server got %d requests, want two calls and a list", n)
	}
}

// A list that the agent asks for is remembered, too, and lacks tools that break the rules.
func TestListTeachesHeaders(t *testing.T) {
	rec := record(modernServer(func() string { return mirrored }, nil))
	a := connect(t, serve(t, rec, true))
	a.write(`{"jsonrpc":"2.0","id":"l","method":"tools/list","params":{` + meta + `}}`)
	a.expect(`{"jsonrpc":"2.0","id":"l","result":{"resultType":"complete","tools":[ {"name":"echo","inputSchema":` + mirrored + `}],"ttlMs":1}}`)
	a.write(modernCall(1))
	a.expect(`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
	if n := len(rec.requests("")); n != 2 {
		t.Errorf("the server got %d requests", n)
	}
}

// Closing the response is the cancellation. The agent gets nothing for it, and neither does the server
// get a message.
func TestModernCancel(t *testing.T) {
	closed := make(chan string, 4)
	wait := func(w http.ResponseWriter, r *http.Request, message string) {
		send := writeStream(w)
		send("id: 1\n" + event(note))
		<-r.Context().Done()
		closed <- idOf(message)
	}
	rec := record(modernServer(func() string { return `{}` }, map[string]handlerFunc{`"id":1,`: wait, "subscriptions/listen": wait}))
	a := connect(t, serve(t, rec, true))
	a.write(modernCall(1), `{"jsonrpc":"2.0","id":5,"method":"subscriptions/listen","params":{`+meta+`,"notifications":{"toolsListChanged":true}}}`)
	a.expect(note, note)
	a.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	if id := next(t, closed); id != "1" {
		t.Errorf("the stream of %s was closed", id)
	}
	a.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`)
	if id := next(t, closed); id != "5" {
		t.Errorf("the stream of %s was closed", id)
	}
	if n := len(rec.requests("")); n != 2 {
		t.Errorf("the server got %v", rec.requests(""))
	}
	a.nothing()
}

// The modern era has no streams that can be resumed.
func TestModernIsNotResumed(t *testing.T) {
	rec := record(modernServer(func() string { return `{}` }, map[string]handlerFunc{`"id":1,`: func(w http.ResponseWriter, _ *http.Request, _ string) {
		writeStream(w)("id: 1\n" + event(note))
	}}))
	a := connect(t, serve(t, rec, true))
	a.write(modernCall(1))
	a.expect(note)
	a.expectError("1", "may have been executed")
	if n := len(rec.requests("")); n != 1 {
		t.Errorf("the server got %v", rec.requests(""))
	}
}

// Errors of the server come back unchanged, with whatever status it sends them; an error without an id
// gets that of the request.
func TestErrors(t *testing.T) {
	discover := `{"jsonrpc":"2.0","id":"d","method":"server/discover","params":{` + meta + `}}`
	for body, want := range map[string]string{
		`{"jsonrpc":"2.0","id":"d","error":{"code":-32601,"message":"no","data":{"a":1.0}}}`:                 `{"jsonrpc":"2.0","id":"d","error":{"code":-32601,"message":"no","data":{"a":1.0}}}`,
		"{\"jsonrpc\":\"2.0\",\n\"id\":null,\r\n \"error\":{\"code\":-32000,\"message\":\"Bad Request\"}}\n": `{"jsonrpc":"2.0","id":"d","error":{"code":-32000,"message":"Bad Request"}}`,
		`{"jsonrpc":"2.0","error":{"code":-32000,"message":"no session"}}`:                                   `{"jsonrpc":"2.0","id":"d","error":{"code":-32000,"message":"no session"}}`,
		`{"jsonrpc":"2.0","id":"e","error":{"code":-32000,"message":"not yours"}}`:                           "",
		`{"error":"invalid_token"}`:              "",
		`{"jsonrpc":"2.0","id":"d","result":{}}`: "",
		`{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"},"error":{"code":2,"message":"y"}}`: "",
		`<html>`: "", "": "",
	} {
		for _, status := range []int{400, 401, 404, 405, 500} {
			rec := record(func(w http.ResponseWriter, _ *http.Request, _ string) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				writeJSON(w, body)
			})
			a := connect(t, serve(t, rec, false))
			a.write(discover)
			if want != "" {
				a.expect(want)
			} else {
				a.expectError(`"d"`, fmt.Sprint(status), "/mcp:")
			}
			if n := len(rec.requests("")); n != 1 {
				t.Errorf("the server got %v", rec.requests(""))
			}
		}
	}
}
