package sampling

import (
	"errors"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/provider"
)

const hi = `"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":9`

func TestRead(t *testing.T) {
	tests := []struct{ name, params, want, err string }{
		{"least", `{` + hi + `}`, `"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"system_prompt":null,"tools":[],"temperature":null,"max_tokens":9`, ""},
		{"most", `{"messages":[{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image","annotations":{"x":1},"data":"AA==","mimeType":"image/png"}]},{"role":"assistant","content":{"type":"text","text":"ho"}}],` +
			`"maxTokens":1,"systemPrompt":"be brief","temperature":0.25,"includeContext":"none","metadata":{"Name":1}}`,
			`"messages":[{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image","data":"AA==","mimeType":"image/png"}]},{"role":"assistant","content":[{"type":"text","text":"ho"}]}],"system_prompt":"be brief","tools":[],"temperature":0.25`, ""},
		{"tools", `{` + hi + `,"tools":[{"name":"a","description":"does a","inputSchema":{"type":"object", "Name":1}},{"name":"b"}],"toolChoice":{"mode":"auto"}}`,
			`"tools":[{"name":"a","description":"does a","input_schema":{"type":"object", "Name":1}},{"name":"b","description":"","input_schema":{"type":"object"}}]`, ""},
		{"no tools wanted", `{` + hi + `,"tools":[{"name":"a"}],"toolChoice":{"mode":"none"}}`, `"tools":[]`, ""},
		{"tool uses and results", `{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"a","input":{"Text":1.0}}]},` +
			`{"role":"user","content":{"type":"tool_result","toolUseId":"1","content":[{"type":"text","text":"x"},{"type":"text","text":"y"},{"type":"audio","data":"A"}],"isError":true}}],"maxTokens":9}`,
			`[{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"a","input":{"Text":1.0}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"x\ny\n{\"type\":\"audio\",\"data\":\"A\"}","is_error":true}]}]`, ""},
		{"no messages", `{"messages":[],"maxTokens":9}`, "", "no messages"},
		{"no maxTokens", `{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}]}`, "", "maxTokens"},
		{"no tokens", `{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":0}`, "", "maxTokens"},
		{"another role", `{"messages":[{"role":"system","content":{"type":"text","text":"hi"}}],"maxTokens":9}`, "", "unknown role"},
		{"another block", `{"messages":[{"role":"user","content":{"type":"video"}}],"maxTokens":9}`, "", "unknown content type"},
		{"no content", `{"messages":[{"role":"user"}],"maxTokens":9}`, "", "no content"},
		{"content of text", `{"messages":[{"role":"user","content":"hi"}],"maxTokens":9}`, "", "messages[0].content: not an array"},
		{"a tool use without input", `{"messages":[{"role":"assistant","content":{"type":"tool_use","id":"1","name":"a"}}],"maxTokens":9}`, "", "tool_use"},
		{"a result of nothing", `{"messages":[{"role":"user","content":{"type":"tool_result","content":[]}}],"maxTokens":9}`, "", "toolUseId"},
		{"a name twice", `{` + hi + `,"tools":[{"name":"a"},{"name":"a"}]}`, "", "no unique name"},
		{"a choice that is none", `{` + hi + `,"toolChoice":{"mode":"any"}}`, "", "unknown mode"},
		{"a tool required of none", `{` + hi + `,"toolChoice":{"mode":"required"}}`, "", "there are no tools"},
		{"an empty stop", `{` + hi + `,"stopSequences":[""]}`, "", "empty stop"},
		{"text where a number belongs", `{` + hi + `,"temperature":"warm"}`, "", "temperature is not a number"},
		{"another spelling of messages", `{` + hi + `,"Messages":[]}`, "", `the member "Messages" is there in two spellings`},
		{"another spelling of text", `{"messages":[{"role":"user","content":{"type":"text","text":"hi","TEXT":"ho"}}],"maxTokens":9}`, "", `"messages[0].content.TEXT" is there in two spellings`},
		{"another spelling alone", `{` + hi + `,"Tools":[{"name":"a"}]}`, "", `the member "Tools" can be taken for tools`},
		{"another spelling of text in a result", `{"messages":[{"role":"user","content":{"type":"tool_result","toolUseId":"1","content":{"type":"x","TEXT":"ho"}}}],"maxTokens":9}`, "", "can be taken for text"},
		{"an image without data", `{"messages":[{"role":"user","content":{"type":"image","mimeType":"image/png"}}],"maxTokens":9}`, "", "messages[0].content.data"},
		{"text without text", `{"messages":[{"role":"user","content":{"type":"text"}}],"maxTokens":9}`, "", "messages[0].content.text"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r, err := read([]byte(test.params))
			if test.err != "" {
				if !errors.Is(err, gate.ErrInvalid) || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("error %v, want one with %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := string(r.Append(nil)); !strings.Contains(got, test.want) {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestResult(t *testing.T) {
	tests := []struct{ name, params, said, want, err string }{
		{"text", "", `{"content":[{"type":"text","text":"ho"}],"stop_reason":"end_turn"}`, `{"content":{"text":"ho","type":"text"},"model":"p/m","role":"assistant","stopReason":"endTurn"}`, ""},
		{"text in pieces", "", `{"content":[{"type":"text","text":"h"},{"type":"thinking","thinking":"hm"},{"type":"text","text":"o"}]}`, `"content":{"text":"ho","type":"text"}`, ""},
		{"nothing but thought", "", `{"content":[{"type":"thinking","thinking":"hm"}]}`, `"content":{"text":"","type":"text"}`, ""},
		{"too long", "", `{"content":[{"type":"text","text":"h"}],"stop_reason":"max_tokens"}`, `"stopReason":"maxTokens"`, ""},
		{"a reason of its own", "", `{"content":[{"type":"text","text":"h"}],"stop_reason":"tired"}`, `"stopReason":"tired"`, ""},
		{"stopped", `,"stopSequences":["END","N"]`, `{"content":[{"type":"text","text":"one END two"}]}`, `"content":{"text":"one ","type":"text"},"model":"p/m","role":"assistant","stopReason":"stopSequence"`, ""},
		{"a tool of theirs", `,"tools":[{"name":"a"}]`, `{"content":[{"type":"text","text":"so"},{"type":"tool_use","id":"1","name":"a","input":{"n":1.0}}]}`,
			`"content":[{"text":"so","type":"text"},{"id":"1","input":{"n":1.0},"name":"a","type":"tool_use"}],"model":"p/m","role":"assistant","stopReason":"toolUse"`, ""},
		{"a tool alone", `,"tools":[{"name":"a"}],"toolChoice":{"mode":"required"}`, `{"content":[{"type":"tool_use","id":"1","name":"a"}],"stop_reason":"tool_use"}`, `"content":{"id":"1","input":{},"name":"a","type":"tool_use"}`, ""},
		{"no tool where one is required", `,"tools":[{"name":"a"}],"toolChoice":{"mode":"required"}`, `{"content":[{"type":"text","text":"no"}]}`, "", "uses no tool"},
		{"an image", "", `{"content":[{"type":"image","data":"AA==","mimeType":"image/png","x":1}]}`, `"content":{"type":"image","data":"AA==","mimeType":"image/png"}`, ""},
		{"an image without data", "", `{"content":[{"type":"image","mimeType":"image/png"}]}`, "", "without data"},
		{"another block", "", `{"content":[{"type":"video"}]}`, "", "video"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r, err := read([]byte(`{` + hi + test.params + `}`))
			if err != nil {
				t.Fatal(err)
			}
			r.Model = "p/m"
			said, err := provider.ReadResult([]byte(test.said))
			if err != nil {
				t.Fatal(err)
			}
			got, err := r.result(said)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("error %v, want one with %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(got), test.want) {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestChoose(t *testing.T) {
	models := []string{"large-1", "small-1", "small-2"}
	for hints, want := range map[string]string{
		"": "large-1", `{"name":"small"}`: "small-1", `{"name":"medium"},{"name":"2"}`: "small-2", `{"name":""}`: "large-1", `{}`: "large-1",
	} {
		r, err := read([]byte(`{` + hi + `,"modelPreferences":{"hints":[` + hints + `],"costPriority":0.5}}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := r.choose(models); got != want {
			t.Errorf("%s: %s, want %s", hints, got, want)
		}
	}
}
