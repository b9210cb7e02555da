package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// toolUser is a model that uses each of a list of tools in turn, and keeps what it is told of
// them.
type toolUser struct {
	*httptest.Server
	uses []toolUse

	mu   sync.Mutex // guards the fields below
	told string     // the latest request of the agent, which has the results of all uses so far
	over bool       // all tools were used
	used int        // uses that have begun

	first int // id of the first use

	meanwhile sync.WaitGroup // for what happens during uses
}

// toolUse is one use of a tool by a model.
type toolUse struct {
	name   string
	input  any
	before func() // what happens just before; nil for nothing
	during func() // what happens meanwhile; nil for nothing
}

// models counts the models. No two of them give their uses the same ids.
var models atomic.Int64

// newToolUser returns a model that speaks all the protocols that agents speak with models.
func newToolUser(t *testing.T, uses ...toolUse) *toolUser {
	m := &toolUser{uses: uses, first: int(models.Add(1)) * 1000}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

// protocols has a row for each protocol: what its addresses contain, what a request has once for
// each result of a tool, and what is answered: to use a tool, or to end.
var protocols = []struct {
	address, result string
	use             func(w io.Writer, id int, tool string, input []byte)
	end             func(w io.Writer)
}{
	{"/messages", `"type":"tool_result"`, useByMessages, func(w io.Writer) {
		messages(w, "end_turn", `{"type":"text","text":""}`, `{"type":"text_delta","text":"all done"}`)
	}},
	{"/responses", `_call_output"`, useByResponses, func(w io.Writer) {
		responses(w, `{"type":"message","role":"assistant","id":"m","content":[{"type":"output_text","text":"all done"}]}`)
	}},
	{"/chat/completions", `"role":"tool"`, useByCompletions, func(w io.Writer) { completions(w, "stop", `{"role":"assistant","content":"all done"}`) }},
	{"GenerateContent", `"functionResponse":`, useByGemini, func(w io.Writer) { geminiAnswer(w, `{"text":"all done"}`) }},
}

func (m *toolUser) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if r.Method == http.MethodGet {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"m","object":"model"}]}`)
		return
	}
	for _, p := range protocols {
		if err != nil || !strings.Contains(r.URL.Path, p.address) || strings.Contains(r.URL.Path, "count") {
			continue
		}
		var ask struct{ Tools []json.RawMessage }
		_ = json.Unmarshal(body, &ask) // what is none asks for nothing
		w.Header().Set("Content-Type", "text/event-stream")
		n := strings.Count(string(body), p.result)
		if len(ask.Tools) == 0 || !m.next(n, string(body)) {
			p.end(w)
			return
		}
		input, _ := json.Marshal(m.uses[n].input)
		if text, ok := m.uses[n].input.(string); ok {
			input = []byte(text)
		}
		p.use(w, m.first+n, m.uses[n].name, input)
		return
	}
	http.NotFound(w, r)
}

// next notes what the model is told, and reports whether it uses its tool n now.
func (m *toolUser) next(n int, told string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told, m.over = told, n >= len(m.uses)
	if m.over || n < m.used {
		return !m.over
	}
	m.meanwhile.Wait()
	m.used = n + 1
	if u := m.uses[n]; u.before != nil {
		u.before()
	}
	if during := m.uses[n].during; during != nil {
		m.meanwhile.Go(during)
	}
	return true
}

// result returns what the model was told last, and whether it has used all its tools.
func (m *toolUser) result() (told string, over bool) {
	m.meanwhile.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.told, m.over
}

func quoted(text []byte) []byte {
	q, _ := json.Marshal(string(text))
	return q
}

func useByMessages(w io.Writer, n int, tool string, input []byte) {
	messages(w, "tool_use", fmt.Sprintf(`{"type":"tool_use","id":"toolu_%d","name":%q,"input":{}}`, n, tool), fmt.Sprintf(`{"type":"input_json_delta","partial_json":%s}`, quoted(input)))
}

func messages(w io.Writer, reason, block, delta string) {
	event := func(kind, data string) { fmt.Fprintf(w, "event: %s\ndata: {\"type\":%q%s}\n\n", kind, kind, data) }
	event("message_start", `,"message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":1,"output_tokens":1}}`)
	event("content_block_start", `,"index":0,"content_block":`+block)
	event("content_block_delta", `,"index":0,"delta":`+delta)
	event("content_block_stop", `,"index":0`)
	event("message_delta", fmt.Sprintf(`,"delta":{"stop_reason":%q},"usage":{"output_tokens":1}`, reason))
	event("message_stop", "")
}

// useByResponses gives a text to a tool that takes any text, and all others arguments. A slash in the name of a tool
// follows its namespace.
func useByResponses(w io.Writer, n int, tool string, input []byte) {
	name, in := tool, ""
	if namespace, short, ok := strings.Cut(tool, "/"); ok {
		name, in = short, fmt.Sprintf(`,"namespace":%q`, namespace)
	}
	kind, member := "function_call", "arguments"
	if input[0] != '{' {
		kind, member = "custom_tool_call", "input"
	}
	responses(w, fmt.Sprintf(`{"type":%q,"id":"i%d","call_id":"c%d","name":%q,%q:%s%s}`, kind, n, n, name, member, quoted(input), in))
}

func responses(w io.Writer, item string) {
	for _, event := range []string{
		`{"type":"response.created","response":{"id":"r"}}`, `{"type":"response.output_item.done","item":` + item + `}`,
		`{"type":"response.completed","response":{"id":"r","usage":{"input_tokens":1,"input_tokens_details":null,"output_tokens":1,"output_tokens_details":null,"total_tokens":2}}}`,
	} {
		fmt.Fprintf(w, "data: %s\n\n", event)
	}
}

func useByCompletions(w io.Writer, n int, tool string, input []byte) {
	completions(w, "tool_calls", fmt.Sprintf(`{"role":"assistant","tool_calls":[{"index":0,"id":"c%d","type":"function","function":{"name":%q,"arguments":%s}}]}`, n, tool, quoted(input)))
}

func completions(w io.Writer, reason, delta string) {
	for _, choice := range []string{`"delta":` + delta + `,"finish_reason":null`, fmt.Sprintf(`"delta":{},"finish_reason":%q`, reason)} {
		fmt.Fprintf(w, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,%s}]}\n\n", choice)
	}
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}

func useByGemini(w io.Writer, _ int, tool string, input []byte) {
	geminiAnswer(w, fmt.Sprintf(`{"functionCall":{"name":%q,"args":%s}}`, tool, input))
}

func geminiAnswer(w io.Writer, part string) {
	fmt.Fprintf(w, "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[%s]},\"finishReason\":\"STOP\",\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":1,\"candidatesTokenCount\":1,\"totalTokenCount\":2}}\n\n", part)
}
