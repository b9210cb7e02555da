package rpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// object returns an object with n members.
func object(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"%d":0`, i)
	}
	return "{" + b.String()[1:] + "}"
}

func show(m *Message) string {
	s := fmt.Sprintf("%d id=%s %s %s", m.Kind, m.ID, m.Method, m.Body)
	if m.Fault != nil {
		s += fmt.Sprintf(" fault %d %q %s", m.Fault.Code, m.Fault.Message, m.Fault.Data)
	}
	if m.Cancels != "" {
		s += " cancels " + m.Cancels
	}
	return strings.TrimRight(s, " ")
}

func TestDialects(t *testing.T) {
	tests := []struct {
		d     Dialect
		frame string
		want  string // empty: refused
	}{
		{JSONRPC{}, `{"jsonrpc":"2.0","id":"\u0031","method":"m","params":{"a":1}}`, `1 id="1 m {"a":1}`},
		{JSONRPC{}, "{\r\n  \"jsonrpc\": \"2.0\",\r\n  \"id\":\r\n 1,\n  \"result\":\n [1]\n}\n", `3 id=1  [1]`},
		{JSONRPC{}, `{"jsonrpc":"2.0","method":"m"}`, `2 id= m`},
		{JSONRPC{}, `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"a\ud83d","data":{"x":1}}}`, `4 id=1   fault -1 "a` + "\uFFFD" + `" {"x":1}`},
		{JSONRPC{}, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"7"}}`, `2 id= notifications/cancelled {"requestId":"7"} cancels "7`},
		{JSONRPC{}, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":null}}`, ``},
		{JSONRPC{}, `{"jsonrpc":"2.0","id":1,"result":1,"result":2}`, ``},
		{JSONRPC{}, `{"jsonrpc":"2.0","id":1,"result":1} {}`, ``},
		{JSONRPC{}, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"\n\"}", ``},
		{JSONRPC{}, `{"id":1,"result":1}`, ``},
		{JSONRPC{}, ``, ``},

		{TypedJSON{}, `{"type":"request","id":"req-1","method":"execute","params":[1]}`, `1 id="req-1 execute [1]`},
		{TypedJSON{}, `{"type":"request","id":5,"method":"execute"}`, `1 id=5 execute`},
		{TypedJSON{}, `{"type":"request","method":"log","params":"x"}`, `2 id= log "x"`},
		{TypedJSON{}, ` {"id":"a","delta":"word","type":"stream"} `, `5 id="a  "word"`},
		{TypedJSON{}, `{"type":"response","id":"a","result":{"x":1},"extra":1}`, `3 id="a  {"x":1}`},
		{TypedJSON{}, `{"type":"response","id":"a"}`, `3 id="a`},
		{TypedJSON{}, `{"type":"error","id":"a","error":"no"}`, `4 id="a   fault 0 "no"`},
		{TypedJSON{}, `{"type":"error","id":"a","error":{"message":"no","code":4}}`, `4 id="a   fault 4 "no"`},
		{TypedJSON{}, `{"type":"cancel","id":"a"}`, `2 id=   cancels "a`},
		{TypedJSON{}, `{"type":"error","id":"a"}`, ``},
		{TypedJSON{}, `{"type":"error","id":"a","error":7}`, ``},
		{TypedJSON{}, `{"type":"error","id":"a","error":{"code":"x"}}`, ``},
		{TypedJSON{}, `{"type":"stream","delta":"x"}`, ``},
		{TypedJSON{}, `{"type":"stream","id":"a"}`, ``},
		{TypedJSON{}, `{"type":"request","id":"a"}`, ``},
		{TypedJSON{}, `{"type":"request","id":"a","method":""}`, ``},
		{TypedJSON{}, `{"type":"request","id":"a","method":"a b"}`, ``},
		{TypedJSON{}, `{"type":"response","id":"a","result":1,"error":"x"}`, ``},
		{TypedJSON{}, `{"type":"response","id":"a","result":1,"delta":"x"}`, ``},
		{TypedJSON{}, `{"type":"response","id":"a","Result":1}`, ``},
		{TypedJSON{}, `{"type":"response","id":"a","id":"b","result":1}`, ``},
		{TypedJSON{}, `{"type":"response","id":"a","result":{"x":1,"x":2}}`, ``},
		{TypedJSON{}, `{"type":"response","id":null,"result":1}`, ``},
		{TypedJSON{}, `{"type":"response","id":1.5,"result":1}`, ``},
		{TypedJSON{}, `{"type":"Response","id":1,"result":1}`, ``},
		{TypedJSON{}, `{"type":7,"id":1,"result":1}`, ``},
		{TypedJSON{}, `{"id":1,"result":1}`, ``},
		{TypedJSON{}, `[{"type":"response","id":1,"result":1}]`, ``},
		{TypedJSON{}, `{"type":"response","id":1,"result":1}{}`, ``},
		{TypedJSON{}, "{\"type\":\"response\",\"id\":1,\"result\":\"\xff\"}", ``},
		{TypedJSON{}, `{"type":"response","id":1,"result":` + strings.Repeat("[", 1001) + strings.Repeat("]", 1001) + `}`, ``},
		{TypedJSON{}, `{"type":"response","id":1,"result":` + object(wire.MaxMembers+1) + `}`, ``},
		{TypedJSON{}, `"x"`, ``},
		{TypedJSON{}, ``, ``},
	}
	for _, test := range tests {
		frame := []byte(test.frame)
		m := Message{ID: "stale"}
		err := test.d.Decode(frame, &m)
		if test.want == "" {
			if err == nil {
				t.Errorf("%T: %.100s is %s", test.d, test.frame, show(&m))
			}
			continue
		}
		if err != nil || show(&m) != test.want {
			t.Errorf("%T: %s\n\tis   %s, %v\n\twant %s", test.d, test.frame, show(&m), err, test.want)
			continue
		}
		again(t, test.d, &m)
	}
}

// again checks that a dialect decodes what it encodes to the same message.
func again(t *testing.T, d Dialect, m *Message) {
	t.Helper()
	frame, err := d.Append([]byte("x"), m)
	if err != nil {
		t.Errorf("%T: write %s: %v", d, show(m), err)
		return
	}
	frame = frame[1:]
	if !json.Valid(frame) {
		t.Fatalf("%T: wrote %s", d, frame)
	}
	var back Message
	if err := d.Decode(frame, &back); err != nil {
		t.Fatalf("%T: %s: %v", d, frame, err)
	}
	if m.Kind == wire.Result && m.Body == nil {
		m.Body = []byte("null")
	}
	if show(m) != show(&back) {
		t.Errorf("%T: wrote %s, read %s", d, show(m), show(&back))
	}
}

func TestDialectsCantSay(t *testing.T) {
	for _, test := range []struct {
		d Dialect
		m Message
	}{
		{JSONRPC{}, Message{Kind: Part, ID: "1", Body: []byte("1")}},
		{JSONRPC{}, Message{}},
		{JSONRPC{}, Message{Kind: wire.Request, ID: "1", Method: "\xff"}},
		{TypedJSON{}, Message{Kind: wire.Result, Body: []byte("1")}},
		{TypedJSON{}, Message{ID: "1"}},
		{TypedJSON{}, Message{Kind: wire.Request, ID: "1", Method: "\xff"}},
	} {
		if frame, err := test.d.Append(nil, &test.m); err == nil {
			t.Errorf("%T wrote %s", test.d, frame)
		}
	}
}

func fuzzDialect(f *testing.F, d Dialect) {
	f.Fuzz(func(t *testing.T, frame []byte) {
		before := bytes.Clone(frame)
		var m Message
		if err := d.Decode(frame, &m); err != nil {
			return
		}
		if !json.Valid(frame) || !bytes.Equal(frame, before) {
			t.Fatalf("took %q", frame)
		}
		if m.Body != nil && !json.Valid(m.Body) {
			t.Fatalf("body %q", m.Body)
		}
		again(t, d, &m)
	})
}

// FuzzTyped checks that the typed dialect can encode every message that it decodes.
func FuzzTyped(f *testing.F) {
	for _, frame := range []string{
		`{"type":"request","id":"req-1","method":"execute","params":{}}`, `{"type":"stream","id":"req-1","delta":"x"}`,
		`{"type":"response","id":1,"result":null}`, `{"type":"error","id":"req-1","error":{"message":"x"}}`, `{"type":"cancel","id":"\u0061"}`,
	} {
		f.Add([]byte(frame))
	}
	fuzzDialect(f, TypedJSON{})
}

// FuzzJSONRPC is FuzzTyped for JSON-RPC.
func FuzzJSONRPC(f *testing.F) {
	for _, frame := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{}}`, "{\"jsonrpc\":\"2.0\",\n\"id\":\"a\",\"result\":[]}",
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x","data":1}}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
	} {
		f.Add([]byte(frame))
	}
	fuzzDialect(f, JSONRPC{})
}
