package policy

import (
	"fmt"
	"strings"
	"testing"
)

// A policy reads what an agent will read, in the order of the text. What agents could read
// differently is an error, and errors never loosen.
func TestAskDetails(t *testing.T) {
	for params, want := range map[string]string{
		`{"messages":[{"role":"user","content":{"type":"text","text":"a"}},{"content":[{"text":"b"},{"text":["no"],"more":{"text":"c"}}]}],"systemPrompt":"d","tools":[{"name":"t"},{}]}`: `["a" "b" "c" "d"] ["t"] [] ""`,
		`{"message":"m","url":"https://x","requestedSchema":{"properties":{"p":{},"P":{}}}}`:                                                                                              `["m"] [] ["p" "P"] "https://x"`,
		`{"Message":"m"}`:                                  "can be taken for message",
		`{"message":"m","Message":""}`:                     "two spellings",
		`{"Tools":[]}`:                                     "can be taken for tools",
		`{"tools":[{"Name":"t"}]}`:                         "can be taken for name",
		`{"requestedSchema":{"properties":{"p":1,"p":1}}}`: "duplicate",
		`{"message":null}`:                                 "message",
		`{"tools":null}`:                                   "tools is null",
		`{"url":1}`:                                        "url",
	} {
		var d askParams
		err := d.read([]byte(params))
		got := fmt.Sprintf("%q %q %q %q", d.text, d.tools, d.properties, d.uri)
		if err == nil && got != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %s, %v; want %s", params, got, err, want)
		}
	}
}
