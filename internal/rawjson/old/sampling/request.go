package sampling

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/daemon/extension/provider"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// request is what a server asks.
type Request struct {
	provider.Params
	hints    []string // parts of names of models that it would like, the best first
	stops    []string // texts at which the answer ends
	theirs   []string // names of its tools
	required bool     // the answer has to use one of them
}

// params are those of sampling/createMessage (MCP 2025-11-25). The message that
// they came in has been read strictly, so no name is there twice.
type params struct {
	Messages    []message
	Model       preferences `json:"modelPreferences"`
	System      string      `json:"systemPrompt"`
	Temperature *float64
	MaxTokens   *int     `json:"maxTokens"`
	Stops       []string `json:"stopSequences"`
	Tools       []tool
	Choice      struct{ Mode string } `json:"toolChoice"`
}

type preferences struct{ Hints []struct{ Name string } }

type message struct {
	Role    string
	Content json.RawMessage // a block, or a list of blocks
}

type tool struct {
	Name        string
	Description string
	InputSchema json.RawMessage `json:"inputSchema"`
}

// block is a piece of a message, of any type.
type block struct {
	Type    string
	Text    string
	ID      string
	Name    string
	Input   json.RawMessage
	Use     string          `json:"toolUseId"`
	Content json.RawMessage // of a tool's result
	Failed  bool            `json:"isError"`
}

// Read reads what a server asks. An error is gate.ErrInvalid, and for the server.
func Read(raw []byte) (*Request, error) {
	var p params
	if err := decode(raw, &p); err != nil {
		return nil, fmt.Errorf("%w: the params are not those of sampling/createMessage: %w", gate.ErrInvalid, err)
	}
	r := &Request{stops: p.Stops, required: p.Choice.Mode == "required"}
	r.System, r.Temperature = p.System, p.Temperature
	if p.MaxTokens != nil {
		r.MaxTokens = *p.MaxTokens
	}
	for _, h := range p.Model.Hints {
		r.hints = append(r.hints, h.Name)
	}
	switch {
	case len(p.Messages) == 0:
		return nil, fmt.Errorf("%w: there are no messages", gate.ErrInvalid)
	case p.MaxTokens == nil || *p.MaxTokens < 1:
		return nil, fmt.Errorf("%w: maxTokens must be at least 1", gate.ErrInvalid)
	case !slices.Contains([]string{"", "auto", "none", "required"}, p.Choice.Mode):
		return nil, fmt.Errorf("%w: a toolChoice of an unknown mode", gate.ErrInvalid)
	case r.required && len(p.Tools) == 0:
		return nil, fmt.Errorf("%w: a tool is required, and there is none", gate.ErrInvalid)
	case slices.Contains(p.Stops, ""):
		return nil, fmt.Errorf("%w: an empty stop sequence", gate.ErrInvalid)
	}
	for i, m := range p.Messages {
		said, err := m.provider()
		if err != nil {
			return nil, fmt.Errorf("%w: messages[%d]: %w", gate.ErrInvalid, i, err)
		}
		r.Messages = append(r.Messages, said)
	}
	if p.Choice.Mode == "none" {
		return r, nil
	}
	for i, t := range p.Tools {
		if t.Name == "" || slices.Contains(r.theirs, t.Name) {
			return nil, fmt.Errorf("%w: tools[%d] has no name of its own", gate.ErrInvalid, i)
		}
		r.theirs = append(r.theirs, t.Name)
		r.Tools = append(r.Tools, provider.Tool{Name: t.Name, Description: t.Description, InputSchema: t.InputSchema})
	}
	return r, nil
}

// provider is m as a provider is given it.
func (m message) provider() ([]byte, error) {
	if m.Role != "user" && m.Role != "assistant" {
		return nil, fmt.Errorf("an unknown role")
	}
	raws, err := listOf(m.Content)
	if err != nil {
		return nil, err
	}
	var said [][]byte
	for i, raw := range raws {
		b, err := blockOf(raw)
		if err != nil {
			return nil, fmt.Errorf("content[%d]: %w", i, err)
		}
		said = append(said, b)
	}
	return provider.Message(m.Role, said...), nil
}

// listOf returns the blocks of a content, which may be one of them alone.
func listOf(content json.RawMessage) ([]json.RawMessage, error) {
	if len(content) > 0 && content[0] == '{' {
		return []json.RawMessage{content}, nil
	}
	var all []json.RawMessage
	if err := json.Unmarshal(content, &all); err != nil || len(all) == 0 {
		return nil, fmt.Errorf("no content")
	}
	return all, nil
}

// blockOf is a block of a server's as a provider is given it.
func blockOf(raw json.RawMessage) ([]byte, error) {
	var b block
	if err := json.Unmarshal(raw, &b); err != nil {
		return nil, err
	}
	switch b.Type {
	case "text":
		return provider.TextBlock(b.Text), nil
	case "image", "audio":
		return raw, nil
	case "tool_use":
		if b.ID == "" || b.Name == "" || len(b.Input) == 0 || b.Input[0] != '{' {
			return nil, fmt.Errorf("a tool_use without an id, a name or an input")
		}
		return (&provider.ToolUse{ID: b.ID, Name: b.Name, Input: b.Input}).Append(nil), nil
	case "tool_result":
		if b.Use == "" {
			return nil, fmt.Errorf("a tool_result without a toolUseId")
		}
		return provider.ToolResult(b.Use, textOf(b.Content), b.Failed), nil
	}
	return nil, fmt.Errorf("an unknown type")
}

// textOf is what a model gets to read of the content of a tool's result: its
// texts, and anything else in raw JSON.
func textOf(content json.RawMessage) string {
	raws, err := listOf(content)
	if err != nil {
		return ""
	}
	var all []string
	for _, raw := range raws {
		var b block
		if json.Unmarshal(raw, &b) == nil && b.Type == "text" {
			all = append(all, b.Text)
		} else {
			all = append(all, string(raw))
		}
	}
	return strings.Join(all, "\n")
}

// Plain is what of a request the package looks at.
func (r *Request) Plain() []any {
	return []any{string(r.Params.Append(nil)), r.hints, r.stops, r.theirs, r.required}
}
