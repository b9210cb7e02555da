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
	var gone []string
	if n.form.isList() { // the shim goes, and our words but the program that follows them
		t.ops = append(t.ops, edit.DropItems(append(slices.Clone(path), n.form.Command), words))
	} else {
		gone = t.moveBack(n, path, words, w)
	}
	if w != nil {
		gone = append(gone, t.lower(n, path, w)...)
	}
	t.dropMembers(path, append(gone, t.clearEnv(n, path, w)...))
	t.out.lines++
	return true
}

// moveBack makes the last of our words the command again, and takes out the
// others. It returns the members that should go.
func (t *taker) moveBack(n server, path []string, words int, w *entryWas) (gone []string) {
	at := func(name string) []string { return append(slices.Clone(path), name) }
	items := n.args().Items()
	command := items[words-1]
	switch {
	case w != nil && w.Command == "":
		gone = append(gone, n.form.Command)
	case w != nil && t.same(command, w.Command): // the agent may spell the same string in another way
		t.ops = append(t.ops, edit.Set(at(n.form.Command), w.Command))
	default:
		t.ops = append(t.ops, edit.Set(at(n.form.Command), command.Written()))
	}
	switch {
	case w == nil || !slices.EqualFunc(items[words:], w.Inherited, isText):
		t.ops = append(t.ops, edit.DropItems(at(n.form.Args), words))
	case w.Args == "":
		gone = append(gone, n.form.Args)
	case isNull(w.Args, t.doc.Syntax()):
		t.ops = append(t.ops, edit.Set(at(n.form.Args), w.Args))
	default:
		t.ops = append(t.ops, edit.DropItems(at(n.form.Args), words))
	}
	return gone
}

func isText(n edit.Node, text string) bool { return n.Kind() == edit.String && n.Text() == text }

// lower puts limits back that were raised in n. It returns the members that
// should go.
func (t *taker) lower(n server, path []string, w *entryWas) []string {
	ops, gone := lower(n.Node, path, w.Limits)
	t.ops = append(t.ops, ops...)
	return gone
}

// clearEnv takes our variables out of the environment of n. It returns its name
// when it should go as a whole.
func (t *taker) clearEnv(n server, path []string, w *entryWas) []string {
	var ours []string
	others := 0
	for name := range n.env().Members() {
		if name.Text() == envSocket || name.Text() == envSession {
			ours = append(ours, name.Text())
		} else {
			others++
		}
	}
	at := append(slices.Clone(path), n.form.Env)
	switch {
	case len(ours) == 0:
	case w != nil && w.Env.whole():
		t.ops = append(t.ops, edit.Set(at, string(w.Env)))
	case others == 0 && n.env().Implied():
		return []string{n.form.Env}
	case others > 0 || w == nil || w.Env == envObject:
		t.ops = append(t.ops, edit.DropMembers(at, ours...))
	case w.Env != envAbsent:
		t.ops = append(t.ops, edit.Set(at, string(w.Env)))
	default:
		return []string{n.form.Env}
	}
	return nil
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

func (t *taker) dropMembers(path, names []string) {
	if len(names) > 0 {
		t.ops = append(t.ops, edit.DropMembers(path, names...))
	}
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
