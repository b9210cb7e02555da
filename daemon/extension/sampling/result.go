package sampling

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/thoughtgate/thoughtgated/daemon/extension/provider"
	"github.com/thoughtgate/thoughtgated/internal/rawjson"
)

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
