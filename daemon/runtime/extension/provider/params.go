package provider

import (
	"slices"
	"strconv"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Params are the parameters of provider.complete and provider.stream. Raw JSON in them goes to
// the extension byte for byte.
type Params struct {
	Provider string   // id, as the extension declared it
	ModelID  string   // of one of the provider's models
	Model    string   // PROVIDER/MODEL, for extensions with one list of all models
	Messages [][]byte // raw objects {"role","content"}, oldest first
	System   string   // the system prompt; empty for none
	Tools    []Tool   // tools that the model may use

	Temperature    *float64 // nil for the provider's default
	MaxTokens      int      // maximum of the answer; 0 for the provider's default
	ThinkingBudget int      // tokens for thinking; 0 for none
}

// Tool is a tool that is offered to a model.
type Tool struct {
	Name        string
	Description string
	InputSchema []byte // a raw JSON Schema; nil for any object
}

// anyObject is the schema of a tool without one.
const anyObject = `{"type":"object"}`

// Append appends p as one JSON object.
func (p *Params) Append(dst []byte) []byte {
	dst = wire.AppendQuote(append(dst, `{"provider_id":`...), p.Provider)
	dst = wire.AppendQuote(append(dst, `,"model_id":`...), p.ModelID)
	dst = wire.AppendQuote(append(dst, `,"model":`...), p.Model)
	dst = list(append(dst, `,"messages":`...), p.Messages, func(dst, m []byte) []byte { return append(dst, m...) })
	dst = append(dst, `,"system_prompt":`...)
	if p.System == "" {
		dst = append(dst, "null"...)
	} else {
		dst = wire.AppendQuote(dst, p.System)
	}
	dst = list(append(dst, `,"tools":`...), p.Tools, appendTool)
	dst = append(dst, `,"temperature":`...)
	if p.Temperature == nil {
		dst = append(dst, "null"...)
	} else {
		dst = strconv.AppendFloat(dst, *p.Temperature, 'f', -1, 64)
	}
	dst = append(dst, `,"max_tokens":`...)
	if p.MaxTokens == 0 {
		dst = append(dst, "null"...)
	} else {
		dst = strconv.AppendInt(dst, int64(p.MaxTokens), 10)
	}
	dst = strconv.AppendInt(append(dst, `,"thinking_budget":`...), int64(p.ThinkingBudget), 10)
	return append(dst, '}')
}

func appendTool(dst []byte, t Tool) []byte {
	dst = wire.AppendQuote(append(dst, `{"name":`...), t.Name)
	dst = wire.AppendQuote(append(dst, `,"description":`...), t.Description)
	dst = append(dst, `,"input_schema":`...)
	if t.InputSchema == nil {
		return append(dst, anyObject+"}"...)
	}
	return append(append(dst, t.InputSchema...), '}')
}

// with returns p with more messages. The messages of p are not modified.
func (p Params) with(messages ...[]byte) Params {
	p.Messages = append(slices.Clip(p.Messages), messages...)
	return p
}

// Message returns a message with the given blocks, each a raw object.
func Message(role string, blocks ...[]byte) []byte {
	dst := wire.AppendQuote([]byte(`{"role":`), role)
	dst = list(append(dst, `,"content":`...), blocks, func(dst, b []byte) []byte { return append(dst, b...) })
	return append(dst, '}')
}

// TextBlock returns a block of text.
func TextBlock(text string) []byte {
	return append(wire.AppendQuote([]byte(`{"type":"text","text":`), text), '}')
}

// MediaBlock returns a block with data: kind is image or audio.
func MediaBlock(kind, data, mimeType string) []byte {
	dst := wire.AppendQuote(append(wire.AppendQuote([]byte(`{"type":`), kind), `,"data":`...), data)
	return append(wire.AppendQuote(append(dst, `,"mimeType":`...), mimeType), '}')
}

// ToolResult returns the block that answers a tool use.
func ToolResult(id, text string, failed bool) []byte {
	dst := wire.AppendQuote([]byte(`{"type":"tool_result","tool_use_id":`), id)
	dst = wire.AppendQuote(append(dst, `,"content":`...), text)
	if failed {
		dst = append(dst, `,"is_error":true`...)
	}
	return append(dst, '}')
}

func list[T any](dst []byte, all []T, one func(dst []byte, t T) []byte) []byte {
	dst = append(dst, '[')
	for i, t := range all {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = one(dst, t)
	}
	return append(dst, ']')
}
