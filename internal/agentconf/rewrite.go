package agentconf

import (
	"fmt"
	"slices"

	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// rewrite inserts line into each entry, and our entries for hooks if hooks is not nil. It returns
// the new text and the original entries. It verifies that undoing this restores the original
// text, as values and as bytes.
func rewrite(doc *edit.Document, entries []*Entry, hooks *agenthook.Contract, line Line) ([]byte, []originalEntry, error) {
	var ops []edit.Op
	var before []originalEntry
	for _, e := range entries {
		w := e.was(doc)
		if e.Remote != nil {
			op, err := e.exchange(line.of(e), w, doc)
			if err != nil {
				return nil, nil, fmt.Errorf("server %s: %w", e.ID, err)
			}
			ops, before = append(ops, op), append(before, w)
			continue
		}
		ops = append(ops, e.insert(line.of(e), w, doc)...)
		before = append(before, w)
	}
	if hooks != nil {
		more, w, err := insertHooks(doc, hooks, line)
		if err != nil {
			return nil, nil, err
		}
		ops, before = append(ops, more...), append(before, w)
	}
	text, err := doc.Edit(ops...)
	if err != nil {
		return nil, nil, err
	}
	return text, before, proveReversible(doc, text, before, line)
}

// changes collects the changes to one entry.
type changes struct {
	entry edit.Node
	path  []string
	ops   []edit.Op
	added []edit.Member
	gone  []string
}

func (c *changes) at(name string) []string { return append(slices.Clone(c.path), name) }

func (c *changes) do(op edit.Op) { c.ops = append(c.ops, op) }

// put sets a member to the value of a text, or removes it if the text is empty.
func (c *changes) put(name, value string) {
	switch there := c.entry.Member(name).Exists(); {
	case value != "" && there:
		c.do(edit.Set(c.at(name), value))
	case value != "":
		c.added = append(c.added, edit.Member{Name: name, Value: value})
	case there:
		c.gone = append(c.gone, name)
	}
}

// all returns the operations for the changes.
func (c *changes) all() []edit.Op {
	if len(c.added) > 0 {
		c.do(edit.Add(c.path, c.added...))
	}
	if len(c.gone) > 0 {
		c.do(edit.DropMembers(c.path, c.gone...))
	}
	return c.ops
}

// insert returns the operations that insert line into the entry. w is the original entry.
func (e *Entry) insert(line Line, w originalEntry, doc *edit.Document) []edit.Op {
	n, syntax := e.form.of(doc.At(e.Path)), doc.Syntax()
	c := &changes{entry: n.Node, path: e.Path}
	for _, l := range w.Limits {
		c.put(l.Key, l.Now)
	}
	if n.form.isList() {
		words := line.words(syntax.Quote(e.ID), "", syntax)
		words = append([]string{syntax.Quote(line.Shim)}, words[:len(words)-1]...)
		c.do(edit.Prepend(c.at(n.form.Command), words...))
	} else {
		e.insertWords(c, line, w, n)
	}
	env := line.env(syntax)
	if n.env().Kind() == edit.Object && !w.Env.whole() {
		c.do(edit.Add(c.at(n.form.Env), env...))
	} else {
		c.put(n.form.Env, syntax.Table(append(env, theirs(n)...)))
	}
	return c.all()
}

// theirs returns the members of an entry's environment without our variables.
func theirs(n server) []edit.Member {
	var members []edit.Member
	for name, value := range n.env().Members() {
		if name.Text() != envSocket && name.Text() != envSession {
			members = append(members, edit.Member{Name: name.Text(), Value: value.Written()})
		}
	}
	return members
}

// insertWords replaces the command by tg-shim, and inserts our words and the command before the
// arguments.
func (e *Entry) insertWords(c *changes, line Line, w originalEntry, n server) {
	syntax := n.Document().Syntax()
	command := n.command().Written()
	if !n.command().Exists() {
		command = syntax.Quote(e.Command)
	}
	c.put(n.form.Command, syntax.Quote(line.Shim))
	words := line.words(syntax.Quote(e.ID), command, syntax)
	if n.args().Kind() == edit.Array {
		c.do(edit.Prepend(c.at(n.form.Args), words...))
		return
	}
	for _, arg := range w.Inherited {
		words = append(words, syntax.Quote(arg))
	}
	c.put(n.form.Args, syntax.List(words))
}

// proveReversible removes line from text and compares the result with the original.
func proveReversible(doc *edit.Document, text []byte, before []originalEntry, line Line) error {
	rewritten, err := reading(doc.Syntax()).Read(text)
	if err != nil {
		return fmt.Errorf("the rewritten text would be invalid: %w", err)
	}
	taken, err := removeLines(rewritten, before, line.Session, line.Shim)
	if err != nil {
		return fmt.Errorf("the rewrite could not be undone: %w", err)
	}
	if string(taken.text) != string(doc.Bytes()) || len(taken.notes) > 0 {
		return fmt.Errorf("the rewrite could not be undone byte for byte")
	}
	return nil
}
