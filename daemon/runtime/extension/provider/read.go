package provider

import (
	"errors"
	"fmt"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/rawjson"
)

// Result is an answer of a model.
type Result struct {
	Content    []Block
	StopReason string // in the provider's words, as end_turn or tool_use; may be empty
	Usage      []byte // raw object, nil if absent
}

// Block is one block of an answer.
type Block struct {
	Type string   // text, tool_use, thinking, ...
	Text string   // for type text
	Use  *ToolUse // for type tool_use
	Raw  []byte   // the block as it was written
}

// ToolUse is a model's request to call a tool.
type ToolUse struct {
	ID    string // named in its result; not empty, unique in an answer
	Name  string // of the tool; not empty
	Input []byte // a raw object
}

// mostUses is the maximum number of tool uses in one answer.
const mostUses = 64

// ErrEmpty reports an answer without content.
var ErrEmpty = errors.New("the provider's answer has no content")

// ReadResult parses the result of provider.complete. The error for an answer without content is
// ErrEmpty. raw must not be modified afterwards.
func ReadResult(raw []byte) (Result, error) {
	o := rawjson.Read(raw)
	r := Result{StopReason: o.OptionalText("stop_reason"), Usage: o.Get("usage")}
	if r.Usage != nil && r.Usage[0] != '{' {
		o.Fail("usage is not an object")
	}
	if o.Get("content") == nil {
		o.Fail("content is missing")
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
	if len(r.Content) == 0 {
		return r, ErrEmpty
	}
	return r, nil
}

// Uses returns the tool uses of an answer, in order. It returns an error if two have the same
// id or if there are too many.
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

// readUse parses a tool use.
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
			o.Fail("the input of the tool_use %q is not an object", u.ID)
		}
	}
	return &u
}
