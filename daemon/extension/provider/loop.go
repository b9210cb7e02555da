// Package provider knows what a language model of an extension is asked and what
// it answers, and lets it use tools.
//
// An extension with the permission `providers` has models. One completion is a
// question (Params) and an answer (Result), whose content are blocks: text, or
// the wish to have a tool called. A Loop has those tools called, gives the model
// their results and asks again, until it wants no more of them:
//
//	loop := provider.Loop{Provider: p, Tools: tools}
//	result, err := loop.Complete(ctx, provider.Params{Messages: ..., Tools: ...})
//
// What an extension writes is read strictly: a tool use without an id or a name,
// or with anything but an object as its input, is an error and never a guess. The
// package starts nothing and knows no registry; how a question reaches the
// extension is the business of who implements Provider, and whether a tool may
// be called that of who implements Tools.
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

// Provider asks one extension's provider. It is safe for concurrent use, and returns
// when ctx ends.
type Provider interface {
	Complete(ctx context.Context, p Params) (Result, error)
}

// Tools has tools called, each judged like any other call.
type Tools interface {
	// Call returns what the model is told: the tool's own text, or why it was
	// not called; failed says that the call was refused or went wrong. name is of
	// a tool that the model was offered, input a raw object.
	Call(ctx context.Context, name string, input []byte) (text string, failed bool)
}

// What a Loop does where nothing else is said.
const (
	DefaultIterations = 8
	DefaultOutput     = 32 << 10
)

// ErrIterations ends a loop whose model asks for tools without end.
var ErrIterations = errors.New("the model still asked for tools after the last iteration that it was allowed")

// Loop lets a model use tools until it has its answer. It is not changed by use.
type Loop struct {
	Provider Provider
	Tools    Tools

	// Theirs names the tools among those offered that whoever asked runs: an
	// answer that uses them is the last one, and it is theirs to go on.
	Theirs []string

	// Iterations is how often the model is asked, at most: 0 is
	// DefaultIterations, and less than 1 counts as 1.
	Iterations int
	// Output is how many bytes of a tool's text the model is given, at most; 0
	// is DefaultOutput.
	Output int
}

// Append appends u as a block.
func (u *ToolUse) Append(dst []byte) []byte {
	dst = wire.AppendQuote(append(dst, `{"type":"tool_use","id":`...), u.ID)
	dst = wire.AppendQuote(append(dst, `,"name":`...), u.Name)
	return append(append(append(dst, `,"input":`...), u.Input...), '}')
}

// Complete asks the model, and returns its last answer.
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
		ours := slices.ContainsFunc(uses, func(u ToolUse) bool { return !slices.Contains(l.Theirs, u.Name) })
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

// call answers one tool use of an answer that uses tools of ours.
func (l *Loop) call(ctx context.Context, p *Params, u ToolUse) (text string, failed bool) {
	switch {
	case slices.Contains(l.Theirs, u.Name):
		// Whoever asked answers all tool uses of an answer, or none.
		return fmt.Sprintf("Not called: %s is run by whoever asked. Use it in an answer of its own, without other tools.", u.Name), true
	case l.Tools == nil || !slices.ContainsFunc(p.Tools, func(t Tool) bool { return t.Name == u.Name }):
		return "Unknown tool: " + u.Name, true
	}
	return l.Tools.Call(ctx, u.Name, u.Input)
}

// cut returns as much of text as the model is given, and says what is missing.
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
