package protocol

import (
	"errors"
	"fmt"
	"strconv"
)

// Completion is what a provider is asked.
type Completion struct {
	Provider string // the id of a provider
	Model    string // the id of a model of it
	// Name is how the model is called by whoever asks, which need not be its id.
	Name           string
	Messages       [][]byte // raw JSON objects
	SystemPrompt   string   // empty for none
	Tools          []Tool
	Temperature    *float64 // nil: the provider's own
	MaxTokens      uint64   // 0: the provider's own
	ThinkingBudget uint64
}

// Params returns what the provider is asked with. request is an id that the events
// of a stream may repeat; empty for none.
func (c *Completion) Params(request string) []byte {
	dst := appendQuote([]byte(`{"provider_id":`), c.Provider)
	dst = appendQuote(append(dst, `,"model_id":`...), c.Model)
	dst = appendQuote(append(dst, `,"model":`...), c.Name)
	dst = append(dst, `,"messages":[`...)
	for i, m := range c.Messages {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, m...)
	}
	dst = append(dst, `],"system_prompt":`...)
	if c.SystemPrompt == "" {
		dst = append(dst, "null"...)
	} else {
		dst = appendQuote(dst, c.SystemPrompt)
	}
	dst = append(dst, `,"tools":[`...)
	for i, t := range c.Tools {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendQuote(append(dst, `{"name":`...), t.Name)
		dst = appendQuote(append(dst, `,"description":`...), t.Description)
		dst = append(append(append(dst, `,"input_schema":`...), t.InputSchema...), '}')
	}
	dst = append(dst, `],"temperature":`...)
	if c.Temperature == nil {
		dst = append(dst, "null"...)
	} else {
		dst = strconv.AppendFloat(dst, *c.Temperature, 'g', -1, 64)
	}
	dst = append(dst, `,"max_tokens":`...)
	if c.MaxTokens == 0 {
		dst = append(dst, "null"...)
	} else {
		dst = strconv.AppendUint(dst, c.MaxTokens, 10)
	}
	dst = strconv.AppendUint(append(dst, `,"thinking_budget":`...), c.ThinkingBudget, 10)
	if request != "" {
		dst = appendQuote(append(dst, `,"request_id":`...), request)
	}
	return append(dst, '}')
}

// Completed is what a provider answers. Raw JSON in it has no line breaks.
type Completed struct {
	Content    [][]byte // raw JSON objects; a stream may have none
	StopReason string   // may be empty
	Usage      []byte   // raw JSON, or nil
}

// ReadCompleted reads the answer of a provider. Without streamed an answer without
// content is an error.
func ReadCompleted(raw []byte, streamed bool) (*Completed, error) {
	o, err := readObject(raw)
	if err != nil {
		return nil, err
	}
	blocks, err := o.list("content")
	switch {
	case err != nil:
		return nil, err
	case o.get("content") == nil:
		return nil, errors.New("content is missing")
	case len(blocks) == 0 && !streamed:
		return nil, errors.New("empty content")
	}
	c := &Completed{Usage: o.raw("usage")}
	for i, block := range blocks {
		if block.Kind() != '{' {
			return nil, fmt.Errorf("content[%d] is not a JSON object", i)
		}
		c.Content = append(c.Content, OneLine(block))
	}
	c.StopReason, err = o.optional("stop_reason")
	return c, err
}

// ToolUse is a provider's wish that a tool be called.
type ToolUse struct {
	ID, Name string
	Input    []byte // a raw JSON object without line breaks
}

// ToolUses returns the tools that the content asks for, in their order.
func (c *Completed) ToolUses() ([]ToolUse, error) {
	var all []ToolUse
	for _, raw := range c.Content {
		o, err := readObject(raw)
		if err != nil {
			return nil, err
		}
		if kind, _ := o.text("type"); kind != "tool_use" {
			continue
		}
		use, err := readToolUse(o)
		if err != nil {
			return nil, fmt.Errorf("provider tool_use %w", err)
		}
		all = append(all, use)
	}
	return all, nil
}

func readToolUse(o object) (use ToolUse, err error) {
	var ok bool
	if use.ID, ok = o.text("id"); !ok {
		return use, errors.New("missing id")
	}
	if use.Name, ok = o.text("name"); !ok {
		return use, errors.New("missing name")
	}
	if blank(use.ID) {
		return use, errors.New("id must be non-empty")
	}
	if blank(use.Name) {
		return use, errors.New("name must be non-empty")
	}
	use.Input = []byte(`{}`)
	for _, m := range o {
		if m.name != "input" {
			continue
		}
		if m.value.Kind() != '{' {
			return use, errors.New("input must be a JSON object")
		}
		use.Input = OneLine(m.value)
	}
	return use, nil
}

// StreamKind is what a piece of a provider's stream is.
type StreamKind string

const (
	StreamText     StreamKind = "text"
	StreamThinking StreamKind = "thinking"
	StreamToolUse  StreamKind = "tool_use"
	StreamUsage    StreamKind = "usage"
	StreamError    StreamKind = "error" // the stream goes on; who reads it decides
	StreamDone     StreamKind = "done"
)

// StreamEvent is a piece of what a provider says.
type StreamEvent struct {
	Kind    StreamKind
	Text    string  // StreamText, StreamThinking; StreamError: the message
	ToolUse ToolUse // StreamToolUse
	Usage   []byte  // StreamUsage: a raw JSON object
}

// ReadStreamEvent reads the params of a provider.stream.event, in which the event
// stands as the member event or for itself. request is the request_id that it
// names, empty where it names none.
func ReadStreamEvent(params []byte) (e StreamEvent, request string, err error) {
	o, err := readObject(params)
	if err != nil {
		return e, "", fmt.Errorf("provider stream event: %w", err)
	}
	if request, err = o.optional("request_id"); err != nil {
		return e, "", fmt.Errorf("provider stream event: %w", err)
	}
	for _, m := range o {
		if m.name != "event" {
			continue
		}
		if o, err = readObject(m.value); err != nil {
			return e, "", fmt.Errorf("provider stream event must be a JSON object: %w", err)
		}
		break
	}
	e, err = o.streamEvent()
	if err != nil {
		err = fmt.Errorf("provider stream %w", err)
	}
	return e, request, err
}

func (o object) streamEvent() (e StreamEvent, err error) {
	kind, ok := o.text("type")
	if !ok {
		return e, errors.New("event missing type")
	}
	e.Kind = StreamKind(kind)
	switch e.Kind {
	case StreamText, StreamThinking:
		name := "delta"
		if o.get(name) == nil {
			name = "text"
		}
		if e.Text, ok = o.text(name); !ok {
			err = fmt.Errorf("%s event missing 'delta' or 'text'", kind)
		}
	case StreamToolUse:
		if e.ToolUse, err = readToolUse(o); err != nil {
			err = fmt.Errorf("tool_use %w", err)
		}
	case StreamUsage:
		e.Usage = o.without("type", "request_id")
	case StreamError:
		if e.Text, ok = o.text("message"); !ok {
			err = errors.New("error missing message")
		} else if e.Text == "" {
			err = errors.New("error message must be non-empty")
		}
	case StreamDone:
	default:
		err = fmt.Errorf("event of the unknown type %q", Plain(kind, 40))
	}
	return e, err
}

// without returns the object without the members of these names.
func (o object) without(names ...string) []byte {
	dst := []byte{'{'}
next:
	for _, m := range o {
		for _, name := range names {
			if m.name == name {
				continue next
			}
		}
		if len(dst) > 1 {
			dst = append(dst, ',')
		}
		dst = append(append(appendQuote(dst, m.name), ':'), OneLine(m.value)...)
	}
	return append(dst, '}')
}

// CheckResult refuses what is not the result of a tool, and returns it in one line.
func CheckResult(raw []byte) ([]byte, error) {
	o, err := readObject(raw)
	if err != nil {
		return nil, fmt.Errorf("the result of the tool: %w", err)
	}
	if content := o.get("content"); content.Kind() != '[' {
		return nil, errors.New("the result of the tool has no content array")
	}
	if wrong := o.get("isError"); wrong != nil && wrong.Kind() != 't' && wrong.Kind() != 'f' {
		return nil, errors.New("isError in the result of the tool is neither true nor false")
	}
	return OneLine(raw), nil
}
