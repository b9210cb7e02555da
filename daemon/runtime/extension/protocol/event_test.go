package protocol_test

import (
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/protocol"
)

// Notifications during a command, in order, and how each is handled.
func TestEvents(t *testing.T) {
	for _, test := range []struct {
		method, params string
		want           protocol.Event
		ok             bool
		wrong          string
	}{
		{method: "command.output", params: `{"request_id":"r1","event":{"kind":"text","content":"A"}}`, want: protocol.Event{Kind: protocol.Text, Content: "A"}, ok: true},
		{method: "task.start", params: `{"id":"dl","label":"Downloading","kind":"download"}`, want: protocol.Event{Kind: protocol.TaskStart, Task: "dl", Label: "Downloading", TaskKind: "download"}, ok: true},
		{method: "task.update", params: `{"id":"dl","current":50,"total":100}`, want: protocol.Event{Kind: protocol.TaskUpdate, Task: "dl", Current: 50, Total: 100}, ok: true},
		{method: "command.output", params: `{"request_id":"r1","event":{"kind":"system","content":"working"}}`, want: protocol.Event{Kind: protocol.System, Content: "working"}, ok: true},
		{method: "task.done", params: `{"id":"dl"}`, want: protocol.Event{Kind: protocol.TaskDone, Task: "dl"}, ok: true},
		{method: "task.done", params: `{"id":"dl","error":"no disk"}`, want: protocol.Event{Kind: protocol.TaskDone, Task: "dl", Error: "no disk"}, ok: true},
		{method: "command.output", params: `{"request_id":"r1","event":{"kind":"done"}}`, want: protocol.Event{Kind: protocol.Done}, ok: true},
		// Tasks are passed on whatever request they name.
		{method: "task.log", params: `{"id":"abc","line":"..."}`, want: protocol.Event{Kind: protocol.TaskLog, Task: "abc", Content: "..."}, ok: true},
		{method: "task.log", params: `{"id":"abc","line":"...","request_id":"other"}`, want: protocol.Event{Kind: protocol.TaskLog, Task: "abc", Content: "..."}, ok: true},

		// The output of another command, and other notifications, are ignored.
		{method: "command.output", params: `{"request_id":"other","event":{"kind":"text","content":"x"}}`},
		{method: "provider.stream.event", params: `{"type":"text","delta":"x"}`},
		{method: "window/logMessage", params: `[]`},

		// A malformed notification is an error, and the next is valid again.
		{method: "command.output", params: `{"request_id":"r1","event":{}}`, wrong: `"event.kind"`},
		{method: "command.output", params: `{"request_id":"r1","event":{"kind":"text"}}`, wrong: `"event.content"`},
		{method: "command.output", params: `{"request_id":"r1","event":{"kind":"shout"}}`, wrong: `unknown kind "shout"`},
		{method: "command.output", params: `{"request_id":"r1","Event":{"kind":"done"}}`, wrong: "can be taken for event"},
		{method: "command.output", params: `{"request_id":"r1"}`, wrong: "event"},
		{method: "command.output", params: `{"event":{"kind":"done"}}`, wrong: `"request_id"`},
		{method: "command.output", params: `{"request_id":1,"event":{"kind":"done"}}`, wrong: `"request_id"`},
		{method: "command.output", params: `[]`, wrong: "not a JSON object"},
		{method: "task.start", params: `{"id":"a"}`, wrong: `"label"`},
		{method: "task.update", params: `{"id":"a","current":-1}`, wrong: "current is not a whole number"},
		{method: "task.log", params: `{"id":"a"}`, wrong: `"line"`},
		{method: "task.done", params: `{}`, wrong: `"id"`},
		{method: "task.done", params: `{"id":""}`, wrong: "id is empty"},
		{method: "task.pause", params: `{"id":"a"}`, wrong: `"task.pause" is missing`},
	} {
		got, ok, err := protocol.ReadEvent(test.method, []byte(test.params), "r1")
		switch {
		case test.wrong != "":
			if ok || err == nil || !strings.Contains(err.Error(), test.wrong) {
				t.Errorf("%s %s: %v, %v; want %q", test.method, test.params, ok, err, test.wrong)
			}
		case err != nil || ok != test.ok || ok && got != test.want:
			t.Errorf("%s %s: %+v, %v, %v", test.method, test.params, got, ok, err)
		}
	}
}

func TestExits(t *testing.T) {
	for raw, want := range map[string]int{`{"exit_code":0}`: 0, `{}`: 0, `{"exit_code":255}`: 255, `{"exit_code":256}`: -1, `{"exit_code":-1}`: -1, `3`: -1} {
		if got, err := protocol.ReadExit([]byte(raw)); err == nil && got != want || err != nil && want != -1 {
			t.Errorf("%s: %d, %v; want %d", raw, got, err, want)
		}
	}
}

// Whatever an extension sends, parsing neither panics nor accepts what has a second reading.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		`{"action":"modify","arguments":{"a":1}}`, `{"request_id":"r1","event":{"kind":"text","content":"A"}}`,
		`{"namespace":"x","content":"y","tags":["a"],"meta":{}}`, `{"protocol_version":1,"capabilities":{"tools":[{}]}}`, `{"a":1,"a":2}`, "{\"action\":\"\xff\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if a, err := protocol.ReadAnswer(raw, "arguments"); err == nil && a.Action == protocol.Modify {
			if strings.ContainsAny(string(a.Changed), "\r\n") {
				t.Errorf("%q has a line break", a.Changed)
			}
			again, err := protocol.ReadAnswer(append(append([]byte(`{"action":"modify","arguments":`), a.Changed...), '}'), "arguments")
			if err != nil || string(again.Changed) != string(a.Changed) {
				t.Errorf("%q is read as %q, %v", a.Changed, again.Changed, err)
			}
		}
		_, _, _ = protocol.ReadEvent("command.output", raw, "r1")
		_, _, _ = protocol.ReadEvent("task.update", raw, "r1")
		_, _ = protocol.ReadAppend(raw)
		_, _ = protocol.ReadQuery(raw)
		_, _ = protocol.CheckResult(raw)
		_, _ = protocol.ReadGreeting(raw, granting("tools", "providers"))
	})
}
