package sampling

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/provider"
	"github.com/thoughtgate/thoughtgated/internal/rawjson"
)

// request is a sampling request of a server.
type request struct {
	provider.Params
	hints    []string // parts of preferred model names, best first
	stops    []string // stop sequences
	theirs   []string // names of the server's tools
	required bool     // the answer must use one of them
}

// read parses the params of sampling/createMessage (MCP 2025-11-25). Names are matched exactly,
// so that policies and this code read the same members. The error is a gate.ErrInvalid, and is
// meant for the server.
func read(raw []byte) (*request, error) {
	o := rawjson.Read(raw)
	r := readRequest(o)
	if err := o.Err(); err != nil {
		return nil, fmt.Errorf("%w: invalid params of sampling/createMessage: %w", gate.ErrInvalid, err)
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
		o.Fail("a toolChoice with an unknown mode")
	case r.required && len(tools) == 0:
		o.Fail("a tool is required, but there are no tools")
	case slices.Contains(r.stops, ""):
		o.Fail("an empty stop sequence")
	}
	for _, m := range messages {
		r.Messages = append(r.Messages, readMessage(m))
	}
	for i, t := range tools {
		tool := provider.Tool{Name: t.Text("name"), Description: t.OptionalText("description"), InputSchema: t.Get("inputSchema")}
		if tool.Name == "" || slices.Contains(r.theirs, tool.Name) {
			o.Fail("tools[%d] has no unique name", i)
		}
		if mode != "none" {
			r.theirs, r.Tools = append(r.theirs, tool.Name), append(r.Tools, tool)
		}
	}
	return r
}

// readMessage returns a message in the form that providers get.
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

// blocksOf returns the blocks of a content, which may be a single block.
func blocksOf(o rawjson.Object, name string) []rawjson.Object {
	if o.Get(name).Kind() == '{' {
		return []rawjson.Object{o.Object(name)}
	}
	return o.Objects(name)
}

// readBlock returns a block of the server in the form that providers get. It is rebuilt from
// the parsed fields, so that a provider reads only what was judged.
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
	o.Fail("an unknown content type")
	return nil
}

// textOf returns what a model reads of a tool's result: its texts, and anything else as raw
// JSON.
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

// reasons maps the stop reasons of providers to those of MCP.
var reasons = map[string]string{
	"": "endTurn", "end_turn": "endTurn", "stop": "endTurn",
	"stop_sequence": "stopSequence", "max_tokens": "maxTokens", "length": "maxTokens", "tool_use": "toolUse",
}

// result converts a provider's answer into the result for the server. The blocks are rebuilt
// from the parsed fields, so that nothing else reaches it.
func (r *request) result(said provider.Result) ([]byte, error) {
	uses, err := said.Uses()
	if err != nil {
		return nil, err
	}
	if r.required && len(uses) == 0 {
		return nil, errors.New("the answer uses no tool, but the server requires one")
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
			return nil, fmt.Errorf("the answer has a block of the type %q, which MCP does not have", b.Type)
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
	if len(content) == 1 { // every revision accepts a single block
		answer["content"] = content[0]
	}
	return json.Marshal(answer)
}

// stop returns text up to the first stop sequence, and false if there is none. Providers do not
// get the stop sequences.
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

// choose returns the model that the server prefers, or the first.
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
