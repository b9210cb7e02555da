package agentconf

import (
	"fmt"
	"slices"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// rewrite puts line before the words of each entry, and returns the new text and
// how the entries were. That taking it back gives the text before is proved here
// and now, on values and on bytes.
func rewrite(doc *edit.Document, entries []*Entry, line Line) ([]byte, []entryWas, error) {
	var ops []edit.Op
	var before []entryWas
	for _, e := range entries {
		w := e.was(doc)
		ops = append(ops, e.insert(line.of(e), w, doc)...)
		before = append(before, w)
	}
	text, err := doc.Edit(ops...)
	if err != nil {
		return nil, nil, err
	}
	return text, before, proveReversible(doc, text, before, line)
}

// insert returns the operations that put line into the entry, which was as w
// says.
func (e *Entry) insert(line Line, w entryWas, doc *edit.Document) []edit.Op {
	n, syntax := e.form.of(doc.At(e.Path)), doc.Syntax()
	below := func(name string) []string { return append(slices.Clone(e.Path), name) }
	ops, missing := raise(e.Path, w.Limits)
	if n.form.isList() {
		words := line.words(syntax.Quote(e.ID), "", syntax)
		words = append([]string{syntax.Quote(line.Shim)}, words[:len(words)-1]...)
		ops = append(ops, edit.Prepend(below(n.form.Command), words...))
	} else {
		before, more := e.insertWords(line, w, n)
		ops, missing = append(ops, before...), append(missing, more...)
	}
	env := line.env(syntax)
	switch n.env().Kind() {
	case edit.Object:
		if w.Env.whole() {
			for name, value := range n.env().Members() {
				if name.Text() != envSocket && name.Text() != envSession {
					env = append(env, edit.Member{Name: name.Text(), Value: value.Written()})
				}
			}
			ops = append(ops, edit.Set(below(n.form.Env), syntax.Table(env)))
			break
		}
		ops = append(ops, edit.Add(below(n.form.Env), env...))
	case edit.Null:
		ops = append(ops, edit.Set(below(n.form.Env), syntax.Table(env)))
	default:
		missing = append(missing, edit.Member{Name: n.form.Env, Value: syntax.Table(env)})
	}
	if len(missing) > 0 {
		ops = append(ops, edit.Add(e.Path, missing...))
	}
	return ops
}

// insertWords puts the shim in the place of the command, and that behind our
// words before the arguments.
func (e *Entry) insertWords(line Line, w entryWas, n server) (ops []edit.Op, missing []edit.Member) {
	syntax := n.Document().Syntax()
	below := func(name string) []string { return append(slices.Clone(e.Path), name) }
	command := n.command().Written()
	if n.command().Exists() {
		ops = append(ops, edit.Set(below(n.form.Command), syntax.Quote(line.Shim)))
	} else {
		command = syntax.Quote(e.Command)
		missing = append(missing, edit.Member{Name: n.form.Command, Value: syntax.Quote(line.Shim)})
	}
	words := line.words(syntax.Quote(e.ID), command, syntax)
	switch n.args().Kind() {
	case edit.Array:
		ops = append(ops, edit.Prepend(below(n.form.Args), words...))
	case edit.Null:
		ops = append(ops, edit.Set(below(n.form.Args), syntax.List(words)))
	default:
		for _, arg := range w.Inherited {
			words = append(words, syntax.Quote(arg))
		}
		missing = append(missing, edit.Member{Name: n.form.Args, Value: syntax.List(words)})
	}
	return ops, missing
}

// proveReversible takes line out of text again and compares with what was there
// before.
func proveReversible(doc *edit.Document, text []byte, before []entryWas, line Line) error {
	rewritten, err := reading(doc.Syntax()).Read(text)
	if err != nil {
		return fmt.Errorf("the rewritten text would not parse: %w", err)
	}
	taken, err := takeBack(rewritten, before, line.Session, line.Shim)
	if err != nil {
		return fmt.Errorf("the rewrite could not be undone: %w", err)
	}
	if string(taken.text) != string(doc.Bytes()) || len(taken.notes) > 0 {
		return fmt.Errorf("the rewrite could not be undone byte for byte")
	}
	return nil
}
