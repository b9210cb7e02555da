package mcp

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// fate describes what happens to one line of a stream: its treatment and subject, or why
// it is refused and who gets the refusal.
func fate(side wire.Side, l *wire.Line, modern bool) string {
	if l.Refusal != nil {
		return refused(l.Refusal, l.ID, !l.Answers)
	}
	var e wire.Envelope
	if err := wire.Read(l.Data, side, &e); err != nil {
		var r *wire.Refusal
		errors.As(err, &r)
		return refused(r, r.ID.Of(l.Data), r.Answer)
	}
	if !l.Terminated {
		return "whole"
	}
	if side == server {
		e.Modern = e.Modern || modern
	}
	if r := Check(side, &e, l.Data); r != nil {
		return refused(r, r.ID.Of(l.Data), r.Answer)
	}
	if e.Kind == wire.Result || e.Kind == wire.Error {
		return fmt.Sprintf("%v %s", e.Kind, e.Key(l.Data))
	}
	rule := Lookup(side, &e)
	text := map[Treatment]string{Pass: "pass", Judge: "judge", Filter: "filter", Inspect: "inspect", Refuse: "refuse"}[rule.Treatment]
	if rule.Unknown {
		text += " unknown"
	}
	if subject, _ := SubjectOf(&e, l.Data); subject != "" {
		text += " " + subject
	}
	return text
}

func refused(r *wire.Refusal, id []byte, answer bool) string {
	switch {
	case len(id) == 0:
		return "refused"
	case answer:
		return fmt.Sprintf("refused, answer %d to %s", r.Code, id)
	}
	return fmt.Sprintf("refused, answered %s", id)
}

// The classes of hostile messages. A valid message follows each; it must pass unaffected.
var hostile = []struct {
	class, name string
	side        wire.Side
	modern      bool
	send        string
	want        []string
}{
	{"good.agent", "a call", agent, false, `{"jsonrpc":"2.0","id":101,"method":"tools/call","params":{"name":"list_dir","arguments":{"path":"src"}}}` + "\n", []string{"judge list_dir"}},
	{"good.agent", "odd order and blanks", agent, false, "\t{ \"params\" : {\"name\":\"list_dir\"} ,\"method\":\"tools/call\", \"id\":\"q\",\"jsonrpc\":\"2.0\"} \n", []string{"judge list_dir"}},
	{"good.agent", "numbers kept as text", agent, false, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"n","arguments":{"v":[0.10,1E5,-0,31415926535897932384626]}}}` + "\n", []string{"judge n"}},
	{"good.agent", "a message quoted in an argument", agent, false, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"n","arguments":{"v":"\r\n{\"method\":\"tools/call\"}"}}}` + "\n", []string{"judge n"}},
	{"good.agent", "line separators", agent, false, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"n\",\"arguments\":{\"v\":\"\u2028\u0085\"}}}\n", []string{"judge n"}},
	{"good.agent", "CRLF", agent, false, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r\n", []string{"pass"}},
	{"good.agent", "blank lines between", agent, false, "\r\n \n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\n", []string{"pass"}},
	{"good.agent", "an answer", agent, false, `{"jsonrpc":"2.0","id":"srv-1","result":{"roots":[{"uri":"file:///"}]}}` + "\n", []string{`result "srv-1`}},
	{"good.agent", "a cancellation", agent, false, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":101}}` + "\n", []string{"pass"}},
	{"good.server", "a result", server, false, `{"jsonrpc":"2.0","id":101,"result":{"content":[{"type":"text","text":"cut \ud83d"}]}}` + "\n", []string{"result 101"}},
	{"good.server", "an error without an id", server, false, `{"jsonrpc":"2.0","error":{"code":-32700,"message":"?"}}` + "\n", []string{"error "}},
	{"good.server", "sampling (EC-STDIO-019)", server, false, `{"jsonrpc":"2.0","id":0,"method":"sampling/createMessage","params":{"messages":[],"maxTokens":9}}` + "\n", []string{"judge"}},
	{"good.server", "list changed (EC-STDIO-020)", server, false, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n", []string{"pass"}},

	{"encoding", "half a character", agent, false, "{\"jsonrpc\":\"2.0\",\"id\":102,\"method\":\"tools/call\",\"params\":{\"name\":\"\xe3\x81\"}}\n", []string{"refused, answer -32700 to 102"}},
	{"encoding", "overlong quote", agent, false, "{\"jsonrpc\":\"2.0\",\"id\":102,\"method\":\"tools/call\",\"params\":{\"name\":\"a\xc0\xa2b\"}}\n", []string{"refused, answer -32700 to 102"}},
	{"encoding", "lone surrogate", agent, false, `{"jsonrpc":"2.0","id":102,"method":"tools/call","params":{"name":"n","arguments":{"v":"\uDE00"}}}` + "\n", []string{"refused, answer -32700 to 102"}},
	{"encoding", "BOM", agent, false, "\ufeff{\"jsonrpc\":\"2.0\",\"id\":102,\"method\":\"ping\"}\n", []string{"refused, answer -32700 to 102"}},

	{"syntax", "comment (EC-STDIO-015)", agent, false, `{"jsonrpc":"2.0","id":103,/*x*/"method":"tools/call","params":{"name":"n"}}` + "\n", []string{"refused, answer -32700 to 103"}},
	{"syntax", "single quotes", agent, false, `{'jsonrpc':'2.0','id':103,'method':'ping'}` + "\n", []string{"refused"}},
	{"syntax", "cut short", agent, false, `{"jsonrpc":"2.0","id":103,"method":"tools/call","params":{"name":"n"}` + "\n", []string{"refused, answer -32700 to 103"}},

	{"framing", "batch (EC-STDIO-035)", agent, false, `[{"jsonrpc":"2.0","id":104,"method":"tools/call","params":{"name":"n"}}]` + "\n", []string{"refused"}},
	{"framing", "two on a line", agent, false, `{"jsonrpc":"2.0","id":104,"method":"ping"}{"jsonrpc":"2.0","id":105,"method":"tools/call","params":{"name":"n"}}` + "\n", []string{"refused"}},
	{"framing", "bare CR", agent, false, "{\"jsonrpc\":\"2.0\",\"id\":104,\"method\":\"ping\"}\r{\"jsonrpc\":\"2.0\",\"id\":105,\"method\":\"tools/call\",\"params\":{\"name\":\"n\"}}\n", []string{"refused"}},
	{"framing", "split between tokens", agent, false, "{\"jsonrpc\":\"2.0\",\n\"id\":104,\"method\":\"tools/call\",\n\"params\":{\"name\":\"n\"}}\n", []string{"refused", "refused", "refused"}},
	{"framing", "split inside a string", agent, false, "{\"jsonrpc\":\"2.0\",\"id\":104,\"method\":\"tools/call\",\"params\":{\"name\":\"a\nb\"}}\n", []string{"refused, answer -32700 to 104", "refused"}},
	{"framing", "too deep", agent, false, `{"jsonrpc":"2.0","id":104,"method":"tools/call","params":{"name":"n","arguments":{"v":` + strings.Repeat(`[{"x":`, 600) + "0" + strings.Repeat("}]", 600) + "}}}\n", []string{"refused, answer -32600 to 104"}},
	{"framing", "too long, id at the end", agent, false, `{"method":"tools/call","params":{"name":"n","arguments":{"v":"` + strings.Repeat("v", wire.MaxMessage) + `"}},"jsonrpc":"2.0","id":104}` + "\n", []string{"refused, answer -32600 to 104"}},
	{"framing", "header lines", agent, false, "Content-Length: 40\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":104,\"method\":\"ping\"}\n", []string{"refused", "pass"}},

	{"names", "twice", agent, false, `{"jsonrpc":"2.0","id":105,"method":"tools/call","params":{"name":"safe","name":"rm"}}` + "\n", []string{"refused, answer -32700 to 105"}},
	{"names", "twice, escaped", agent, false, `{"jsonrpc":"2.0","id":105,"method":"tools/call","params":{"name":"safe","\u006e\u0061\u006d\u0065":"rm"}}` + "\n", []string{"refused, answer -32700 to 105"}},
	{"names", "twice, deep", agent, false, `{"jsonrpc":"2.0","id":105,"method":"tools/call","params":{"name":"n","arguments":{"a":[{"b":{"c":1,"d":2,"c":3}}]}}}` + "\n", []string{"refused, answer -32700 to 105"}},
	{"names", "case", agent, false, `{"jsonrpc":"2.0","id":105,"method":"ping","Params":{"name":"rm"},"METHOD":"tools/call"}` + "\n", []string{"refused, answer -32600 to 105"}},
	{"names", "folded", agent, false, `{"jsonrpc":"2.0","id":105,"method":"tools/call","params":{"name":"n","argumentſ":{"x":1}}}` + "\n", []string{"refused, answer -32600 to 105"}},
	{"names", "NUL", agent, false, `{"jsonrpc":"2.0","id":105,"method":"tools/call","params":{"name":"safe","name\u0000":"rm"}}` + "\n", []string{"refused, answer -32600 to 105"}},
	{"names", "in arguments they are the tool's", agent, false, `{"jsonrpc":"2.0","id":105,"method":"tools/call","params":{"name":"n","arguments":{"Name":1,"name":2,"NAME ":3}}}` + "\n", []string{"judge n"}},

	{"envelope", "version", agent, false, `{"jsonrpc":"2","id":106,"method":"tools/call","params":{"name":"n"}}` + "\n", []string{"refused, answer -32600 to 106"}},
	{"envelope", "no version (EC-STDIO-016)", agent, false, `{"id":106,"method":"tools/call","params":{"name":"n"}}` + "\n", []string{"refused, answer -32600 to 106"}},
	{"envelope", "id with an exponent", agent, false, `{"jsonrpc":"2.0","id":1e2,"method":"tools/call","params":{"name":"n"}}` + "\n", []string{"refused"}},
	{"envelope", "id of an array", agent, false, `{"jsonrpc":"2.0","id":[106],"method":"tools/call","params":{"name":"n"}}` + "\n", []string{"refused"}},
	{"envelope", "method of null", agent, false, `{"jsonrpc":"2.0","id":106,"method":null,"params":{"name":"n"}}` + "\n", []string{"refused, answer -32600 to 106"}},
	{"envelope", "method with a blank", agent, false, `{"jsonrpc":"2.0","id":106,"method":"tools/call\u0020","params":{"name":"n"}}` + "\n", []string{"refused, answer -32600 to 106"}},
	{"envelope", "params of text", agent, false, `{"jsonrpc":"2.0","id":106,"method":"tools/call","params":"{}"}` + "\n", []string{"refused, answer -32602 to 106"}},
	{"envelope", "arguments of an array", agent, false, `{"jsonrpc":"2.0","id":106,"method":"tools/call","params":{"name":"n","arguments":[]}}` + "\n", []string{"refused, answer -32602 to 106"}},
	{"envelope", "no name", agent, false, `{"jsonrpc":"2.0","id":106,"method":"tools/call","params":{"tool":"n"}}` + "\n", []string{"refused, answer -32602 to 106"}},
	{"envelope", "a call without an id", agent, false, `{"jsonrpc":"2.0","method":"prompts/get","params":{"name":"n"}}` + "\n", []string{"refused"}},
	{"envelope", "request and answer", agent, false, `{"jsonrpc":"2.0","id":106,"method":"tools/call","params":{"name":"n"},"result":{}}` + "\n", []string{"refused, answer -32600 to 106"}},
	{"envelope", "neither (EC-STDIO-017)", agent, false, `{"jsonrpc":"2.0","params":{"x":1}}` + "\n", []string{"refused"}},

	{"policy", "escaped name", agent, false, `{"jsonrpc":"2.0","id":107,"method":"\u0074ools/call","params":{"n\u0061me":"\u0066orbidden"}}` + "\n", []string{"judge forbidden"}},
	{"policy", "zero width in the name", agent, false, `{"jsonrpc":"2.0","id":107,"method":"tools/call","params":{"name":"for\u200bbidden"}}` + "\n", []string{"refused, answer -32602 to 107"}},
	{"policy", "blank after the name", agent, false, `{"jsonrpc":"2.0","id":107,"method":"tools/call","params":{"name":"forbidden\t"}}` + "\n", []string{"refused, answer -32602 to 107"}},
	{"policy", "another case of the method", agent, false, `{"jsonrpc":"2.0","id":107,"method":"Tools/Call","params":{"name":"forbidden"}}` + "\n", []string{"judge unknown"}},
	{"policy", "as a request of the other side", agent, false, `{"jsonrpc":"2.0","id":107,"method":"elicitation/create","params":{}}` + "\n", []string{"refuse"}},

	{"framing.server", "a log line", server, false, "WARN deprecated \"x\n", []string{"refused"}},
	{"framing.server", "a log line that quotes an answer", server, false, `< {"jsonrpc":"2.0","id":108,"result":{}}` + "\n", []string{"refused"}},
	{"framing.server", "an answer inside a text (EC-STDIO-018)", server, false,
		"{\"jsonrpc\":\"2.0\",\"id\":108,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"so:\n{\"jsonrpc\":\"2.0\",\"id\":109,\"result\":{}}\n{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\"}]}}\n",
		[]string{"refused, answered 108", "refused", "refused", "refused"}},
	{"framing.server", "CR inside an answer", server, false, "{\"jsonrpc\":\"2.0\",\"id\":108,\r\"result\":{}}\n", []string{"refused, answered 108"}},
	{"framing.server", "a result and an error", server, false, `{"jsonrpc":"2.0","id":108,"result":{},"error":{"code":1,"message":"x"}}` + "\n", []string{"refused, answered 108"}},
	{"framing.server", "an error of text", server, false, `{"jsonrpc":"2.0","id":108,"error":"boom"}` + "\n", []string{"refused, answered 108"}},
	{"framing.server", "a batch of answers", server, false, `[{"jsonrpc":"2.0","id":108,"result":{}}]` + "\n", []string{"refused"}},

	{"server.request", "an agent's method", server, false, `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///etc/passwd"}}` + "\n", []string{"refuse file:///etc/passwd"}},
	{"server.request", "nobody's method", server, false, `{"jsonrpc":"2.0","id":1,"method":"acme/run","params":{}}` + "\n", []string{"judge unknown"}},
	{"server.request", "sampling without an id", server, false, `{"jsonrpc":"2.0","method":"sampling/createMessage","params":{}}` + "\n", []string{"refused"}},
	{"server.request", "a mode that some would see", server, false, `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"mode":"form","MODE":"url","url":"https://x"}}` + "\n", []string{"refused, answer -32600 to 1"}},

	{"modern", "a call", agent, true, `{"jsonrpc":"2.0","id":110,"method":"tools/call","params":{` + version + `,"name":"n"}}` + "\n", []string{"judge n"}},
	{"modern", "ping is gone", agent, true, `{"jsonrpc":"2.0","id":110,"method":"ping","params":{` + version + `}}` + "\n", []string{"judge unknown"}},
	{"modern", "a request from the server", server, true, `{"jsonrpc":"2.0","id":110,"method":"roots/list"}` + "\n", []string{"refused, answered 110"}},
	{"modern", "two types of a result", server, true, `{"jsonrpc":"2.0","id":110,"result":{"resultType":"complete","resulttype":"input_required","inputRequests":{}}}` + "\n", []string{"refused, answered 110"}},
	{"modern", "a version of a number", agent, true, `{"jsonrpc":"2.0","id":110,"method":"tools/call","params":{"name":"n","_meta":{"io.modelcontextprotocol/protocolVersion":2026}}}` + "\n", []string{"refused, answer -32602 to 110"}},
}

func TestHostile(t *testing.T) {
	good := map[wire.Side][2]string{
		agent:  {`{"jsonrpc":"2.0","id":"good","method":"resources/list"}`, "filter"},
		server: {`{"jsonrpc":"2.0","id":"good","result":{}}`, `result "good`},
	}
	for _, c := range hostile {
		t.Run(c.class+"/"+c.name, func(t *testing.T) {
			reader := wire.NewReader(strings.NewReader(c.send+good[c.side][0]+"\n"), 0)
			var got []string
			var l wire.Line
			for reader.Next(&l) == nil {
				got = append(got, fate(c.side, &l, c.modern))
			}
			want := append(c.want[:len(c.want):len(c.want)], good[c.side][1])
			if strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
			}
		})
	}
}
