package provider

import (
	"strings"
	"testing"
)

// TestReadEvent has the stream event tests of seed document 004, under the same names.
func TestReadEvent(t *testing.T) {
	tests := []struct {
		name, raw string
		want      Event
		err       string // in the error; empty for none
	}{
		{"parses_text_delta_with_delta_key", `{"type":"text","delta":"hi"}`, Event{Kind: EventText, Text: "hi"}, ""},
		{"parses_text_delta_with_text_key", `{"type":"text","text":"hi"}`, Event{Kind: EventText, Text: "hi"}, ""},
		{"parses_thinking_delta", `{"type":"thinking","delta":"hmm"}`, Event{Kind: EventThinking, Text: "hmm"}, ""},
		{"parses_thinking_delta with text", `{"type":"thinking","text":"hmm"}`, Event{Kind: EventThinking, Text: "hmm"}, ""},
		{"parses_tool_use", `{"type":"tool_use","id":"t1","name":"echo","input":{"x":1}}`, Event{Kind: EventToolUse, Use: &ToolUse{"t1", "echo", []byte(`{"x":1}`)}}, ""},
		{"tool_use_input_defaults_to_empty_object", `{"type":"tool_use","id":"t1","name":"echo"}`, Event{Kind: EventToolUse, Use: &ToolUse{"t1", "echo", []byte(`{}`)}}, ""},
		{"parses_usage_strips_type", `{"type":"usage","input_tokens":5,"output_tokens":7}`, Event{Kind: EventUsage, Usage: []byte(`{"input_tokens":5,"output_tokens":7}`)}, ""},
		{"usage with type in the middle", `{"a": 5 , "type":"usage","b":7}`, Event{Kind: EventUsage, Usage: []byte(`{"a":5,"b":7}`)}, ""},
		{"usage of nothing", ` {"event": {"type":"usage"} } `, Event{Kind: EventUsage, Usage: []byte(`{}`)}, ""},
		{"parses_error", `{"type":"error","message":"boom"}`, Event{Kind: EventError, Text: "boom"}, ""},
		{"parses_done", `{"type":"done"}`, Event{Kind: EventDone}, ""},
		{"nested_event_shape_matches_flat", `{"event":{"type":"text","delta":"hi"}}`, Event{Kind: EventText, Text: "hi"}, ""},
		{"nested with a request id", `{"request_id":"r","event":{"type":"done"}}`, Event{Kind: EventDone}, ""},
		{"missing_type_errors", `{"delta":"hi"}`, Event{}, `missing or invalid "type"`},
		{"unknown_type_errors_with_type", `{"type":"wat"}`, Event{}, "wat"},
		{"tool_use_missing_id_errors", `{"type":"tool_use","name":"echo"}`, Event{}, "id"},
		{"tool_use_missing_name_errors", `{"type":"tool_use","id":"t1"}`, Event{}, "name"},
		{"tool_use_empty_id_errors", `{"type":"tool_use","id":"","name":"echo"}`, Event{}, "empty id"},
		{"tool_use_empty_name_errors", `{"type":"tool_use","id":"t1","name":""}`, Event{}, "empty name"},
		{"tool_use_non_object_input_errors", `{"type":"tool_use","id":"t1","name":"echo","input":"nope"}`, Event{}, "input"},
		{"text_missing_delta_and_text_errors", `{"type":"text"}`, Event{}, `missing or invalid "text"`},
		{"error_missing_message_errors", `{"type":"error"}`, Event{}, "message"},
		{"error_empty_message_errors", `{"type":"error","message":""}`, Event{}, "empty message"},
		{"text that is none", `{"type":"text","delta":3}`, Event{}, `missing or invalid "delta"`},
		{"a name twice", `{"type":"text","type":"done"}`, Event{}, "duplicate"},
		{"another spelling", `{"type":"text","text":"a","Delta":"b"}`, Event{}, `"Delta" can be taken for delta`},
		{"no text in the place of a delta", `{"type":"text","delta":null,"text":"a"}`, Event{}, `"delta"`},
		{"no event in the place of one", `{"event":null,"type":"done"}`, Event{}, `"event.type"`},
		{"no object", `[]`, Event{}, "not a JSON object"},
		{"nested no object", `{"event":"done"}`, Event{}, "not a JSON object"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e, err := ReadEvent([]byte(test.raw))
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("error %v, want one with %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, want := said(e), said(test.want); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// said summarizes an event.
func said(e Event) string {
	s := string(e.Kind) + ":" + e.Text + string(e.Usage)
	if e.Use != nil {
		s += e.Use.ID + " " + e.Use.Name + " " + string(e.Use.Input)
	}
	return s
}
