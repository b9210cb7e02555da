package provider

import (
	"errors"
	"fmt"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/rawjson"
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
	o := rawjson.Read(raw)
	r := Result{StopReason: o.OptionalText("stop_reason"), Usage: o.Get("usage")}
	if r.Usage != nil && r.Usage[0] != '{' {
		o.Fail("usage is no object")
	}
	if o.Get("content") == nil {
		o.Fail("there is no member content")
	}
	for _, block := range o.Objects("content") {
		r.Content = append(r.Content, readBlock(block))
	}
	if err := o.Err(); err != nil {
		return Result{}, fmt.Errorf("the provider's answer: %w", err)
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

func readBlock(o rawjson.Object) Block {
	b := Block{Type: o.Text("type"), Raw: o.Raw}
	switch b.Type {
	case "text":
		b.Text = o.Text("text")
	case "tool_use":
		b.Use = readUse(o)
	}
	return b
}

// readUse reads a tool use out of a block or an event.
func readUse(o rawjson.Object) *ToolUse {
	u := ToolUse{ID: o.Text("id"), Name: o.Text("name"), Input: []byte("{}")}
	switch {
	case strings.TrimSpace(u.ID) == "":
		o.Fail("a tool_use has an empty id")
	case strings.TrimSpace(u.Name) == "":
		o.Fail("a tool_use has an empty name")
	}
	if o.Has("input") {
		if u.Input = o.Get("input"); u.Input == nil || u.Input[0] != '{' {
			o.Fail("the input of the tool_use %q is no object", u.ID)
		}
	}
	return &u
}
