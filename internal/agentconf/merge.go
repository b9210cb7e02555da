package agentconf

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// taken is a text from which our lines were taken.
type taken struct {
	text    []byte
	lines   int      // how many entries had to be changed
	notes   []string // what a person should know
	altered bool     // something that somebody wrote had to give way
	foreign bool     // there are lines of other sessions, which stay
}

// taker takes our lines out of a document, entry by entry: three-way, in that
// what else was written into it since stays.
type taker struct {
	doc     *edit.Document
	before  []entryWas
	session string // whose lines; empty for anybody's
	shim    string // empty: whatever goes by the shim's name
	ops     []edit.Op
	out     taken
}

// takeBack returns doc without the lines of a session. before says how the
// entries were; lines that stand elsewhere, such as copies that the agent made,
// are taken out by what they themselves say.
func takeBack(doc *edit.Document, before []entryWas, session, shim string) (taken, error) {
	t := &taker{doc: doc, before: before, session: session, shim: shim}
	if err := t.doubt(); err != nil {
		return t.out, err
	}
	for _, w := range before {
		t.entry(w)
	}
	t.strays(doc.Root(), nil)
	text, err := doc.Edit(t.ops...)
	t.out.text = text
	return t.out, err
}

// entry takes the line out of one entry that was rewritten.
func (t *taker) entry(w entryWas) {
	n := w.Form.of(t.doc.At(w.Path))
	switch {
	case !n.Exists():
		t.note("%s was removed meanwhile and stays so", w.ID)
	case t.others(n):
		t.out.foreign = true
	case t.unwrap(n, w.Path, &w):
	case t.same(n.command(), w.Command) && t.same(n.args(), w.Args) && !t.marked(n): // somebody was before us
	case t.traces(n):
		t.putBack(n, w)
	default:
		t.note("%s was replaced meanwhile and stays as it is now", w.ID)
	}
}

// others reports whether the line in n is another session's: one that came after
// this one, and perhaps is to stay.
func (t *taker) others(n server) bool {
	session := n.env().Member(envSession)
	return t.session != "" && session.Exists() && session.Text() != t.session
}

// traces reports whether anything of ours is left in n.
func (t *taker) traces(n server) bool {
	words, _ := shimWords(n.behind())
	return t.starts(n) || words > 0 || t.marked(n)
}

// marked reports whether variables of ours are in the environment of n.
func (t *taker) marked(n server) bool { return setsOurs(n) }

// starts reports whether n starts the shim.
func (t *taker) starts(n server) bool {
	command := n.program()
	return command.Kind() == edit.String && (command.Text() == t.shim || filepath.Base(command.Text()) == shimName)
}

// unwrap takes a whole line of ours out of n, by what it says itself. w, when
// not nil, knows what was not there before at all. It reports false when there
// is no such line.
func (t *taker) unwrap(n server, path []string, w *entryWas) bool {
	words, _ := shimWords(n.behind())
	if !t.starts(n) || words == 0 {
		return false
	}
	c := &changes{entry: n.Node, path: path}
	if n.form.isList() { // the shim goes, and our words but the program that follows them
		c.do(edit.DropItems(c.at(n.form.Command), words))
	} else {
		t.moveBack(c, n, words, w)
	}
	t.clear(c, n, w)
	t.out.lines++
	return true
}

// moveBack makes the last of our words the command again, and takes out the
// others.
func (t *taker) moveBack(c *changes, n server, words int, w *entryWas) {
	items := n.args().Items()
	command := items[words-1].Written()
	if w != nil && (w.Command == "" || t.same(items[words-1], w.Command)) { // the agent may spell the same string in another way
		command = w.Command
	}
	c.put(n.form.Command, command)
	if w != nil && (w.Args == "" || isNull(w.Args, t.doc.Syntax())) && slices.EqualFunc(items[words:], w.Inherited, isText) {
		c.put(n.form.Args, w.Args)
	} else {
		c.do(edit.DropItems(c.at(n.form.Args), words))
	}
}

func isText(n edit.Node, text string) bool { return n.Kind() == edit.String && n.Text() == text }

// clear puts limits back that were raised in n, takes our variables out of its
// environment, and takes up these changes and those in c.
func (t *taker) clear(c *changes, n server, w *entryWas) {
	if w != nil {
		for _, l := range unchanged(n.Node, w.Limits) {
			c.put(l.Key, l.Was)
		}
	}
	var ours []string
	others := 0
	for name := range n.env().Members() {
		if name.Text() == envSocket || name.Text() == envSession {
			ours = append(ours, name.Text())
		} else {
			others++
		}
	}
	switch {
	case len(ours) == 0:
	case w != nil && w.Env.whole():
		c.put(n.form.Env, string(w.Env))
	case others == 0 && n.env().Implied():
		c.put(n.form.Env, "")
	case others > 0 || w == nil || w.Env == envObject:
		c.do(edit.DropMembers(c.at(n.form.Env), ours...))
	default:
		c.put(n.form.Env, string(w.Env))
	}
	t.ops = append(t.ops, c.all()...)
}

// strays looks everywhere else for lines of ours.
func (t *taker) strays(n edit.Node, path []string) {
	if t.stray(n, path) {
		return
	}
	for step, kid := range n.Children() {
		t.strays(kid, append(slices.Clone(path), step))
	}
}

// stray takes the line out of n if it is one that nobody put there for the
// agent to keep.
func (t *taker) stray(n edit.Node, path []string) bool {
	if n.Kind() != edit.Object || slices.ContainsFunc(t.before, func(w entryWas) bool { return slices.Equal(w.Path, path) }) {
		return false
	}
	s := formed(n)
	words, id := shimWords(s.behind())
	if t.session != "" && s.env().Member(envSession).Text() != t.session {
		t.out.foreign = t.out.foreign || t.starts(s) && words > 0
		return false
	}
	var origin *entryWas
	for i := range t.before {
		if t.before[i].ID == id {
			origin = &t.before[i]
		}
	}
	if !t.unwrap(s, path, origin) {
		return false
	}
	if t.session != "" {
		t.note("a copy of our line at %s was taken back too", edit.Pointer(path))
	}
	return true
}

func (t *taker) note(format string, args ...any) {
	t.out.notes = append(t.out.notes, fmt.Sprintf(format, args...))
}

func (t *taker) same(n edit.Node, text string) bool { return same(n, text, t.doc.Syntax()) }

// same reports whether n has the value that a text stands for in a syntax; an
// empty text stands for no value.
func same(n edit.Node, text string, syntax edit.Syntax) bool {
	if text == "" || !n.Exists() {
		return text == "" && !n.Exists()
	}
	value, err := syntax.Value(text)
	return err == nil && edit.Equal(n, value)
}
