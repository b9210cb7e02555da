package provider

import (
	"errors"
	"strings"
	"testing"
)

// TestReadResult has the rules for answers of seed document 004: what a tool use must have and
// may omit.
func TestReadResult(t *testing.T) {
	tests := []struct {
		name, raw string
		want      string // summary of the content
		err       string // in the error; empty for none
	}{
		{"text", `{"content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn"}`, "text:hi", ""},
		{"tool use", `{"content":[{"type":"tool_use","id":"t1","name":"echo","input":{"x":1}}]}`, `use:t1 echo {"x":1}`, ""},
		{"input defaults", `{"content":[{"type":"tool_use","id":"t1","name":"echo"}]}`, `use:t1 echo {}`, ""},
		{"input byte for byte", `{"content":[{"type":"tool_use","id":"t1","name":"echo","input":{ "n":1.0, "b":"\u003c" }}]}`, `use:t1 echo { "n":1.0, "b":"\u003c" }`, ""},
		{"several", `{"content":[{"type":"text","text":"a"},{"type":"tool_use","id":"1","name":"x"},{"type":"tool_use","id":"2","name":"y"}]}`, "text:a use:1 x {} use:2 y {}", ""},
		{"another block", `{"content":[{"type":"thinking","thinking":"hm"}]}`, "thinking", ""},
		{"usage", `{"content":[{"type":"text","text":""}],"usage":{"input_tokens":3},"stop_reason":null}`, "text:", ""},
		{"missing id", `{"content":[{"type":"tool_use","name":"echo"}]}`, "", `missing or invalid "content[0].id"`},
		{"missing name", `{"content":[{"type":"tool_use","id":"t1"}]}`, "", `missing or invalid "content[0].name"`},
		{"id of another kind", `{"content":[{"type":"tool_use","id":1,"name":"echo"}]}`, "", `missing or invalid "content[0].id"`},
		{"empty id", `{"content":[{"type":"tool_use","id":"","name":"echo"}]}`, "", "empty id"},
		{"blank id", `{"content":[{"type":"tool_use","id":"  ","name":"echo"}]}`, "", "empty id"},
		{"empty name", `{"content":[{"type":"tool_use","id":"t1","name":""}]}`, "", "empty name"},
		{"blank name", `{"content":[{"type":"tool_use","id":"t1","name":" "}]}`, "", "empty name"},
		{"input no object", `{"content":[{"type":"tool_use","id":"t1","name":"echo","input":"no"}]}`, "", `the input of the tool_use "t1" is not an object`},
		{"input null", `{"content":[{"type":"tool_use","id":"t1","name":"echo","input":null}]}`, "", "not an object"},
		{"one id twice", `{"content":[{"type":"tool_use","id":"1","name":"x"},{"type":"tool_use","id":"1","name":"y"}]}`, "", `two tool uses with the id "1"`},
		{"too many", `{"content":[` + manyUses(65) + `]}`, "", "65 tool uses"},
		{"no content", `{"stop_reason":"end_turn"}`, "", "content is missing"},
		{"content no array", `{"content":{}}`, "", "not an array"},
		{"block no object", `{"content":["hi"]}`, "", "content[0]: not a JSON object"},
		{"block without type", `{"content":[{"text":"hi"}]}`, "", `missing or invalid "content[0].type"`},
		{"text without text", `{"content":[{"type":"text"}]}`, "", `missing or invalid "content[0].text"`},
		{"usage no object", `{"content":[{"type":"text","text":""}],"usage":3}`, "", "usage is not an object"},
		{"stop reason no text", `{"content":[{"type":"text","text":""}],"stop_reason":3}`, "", "stop_reason is not a string"},
		{"a name twice", `{"content":[],"content":[]}`, "", "duplicate"},
		{"an inner name twice", `{"content":[{"type":"tool_use","id":"1","name":"x","input":{"a":1,"a":2}}]}`, "", "duplicate"},
		{"two spellings", `{"content":[{"type":"tool_use","id":"1","name":"x","Name":"y"}]}`, "", "two spellings"},
		{"another spelling", `{"content":[{"type":"tool_use","id":"1","name":"x","Input":{}}]}`, "", `"content[0].Input" can be taken for input`},
		{"trailing text", `{"content":[]} {}`, "", "text behind"},
		{"nothing", ``, "", "not a JSON object"},
		{"an array", `[]`, "", "not a JSON object"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r, err := ReadResult([]byte(test.raw))
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("error %v, want one with %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := short(r.Content); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestEmptyContent: a completion must have content; a streamed one may be empty.
func TestEmptyContent(t *testing.T) {
	raw := []byte(`{"content":[]}`)
	if _, err := ReadResult(raw); !errors.Is(err, ErrEmpty) {
		t.Errorf("complete: %v, want %v", err, ErrEmpty)
	}
	if r, err := ReadStreamed(raw); err != nil || len(r.Content) != 0 {
		t.Errorf("stream: %v, %v", r, err)
	}
}

func manyUses(n int) string {
	uses := make([]string, n)
	for i := range uses {
		uses[i] = `{"type":"tool_use","id":"` + strings.Repeat("i", i+1) + `","name":"x"}`
	}
	return strings.Join(uses, ",")
}

func short(content []Block) string {
	var all []string
	for _, b := range content {
		switch {
		case b.Use != nil:
			all = append(all, "use:"+b.Use.ID+" "+b.Use.Name+" "+string(b.Use.Input))
		case b.Type == "text":
			all = append(all, "text:"+b.Text)
		default:
			all = append(all, b.Type)
		}
	}
	return strings.Join(all, " ")
}

// TestParams checks that requests have the documented form, with raw JSON in them unchanged.
func TestParams(t *testing.T) {
	half := 0.5
	tests := []struct {
		name string
		p    Params
		want string
	}{
		{"least", Params{Provider: "p", ModelID: "m", Model: "p/m"}, `{"provider_id":"p","model_id":"m","model":"p/m","messages":[],"system_prompt":null,"tools":[],"temperature":null,"max_tokens":null,"thinking_budget":0}`},
		{"all", Params{
			Provider: "p", ModelID: "m", Model: "p/m", System: "be \"brief\"", Temperature: &half, MaxTokens: 100, ThinkingBudget: 5,
			Messages: [][]byte{[]byte(`{"role":"user", "content":1.0}`), Message("assistant", TextBlock("<a>"))},
			Tools:    []Tool{{"a", "does a", []byte(`{"type":"object" }`)}, {Name: "b"}},
		}, `{"provider_id":"p","model_id":"m","model":"p/m","messages":[{"role":"user", "content":1.0},{"role":"assistant","content":[{"type":"text","text":"<a>"}]}],` +
			`"system_prompt":"be \"brief\"","tools":[{"name":"a","description":"does a","input_schema":{"type":"object" }},{"name":"b","description":"","input_schema":{"type":"object"}}],` +
			`"temperature":0.5,"max_tokens":100,"thinking_budget":5}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := string(test.p.Append(nil)); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}
