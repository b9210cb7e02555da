// Package provider defines requests to the language models of extensions and their
// answers, and lets the models use tools.
//
// An extension with the permission `providers` has models. A completion is a request
// (Params) and an answer (Result) whose content is a list of blocks: text, or tool uses.
// A Loop calls those tools, gives the model their results and asks again, until the
// model uses none:
//
//	loop := provider.Loop{Provider: p, Tools: tools}
//	result, err := loop.Complete(ctx, provider.Params{Messages: ..., Tools: ...})
//
// What an extension writes is parsed strictly: a tool use without an id or a name, or
// with anything but an object as its input, is an error. The package starts no processes:
// the Provider delivers the request to the extension, and the Tools decide whether a
// tool may be called.
package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Provider sends requests to a provider of one extension. It is safe for concurrent use and
// returns when ctx ends.
type Provider interface {
	Complete(ctx context.Context, p Params) (Result, error)
}

// Tools calls tools. Each call is judged like any other.
type Tools interface {
	// Call returns what the model is told: the tool's text, or why the tool was not called.
	// failed reports that the call was denied or failed. name is a tool that the model was
	// offered, input a raw object.
	Call(ctx context.Context, name string, input []byte) (text string, failed bool)
}

// Defaults of a Loop.
const (
	DefaultIterations = 8
	DefaultOutput     = 32 << 10
)

// ErrIterations reports that a model still used tools in the last iteration.
var ErrIterations = errors.New("the model still requested tools after the last allowed iteration")

// Loop lets a model use tools until it has its answer. Its methods do not modify it.
type Loop struct {
	Provider Provider
	Tools    Tools

	// RequesterTools names the offered tools that the requester runs itself: an answer that
	// uses only them is the last one, and the requester continues.
	RequesterTools []string

	// Iterations is the maximum number of requests to the model: 0 is DefaultIterations, and a
	// negative number counts as 1.
	Iterations int
	// Output is the maximum length of a tool's text that the model is given, in bytes; 0 is
	// DefaultOutput.
	Output int
}

// Append appends u as a block.
func (u *ToolUse) Append(dst []byte) []byte {
	dst = wire.AppendQuote(append(dst, `{"type":"tool_use","id":`...), u.ID)
	dst = wire.AppendQuote(append(dst, `,"name":`...), u.Name)
	return append(append(append(dst, `,"input":`...), u.Input...), '}')
}

// Complete asks the model and returns its last answer.
func (l *Loop) Complete(ctx context.Context, p Params) (Result, error) {
	most := max(1, cmp.Or(l.Iterations, DefaultIterations))
	for i := 1; ; i++ {
		r, err := l.Provider.Complete(ctx, p)
		if err != nil {
			return Result{}, err
		}
		uses, err := r.Uses()
		if err != nil {
			return Result{}, err
		}
		ours := slices.ContainsFunc(uses, func(u ToolUse) bool { return !slices.Contains(l.RequesterTools, u.Name) })
		if !ours {
			return r, nil
		}
		if i >= most {
			return Result{}, fmt.Errorf("%w (%d)", ErrIterations, most)
		}
		answers := make([][]byte, len(uses))
		for n, u := range uses {
			text, failed := l.call(ctx, &p, u)
			if ctx.Err() != nil {
				return Result{}, context.Cause(ctx)
			}
			answers[n] = ToolResult(u.ID, l.cut(text), failed)
		}
		said := make([][]byte, len(r.Content))
		for n, b := range r.Content {
			said[n] = b.Raw
		}
		p = p.with(Message("assistant", said...), Message("user", answers...))
	}
}

// call handles one tool use of an answer that uses a tool of ours.
func (l *Loop) call(ctx context.Context, p *Params, u ToolUse) (text string, failed bool) {
	switch {
	case slices.Contains(l.RequesterTools, u.Name):
		// The requester answers all tool uses of an answer, or none.
		return fmt.Sprintf("Not called: the requester runs %s itself. Use it in an answer of its own, without other tools.", u.Name), true
	case l.Tools == nil || !slices.ContainsFunc(p.Tools, func(t Tool) bool { return t.Name == u.Name }):
		return "Unknown tool: " + u.Name, true
	}
	return l.Tools.Call(ctx, u.Name, u.Input)
}

// cut returns text, truncated to what the model is given, with a note of how much is missing.
func (l *Loop) cut(text string) string {
	most := cmp.Or(l.Output, DefaultOutput)
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return fmt.Sprintf("%s\n[%d more bytes were left out]", text[:most], len(text)-most)
}
