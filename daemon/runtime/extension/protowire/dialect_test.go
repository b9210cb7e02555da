package protowire

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/thoughtgate/thoughtgated/internal/rpc"
	"github.com/thoughtgate/thoughtgated/internal/wire"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/extension/v1"
)

// said is a request, answer or notification with its body.
type said struct {
	kind   wire.Kind
	method string // of an answer: that of its request
	body   string
}

const call = `"call":{"id":"c-1","session":"s","agent":"claude-code","server":"fs","method":"tools/call","tool":"write_file",` +
	`"arguments":{"path":"/a\u0062",  "n": 1.50, "half":"\ud83d"},"project":"/home/me","profile":"production","facts":["outside","secret"]}`

var conversation = []said{
	{wire.Request, "initialize", `{"thoughtgate_version":"0.2.0","protocol_version":1,"name":"quota","root":"/ext/quota","config":{"a":"1","b":""}}`},
	{wire.Result, "initialize", `{"protocol_version":1,"capabilities":{"tools":[{"name":"t","description":"d","input_schema":{"type":"object"}}],` +
		`"providers":[{"id":"p","display_name":"P","description":"d","models":[{"id":"m","display_name":"M","capabilities":{"tools":true},"context_window":8192}],"config_schema":{}}],` +
		`"capabilities":[{"kind":"capture","name":"n","permissions":["tools"],"params":null}]}}`},
	{wire.Request, "hook.before", `{` + call + `}`},
	{wire.Result, "hook.before", `{"action":"continue"}`},
	{wire.Result, "hook.before", `{"action":"modify","arguments":{"path":"x"}}`},
	{wire.Result, "hook.before", `{"action":"block","reason":"no\nmore"}`},
	{wire.Request, "hook.after", `{` + call + `,"result":{"content":[ ],"isError":false}}`},
	{wire.Result, "hook.after", `{"action":"modify","result":{"content":[{"type":"text","text":"\u0041"}]}}`},
	{wire.Request, "tool.call", `{"name":"t","input":{"x":[1e400]}}`},
	{wire.Result, "tool.call", `{"content":[{"type":"text","text":"hi"}],"isError":true}`},
	{wire.Request, "provider.complete", `{"provider_id":"p","model_id":"m","model":"p:m","messages":[{"role":"user","content":"x"},7],"system_prompt":"s","tools":[],"temperature":0.25,"max_tokens":100,"thinking_budget":5}`},
	{wire.Result, "provider.complete", `{"content":[{"type":"text","text":"x"}],"stop_reason":"end_turn","usage":{"in":1}}`},
	{wire.Request, "provider.stream", `{"provider_id":"p","model_id":"m","model":"p:m","messages":[],"tools":[],"thinking_budget":0,"request_id":"r"}`},
	{wire.Result, "provider.stream", `{"content":[]}`},
	{wire.Request, "command.invoke", `{"command":"show","args":["a",""],"request_id":"r1"}`},
	{wire.Result, "command.invoke", `{"exit_code":-3}`},
	{wire.Request, "shutdown", `{}`},
	{wire.Result, "shutdown", `{}`},
	{wire.Notification, "config.changed", `{"key":"limit","value":"4"}`},
	{wire.Request, "memory.append", `{"namespace":"quota","content":"x","tags":["a"],"meta":{"n":1}}`},
	{wire.Result, "memory.append", `{"ok":true,"timestamp_ms":1795000000000}`},
	{wire.Request, "memory.query", `{"namespace":"quota","content_contains":"x","tag_prefix":"a","since_ms":-1,"until_ms":2,"limit":3}`},
	{wire.Result, "memory.query", `{"records":[{"namespace":"quota","timestamp_ms":1,"content":"x","tags":[],"meta":[1]}]}`},
	{wire.Request, "config.get", `{"key":"limit"}`},
	{wire.Result, "config.get", `{"value":"3"}`},
	{wire.Request, "config.set", `{"key":"limit","value":"3"}`},
	{wire.Result, "config.set", `{"ok":true}`},
	{wire.Request, "config.subscribe", `{}`},
	{wire.Result, "config.subscribe", `{"ok":false}`},
	{wire.Notification, "provider.stream.event", `{"request_id":"7","event":{"type":"text","delta":"x"}}`},
	{wire.Notification, "command.output", `{"request_id":"r1","event":{"kind":"done"}}`},
	{wire.Notification, "task.start", `{"id":"t","label":"Counting","kind":"generic"}`},
	{wire.Notification, "task.update", `{"id":"t","current":50,"total":100,"message":"half"}`},
	{wire.Notification, "task.log", `{"id":"t","line":"..."}`},
	{wire.Notification, "task.done", `{"id":"t","error":"no"}`},
}

// message returns s as it is written by the side that sent request 5, or by the side that
// received it.
func (s said) message() rpc.Message {
	m := rpc.Message{Kind: s.kind, Method: s.method, Body: []byte(s.body)}
	switch s.kind {
	case wire.Request:
		m.ID = "5"
	case wire.Result:
		m.ID, m.Method = fmt.Sprint(5<<8|int(numbers[s.method])), ""
	}
	return m
}

// TestConversation sends every message of the protocol and expects every body to arrive byte
// for byte.
func TestConversation(t *testing.T) {
	used := map[string]bool{}
	for _, s := range conversation {
		used[s.method] = true
		m := s.message()
		frame, err := Dialect{}.Append([]byte("x"), &m)
		if err != nil {
			t.Errorf("%s: %v", s.method, err)
			continue
		}
		var got rpc.Message
		if err := (Dialect{}).Decode(frame[1:], &got); err != nil {
			t.Errorf("%s: %v", s.method, err)
			continue
		}
		want := m
		switch s.kind { // the id of the same request differs on each side
		case wire.Request:
			want.ID = fmt.Sprint(5<<8 | int(numbers[s.method]))
		case wire.Result:
			want.ID = "5"
		}
		if got.Kind != want.Kind || got.ID != want.ID || got.Method != want.Method || string(got.Body) != s.body {
			t.Errorf("%s %s\nis   %s %q %s\nwant %s %q %s", s.kind, s.method, got.Kind, got.ID, got.Body, want.Kind, want.ID, s.body)
		}
	}
	for _, method := range methods {
		if !used[method] {
			t.Errorf("%s is never said", method)
		}
	}
}

func TestFaultsAndCancels(t *testing.T) {
	for _, fault := range []rpc.Fault{
		{Code: -32602, Message: "permission denied: memory.write required"},
		{Code: 1 << 40, Message: "", Data: []byte(`{"a":[1]}`)},
	} {
		m := rpc.Message{Kind: wire.Error, ID: fmt.Sprint(9<<8 | 60), Fault: &fault}
		frame, err := Dialect{}.Append(nil, &m)
		if err != nil {
			t.Fatal(err)
		}
		var got rpc.Message
		if err := (Dialect{}).Decode(frame, &got); err != nil {
			t.Fatal(err)
		}
		if got.Kind != wire.Error || got.ID != "9" || got.Fault.Code != fault.Code || got.Fault.Message != fault.Message || !bytes.Equal(got.Fault.Data, fault.Data) {
			t.Errorf("%+v, %+v; want %+v", got, got.Fault, fault)
		}
	}
	m, ok := Dialect{}.Cancel("9", "tool.call")
	if !ok {
		t.Fatal("a call can't be taken back")
	}
	frame, err := Dialect{}.Append(nil, &m)
	if err != nil {
		t.Fatal(err)
	}
	var got rpc.Message
	if err := (Dialect{}).Decode(frame, &got); err != nil || got.Kind != wire.Notification || got.Cancels != fmt.Sprint(9<<8|13) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, method := range []string{"initialize", "config.changed", "nothing"} {
		if m, ok := (Dialect{}).Cancel("9", method); ok {
			t.Errorf("%s is taken back as %+v", method, m)
		}
	}
}

// TestDocumentedFrame tests the frame in docs/writing-extensions.md.
func TestDocumentedFrame(t *testing.T) {
	m := rpc.Message{Kind: wire.Result, ID: "1291", Body: []byte(`{"action":"continue"}`)}
	frame, err := Dialect{}.Append(nil, &m)
	if err != nil {
		t.Fatal(err)
	}
	var framed bytes.Buffer
	err = wire.NewWriter(&framed, wire.Length32{}).Write(frame)
	if got, want := fmt.Sprintf("% x", framed.Bytes()), "00 00 00 08 08 8b 0a fa 01 02 08 01"; err != nil || got != want {
		t.Errorf("%s, %v; the page says %s", got, err, want)
	}
}

// TestNull tests JSON null, which is an absent field in protobuf.
func TestNull(t *testing.T) {
	m := rpc.Message{Kind: wire.Result, ID: fmt.Sprint(1<<8 | 62), Body: []byte(`{"value":null}`)}
	frame, err := Dialect{}.Append(nil, &m)
	if err != nil {
		t.Fatal(err)
	}
	var got rpc.Message
	if err := (Dialect{}).Decode(frame, &got); err != nil || string(got.Body) != "{}" {
		t.Errorf("%s, %v", got.Body, err)
	}
}

func frameOf(t *testing.T, f *pb.Frame) []byte {
	t.Helper()
	frame, err := proto.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return frame
}

func TestRefused(t *testing.T) {
	const before, beforeAnswer = 5<<8 | 11, 5<<8 | 11
	continues := &pb.Frame{Id: beforeAnswer, Body: &pb.Frame_BeforeAnswer{BeforeAnswer: &pb.BeforeAnswer{Action: pb.Action_ACTION_CONTINUE}}}
	good := frameOf(t, continues)
	if err := (Dialect{}).Decode(good, new(rpc.Message)); err != nil {
		t.Fatal(err)
	}
	frame := func(id uint64, change func(f *pb.Frame)) []byte {
		f := &pb.Frame{Id: id}
		change(f)
		return frameOf(t, f)
	}
	answer := func(id uint64, a *pb.AfterAnswer) []byte {
		return frame(id, func(f *pb.Frame) { f.Body = &pb.Frame_AfterAnswer{AfterAnswer: a} })
	}
	nested := protowire.AppendBytes(protowire.AppendTag(nil, 31, protowire.BytesType), []byte{8, 1, 0x98, 6, 1}) // a field 99 inside
	for name, bad := range map[string][]byte{
		"nothing":                    {},
		"no id":                      frame(0, func(f *pb.Frame) { f.Body = continues.Body }),
		"an id of nothing":           frame(5<<8, func(f *pb.Frame) { f.Body = continues.Body }),
		"an id without a number":     frame(11, func(f *pb.Frame) { f.Body = continues.Body }),
		"an id past 63 bits":         frame(1<<63|11, func(f *pb.Frame) { f.Body = continues.Body }),
		"an answer to another":       answer(before, &pb.AfterAnswer{Action: pb.Action_ACTION_CONTINUE}),
		"a request as another":       frame(before, func(f *pb.Frame) { f.Body = &pb.Frame_Hello{Hello: &pb.Hello{}} }),
		"told with an id":            frame(5<<8|50, func(f *pb.Frame) { f.Body = &pb.Frame_ConfigChanged{ConfigChanged: &pb.ConfigChanged{}} }),
		"an error without an id":     frame(0, func(f *pb.Frame) { f.Body = &pb.Frame_Error{Error: &pb.Error{}} }),
		"an error with other data":   frame(before, func(f *pb.Frame) { f.Body = &pb.Frame_Error{Error: &pb.Error{Data: []byte("{")}} }),
		"a cancel with an id":        frame(before, func(f *pb.Frame) { f.Body = &pb.Frame_Cancel{Cancel: &pb.Cancel{Id: before}} }),
		"a cancel of nothing":        frame(0, func(f *pb.Frame) { f.Body = &pb.Frame_Cancel{Cancel: &pb.Cancel{}} }),
		"an id and nothing":          frame(before, func(*pb.Frame) {}),
		"no action":                  answer(5<<8|12, &pb.AfterAnswer{}),
		"an action of none":          answer(5<<8|12, &pb.AfterAnswer{Action: 9}),
		"half a JSON text":           answer(5<<8|12, &pb.AfterAnswer{Action: pb.Action_ACTION_MODIFY, Result: []byte(`{"a":1`)}),
		"two JSON texts":             answer(5<<8|12, &pb.AfterAnswer{Action: pb.Action_ACTION_MODIFY, Result: []byte(`{},"reason":"x"`)}),
		"JSON with two readings":     answer(5<<8|12, &pb.AfterAnswer{Action: pb.Action_ACTION_MODIFY, Result: []byte(`{"a":1,"a":2}`)}),
		"JSON that is not UTF-8":     answer(5<<8|12, &pb.AfterAnswer{Action: pb.Action_ACTION_MODIFY, Result: []byte("\"\xff\"")}),
		"JSON too deep":              answer(5<<8|12, &pb.AfterAnswer{Action: pb.Action_ACTION_MODIFY, Result: []byte(strings.Repeat("[", 1100) + strings.Repeat("]", 1100))}),
		"a tool's answer that is no": frame(5<<8|13, func(f *pb.Frame) { f.Body = &pb.Frame_ToolAnswer{ToolAnswer: &pb.ToolAnswer{}} }),
		"a number that JSON lacks": frame(5<<8|14, func(f *pb.Frame) {
			f.Body = &pb.Frame_Complete{Complete: &pb.ProviderRequest{Temperature: proto.Float64(inf)}}
		}),
		"an unknown field":        append(bytes.Clone(good), 0xd8, 0x3e, 1),
		"an unknown field within": append([]byte{8, 0x8b, 0x0a}, nested...),
		"a byte more":             append(bytes.Clone(good), 0),
		"cut short":               good[:len(good)-1],
		"said twice":              append(bytes.Clone(good), good...),
		"two things":              append(bytes.Clone(good), frameOf(t, &pb.Frame{Body: &pb.Frame_Cancel{Cancel: &pb.Cancel{Id: before}}})...),
		"text that is not UTF-8":  {8, 0x8b, 0x0a, 0xfa, 1, 5, 8, 3, 0x1a, 1, 0xff},
		"JSON":                    []byte(`{"jsonrpc":"2.0","id":1,"result":{}}`),
		"too long":                answer(5<<8|12, &pb.AfterAnswer{Action: pb.Action_ACTION_MODIFY, Result: append(bytes.Repeat([]byte(" "), wire.MaxMessage), '1')}),
		"too long as JSON":        answer(5<<8|12, &pb.AfterAnswer{Action: pb.Action_ACTION_BLOCK, Reason: proto.String(strings.Repeat("\x01", wire.MaxMessage/3))}),
	} {
		m := rpc.Message{}
		if err := (Dialect{}).Decode(bad, &m); err == nil {
			t.Errorf("%s is %s %q %s %.80s", name, m.Kind, m.ID, m.Method, m.Body)
		}
	}
}

// TestCantSay tests messages that the dialect must refuse to write.
func TestCantSay(t *testing.T) {
	id := fmt.Sprint(5<<8 | 11)
	for name, m := range map[string]rpc.Message{
		"nothing":              {},
		"a part":               {Kind: rpc.Part, ID: id, Body: []byte("1")},
		"an unknown method":    {Kind: wire.Request, ID: "5", Method: "info.get"},
		"asked, and only told": {Kind: wire.Request, ID: "5", Method: "task.log"},
		"told, and asked":      {Kind: wire.Notification, Method: "tool.call"},
		"no number":            {Kind: wire.Request, ID: `"5`, Method: "shutdown"},
		"number 0":             {Kind: wire.Request, ID: "0", Method: "shutdown"},
		"an answer to nothing": {Kind: wire.Result, ID: "5", Body: []byte("{}")},
		"a cancel of nothing":  {Kind: wire.Notification, Cancels: "5"},
		"an error of none":     {Kind: wire.Error, ID: id},
		"a member too many":    {Kind: wire.Result, ID: id, Body: []byte(`{"action":"continue","x":1}`)},
		"two of a kind":        {Kind: wire.Result, ID: id, Body: []byte(`{"action":"block","action":"continue"}`)},
		"no such word":         {Kind: wire.Result, ID: id, Body: []byte(`{"action":"forward"}`)},
		"not the word":         {Kind: wire.Result, ID: id, Body: []byte(`{"action":"Block"}`)},
		"the word for none":    {Kind: wire.Result, ID: id, Body: []byte(`{"action":"unspecified"}`)},
		"half a character":     {Kind: wire.Result, ID: id, Body: []byte(`{"action":"block","reason":"\ud83d"}`)},
		"a number for a text":  {Kind: wire.Result, ID: id, Body: []byte(`{"action":"block","reason":1}`)},
		"a list":               {Kind: wire.Result, ID: id, Body: []byte(`[]`)},
		"two":                  {Kind: wire.Result, ID: id, Body: []byte(`{} {}`)},
		"bytes":                {Kind: wire.Result, ID: id, Body: []byte("{\"reason\":\"\xff\"}")},
		"a number too large":   {Kind: wire.Result, ID: fmt.Sprint(5<<8 | 16), Body: []byte(`{"exit_code":2147483648}`)},
		"a fraction":           {Kind: wire.Result, ID: fmt.Sprint(5<<8 | 16), Body: []byte(`{"exit_code":1.0}`)},
		"no truth":             {Kind: wire.Result, ID: fmt.Sprint(5<<8 | 64), Body: []byte(`{"ok":1}`)},
		"data that is no JSON": {Kind: wire.Error, ID: id, Fault: &rpc.Fault{Data: []byte("x")}},
		"a message not UTF-8":  {Kind: wire.Error, ID: id, Fault: &rpc.Fault{Message: "\xff"}},
		"too long":             {Kind: wire.Result, ID: fmt.Sprint(5<<8 | 13), Body: []byte(`"` + strings.Repeat("x", wire.MaxMessage) + `"`)},
	} {
		if frame, err := (Dialect{}).Append(nil, &m); err == nil {
			t.Errorf("%s was written: %.80q", name, frame)
		}
	}
}
