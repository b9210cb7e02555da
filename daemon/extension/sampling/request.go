package sampling

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/thoughtgate/thoughtgated/daemon/extension/provider"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/rawjson"
)

// request is what a server asks.
type request struct {
	provider.Params
	hints    []string // parts of names of models that it would like, the best first
	stops    []string // texts at which the answer ends
	theirs   []string // names of its tools
	required bool     // the answer has to use one of them
}

// read reads what a server asks: the params of sampling/createMessage (MCP
// 2025-11-25). What policies read by one name must not be read here by another, so
// names are exact. An error is gate.ErrInvalid, and for the server.
func read(raw []byte) (*request, error) {
	o := rawjson.Read(raw)
	r := readRequest(o)
	if err := o.Err(); err != nil {
		return nil, fmt.Errorf("%w: the params are not those of sampling/createMessage: %w", gate.ErrInvalid, err)
	}
	return r, nil
}

func readRequest(o rawjson.Object) *request {
	mode := o.Object("toolChoice").OptionalText("mode")
	r := &request{stops: o.Texts("stopSequences"), required: mode == "required"}
	r.System, r.MaxTokens = o.OptionalText("systemPrompt"), int(min(o.Number("maxTokens", 0), math.MaxInt32))
	if raw := o.Get("temperature"); raw != nil {
		t, err := strconv.ParseFloat(string(raw), 64)
		if r.Temperature = &t; err != nil {
			o.Fail("temperature is not a number")
		}
	}
	for _, h := range o.Object("modelPreferences").Objects("hints") {
		r.hints = append(r.hints, h.OptionalText("name"))
	}
	messages, tools := o.Objects("messages"), o.Objects("tools")
	switch {
	case len(messages) == 0:
		o.Fail("there are no messages")
	case r.MaxTokens < 1:
		o.Fail("maxTokens must be at least 1")
	case !slices.Contains([]string{"", "auto", "none", "required"}, mode):
		o.Fail("a toolChoice of an unknown mode")
	case r.required && len(tools) == 0:
		o.Fail("a tool is required, and there is none")
	case slices.Contains(r.stops, ""):
		o.Fail("an empty stop sequence")
	}
	for _, m := range messages {
		r.Messages = append(r.Messages, readMessage(m))
	}
	for i, t := range tools {
		tool := provider.Tool{Name: t.Text("name"), Description: t.OptionalText("description"), InputSchema: t.Get("inputSchema")}
		if tool.Name == "" || slices.Contains(r.theirs, tool.Name) {
			o.Fail("tools[%d] has no name of its own", i)
		}
		if mode != "none" {
			r.theirs, r.Tools = append(r.theirs, tool.Name), append(r.Tools, tool)
		}
	}
	return r
}

// readMessage returns a message as a provider is given it.
func readMessage(o rawjson.Object) []byte {
	role := o.Text("role")
	if role != "user" && role != "assistant" {
		o.Fail("an unknown role")
	}
	blocks := blocksOf(o, "content")
	if len(blocks) == 0 {
		o.Fail("a message has no content")
	}
	var all [][]byte
	for _, b := range blocks {
		all = append(all, readBlock(b))
	}
	return provider.Message(role, all...)
}

// blocksOf returns the blocks of a content, which may be one of them alone.
func blocksOf(o rawjson.Object, name string) []rawjson.Object {
	if o.Get(name).Kind() == '{' {
		return []rawjson.Object{o.Object(name)}
	}
	return o.Objects(name)
}

// readBlock returns a block of a server's as a provider is given it: written anew,
// so that a provider reads what was judged and nothing else.
func readBlock(o rawjson.Object) []byte {
	switch kind := o.Text("type"); kind {
	case "text":
		return provider.TextBlock(o.Text("text"))
	case "image", "audio":
		return provider.MediaBlock(kind, o.Text("data"), o.Text("mimeType"))
	case "tool_use":
		u := provider.ToolUse{ID: o.Text("id"), Name: o.Text("name"), Input: o.Get("input")}
		if u.ID == "" || u.Name == "" || len(u.Input) == 0 || u.Input[0] != '{' {
			o.Fail("a tool_use without an id, a name or an input")
		}
		return u.Append(nil)
	case "tool_result":
		if o.Text("toolUseId") == "" {
			o.Fail("a tool_result without a toolUseId")
		}
		return provider.ToolResult(o.Text("toolUseId"), textOf(o), o.True("isError"))
	}
	o.Fail("an unknown type of content")
	return nil
}

// textOf is what a model gets to read of the content of a tool's result: its
// texts, and anything else in raw JSON.
func textOf(o rawjson.Object) string {
	var all []string
	for _, b := range blocksOf(o, "content") {
		kind, text := b.OptionalText("type"), b.OptionalText("text")
		if kind != "text" {
			text = string(b.Raw)
		}
		all = append(all, text)
	}
	return strings.Join(all, "\n")
}

// reasons are what MCP calls the ends of an answer, by what providers do.
var reasons = map[string]string{
	"": "endTurn", "end_turn": "endTurn", "stop": "endTurn",
	"stop_sequence": "stopSequence", "max_tokens": "maxTokens", "length": "maxTokens", "tool_use": "toolUse",
}

// result makes of a provider's answer what a server is told. The blocks are
// written anew, so that nothing else reaches it.
func (r *request) result(said provider.Result) ([]byte, error) {
	uses, err := said.Uses()
	if err != nil {
		return nil, err
	}
	if r.required && len(uses) == 0 {
		return nil, errors.New("the answer uses no tool, which the server requires")
	}
	reason, ok := reasons[said.StopReason]
	if !ok {
		reason = said.StopReason
	}
	var text strings.Builder
	var others []any
	for _, b := range said.Content {
		switch b.Type {
		case "text":
			text.WriteString(b.Text)
		case "tool_use":
			others = append(others, map[string]any{"type": "tool_use", "id": b.Use.ID, "name": b.Use.Name, "input": json.RawMessage(b.Use.Input)})
		case "image", "audio":
			media := rawjson.Read(b.Raw)
			data, mimeType := media.Text("data"), media.Text("mimeType")
			if media.Err() != nil || data == "" || mimeType == "" {
				return nil, fmt.Errorf("the answer has an %s without data and mimeType", b.Type)
			}
			others = append(others, json.RawMessage(provider.MediaBlock(b.Type, data, mimeType)))
		case "thinking", "redacted_thinking":
		default:
			return nil, fmt.Errorf("the answer has a block of the type %q, which MCP does not know", b.Type)
		}
	}
	words := text.String()
	if cut, stopped := r.stop(words); stopped && len(uses) == 0 {
		words, reason = cut, "stopSequence"
	}
	if len(uses) > 0 {
		reason = "toolUse"
	}
	content := others
	if words != "" || len(others) == 0 {
		content = append([]any{map[string]any{"type": "text", "text": words}}, others...)
	}
	answer := map[string]any{"role": "assistant", "content": any(content), "model": r.Model, "stopReason": reason}
	if len(content) == 1 { // which every revision can read
		answer["content"] = content[0]
	}
	return json.Marshal(answer)
}

// stop returns text up to the first of the texts at which it ends; false when
// none is in it. Providers are not told of them.
func (r *request) stop(text string) (string, bool) {
	at := -1
	for _, s := range r.stops {
		if i := strings.Index(text, s); i >= 0 && (at < 0 || i < at) {
			at = i
		}
	}
	if at < 0 {
		return text, false
	}
	return text[:at], true
}

// choose picks the model that a server would like best, else the first.
func (r *request) choose(models []string) string {
	for _, hint := range r.hints {
		for _, m := range models {
			if hint != "" && strings.Contains(m, hint) {
				return m
			}
		}
	}
	return models[0]
}
