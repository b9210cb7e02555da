package provider

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Result is one answer of a model.
type Result struct {
	Content    []Block
	StopReason string // as the provider says it, as end_turn or tool_use; may be empty
	Usage      []byte // raw object, nil when the provider tells none
}

// Block is a piece of an answer.
type Block struct {
	Type string   // text, tool_use, thinking, ...
	Text string   // of type text
	Use  *ToolUse // of type tool_use
	Raw  []byte   // the block as it was written
}

// ToolUse is a model's wish to have a tool called.
type ToolUse struct {
	ID    string // names it in the answer to it; not empty, and once in a result
	Name  string // of the tool; not empty
	Input []byte // a raw object
}

// mostUses bounds the tool uses of one answer.
const mostUses = 64

// ErrEmpty says that a provider has completed with no content. A streamed answer
// may: all of it may have come as events.
var ErrEmpty = errors.New("the provider's answer has no content")

// ReadResult reads the result of provider.complete. An answer without content is
// ErrEmpty.
func ReadResult(raw []byte) (Result, error) {
	r, err := ReadStreamed(raw)
	if err == nil && len(r.Content) == 0 {
		err = ErrEmpty
	}
	return r, err
}

// ReadStreamed reads the result of provider.stream, which may have no content.
// raw must not be changed afterwards.
func ReadStreamed(raw []byte) (Result, error) {
	var r Result
	o, err := readObject(raw)
	if err != nil {
		return r, fmt.Errorf("the provider's answer is %w", err)
	}
	if r.StopReason, _, err = o.optionalText("stop_reason"); err != nil {
		return r, fmt.Errorf("the provider's stop_reason is %w", err)
	}
	if usage := o["usage"]; usage != nil && !isNull(usage) {
		if usage[0] != '{' {
			return r, errors.New("the provider's usage is no object")
		}
		r.Usage = usage
	}
	content := o["content"]
	if content == nil {
		return r, errors.New("the provider's answer has no member content")
	}
	items, err := wire.Elements(content, wire.Span{End: len(content)})
	if err != nil {
		return r, fmt.Errorf("the provider's content is %w", err)
	}
	for _, item := range items {
		b, err := readBlock(item.Of(content))
		if err != nil {
			return Result{}, err
		}
		r.Content = append(r.Content, b)
	}
	if _, err := r.Uses(); err != nil {
		return Result{}, err
	}
	return r, nil
}

// Uses returns the tool uses of an answer, in its order. It fails when two have
// one id, or when there are too many.
func (r *Result) Uses() ([]ToolUse, error) {
	var uses []ToolUse
	seen := map[string]bool{}
	for _, b := range r.Content {
		if b.Use == nil {
			continue
		}
		if seen[b.Use.ID] {
			return nil, fmt.Errorf("the provider's answer has two tool uses with the id %q", b.Use.ID)
		}
		seen[b.Use.ID] = true
		uses = append(uses, *b.Use)
	}
	if len(uses) > mostUses {
		return nil, fmt.Errorf("the provider's answer has %d tool uses; at most %d can be answered", len(uses), mostUses)
	}
	return uses, nil
}

// Text returns the text blocks of an answer, one after the other.
func (r *Result) Text() string {
	var b strings.Builder
	for _, block := range r.Content {
		b.WriteString(block.Text)
	}
	return b.String()
}

func readBlock(raw []byte) (Block, error) {
	o, err := readObject(raw)
	if err != nil {
		return Block{}, fmt.Errorf("a block of the provider's content is %w", err)
	}
	b := Block{Raw: raw}
	if b.Type, err = o.text("type"); err != nil {
		return Block{}, fmt.Errorf("a block of the provider's content has %w", err)
	}
	switch b.Type {
	case "text":
		if b.Text, err = o.text("text"); err != nil {
			return Block{}, fmt.Errorf("a text block of the provider's content has %w", err)
		}
	case "tool_use":
		if b.Use, err = readUse(o); err != nil {
			return Block{}, fmt.Errorf("a provider tool_use has %w", err)
		}
	}
	return b, nil
}

// readUse reads a tool use out of a block or an event.
func readUse(o object) (*ToolUse, error) {
	u := ToolUse{Input: []byte("{}")}
	var err error
	if u.ID, err = o.text("id"); err != nil {
		return nil, err
	}
	if u.Name, err = o.text("name"); err != nil {
		return nil, err
	}
	switch {
	case strings.TrimSpace(u.ID) == "":
		return nil, errors.New("an empty id")
	case strings.TrimSpace(u.Name) == "":
		return nil, errors.New("an empty name")
	}
	if input := o["input"]; input != nil {
		if input[0] != '{' {
			return nil, fmt.Errorf("an input (of %q) that is no object", u.ID)
		}
		u.Input = input
	}
	return &u, nil
}

// object is a JSON object by the unescaped names of its members; the values are
// raw, without blanks around them.
type object map[string][]byte

// readObject reads raw, which must be one JSON object in UTF-8 without duplicate
// names at any depth. The error tells what it is instead.
func readObject(raw []byte) (object, error) {
	raw = bytes.TrimSpace(raw)
	if !jsontext.Value(raw).IsValid() {
		return nil, errors.New("no valid JSON")
	}
	if raw[0] != '{' {
		return nil, errors.New("no JSON object")
	}
	o := object{}
	err := wire.Members(raw, wire.Span{End: len(raw)}, func(name []byte, value wire.Span) error {
		o[string(name)] = value.Of(raw)
		return nil
	})
	return o, err
}

// text returns the member name, which must be a string.
func (o object) text(name string) (string, error) {
	text, there, err := o.optionalText(name)
	switch {
	case err != nil:
		return "", fmt.Errorf("a member %s that is %w", name, err)
	case !there:
		return "", fmt.Errorf("no member %s", name)
	}
	return text, nil
}

// optionalText returns the member name if there is one, and not null.
func (o object) optionalText(name string) (text string, there bool, err error) {
	value := o[name]
	if value == nil || isNull(value) {
		return "", false, nil
	}
	if value[0] != '"' {
		return "", false, errors.New("no text")
	}
	unquoted, err := jsontext.AppendUnquote(nil, value)
	return string(unquoted), err == nil, err
}

func isNull(raw []byte) bool { return string(raw) == "null" }
