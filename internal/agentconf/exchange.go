package agentconf

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// How an entry with an address becomes one that starts tg-shim, and how it comes back.

// wasRemote is was for an entry with an address.
func (e *Entry) wasRemote(n server) originalEntry {
	w := originalEntry{Path: e.Path, ID: e.ID, Limits: raised(n.Node, e.limits)}
	if n.form != usualForm {
		w.Form = n.form
	}
	w.Whole, _ = n.Extent() // describe has seen that there is one
	for name := range n.Members() {
		if slices.Contains(onlyRemote, name.Text()) {
			w.Gone = append(w.Gone, name.Text())
		}
	}
	return w
}

// lift parses the original entry.
func (w originalEntry) lift(syntax edit.Syntax) (*edit.Document, []string, error) {
	d, at, err := syntax.Lift(w.Whole, w.Path)
	if err == nil && d.At(at).Kind() != edit.Object {
		err = errors.New("the original is not an object")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the original of %s: %w", w.ID, err)
	}
	return d, at, nil
}

// exchange returns the operation that has the entry start tg-shim. w is the original entry.
func (e *Entry) exchange(line Line, w originalEntry, doc *edit.Document) (edit.Op, error) {
	syntax := doc.Syntax()
	d, at, err := w.lift(syntax)
	if err != nil {
		return edit.Op{}, err
	}
	n := e.form.of(d.At(at))
	c := &changes{entry: n.Node, path: at}
	words := line.words(syntax.Quote(e.ID), "", syntax)
	if n.form.isList() {
		c.put(n.form.Command, syntax.List(append([]string{syntax.Quote(line.Shim)}, words...)))
	} else {
		c.put(n.form.Command, syntax.Quote(line.Shim))
		c.put(n.form.Args, syntax.List(words))
	}
	c.put(n.form.Env, syntax.Table(append(line.env(syntax), theirs(n)...)))
	for _, name := range typeMembers {
		if kind := n.Member(name); kind.Exists() && kind.Kind() != edit.Object {
			c.put(name, syntax.Quote(cmp.Or(e.local, "stdio")))
		}
	}
	for _, l := range w.Limits {
		c.put(l.Key, l.Now)
	}
	// Members are removed after the others are there, because an object without any may be written in
	// another way.
	if d, err = again(d, c.all()...); err == nil {
		d, err = again(d, edit.DropMembers(at, w.Gone...))
	}
	if err != nil {
		return edit.Op{}, err
	}
	text, err := d.At(at).Extent()
	return edit.Put(e.Path, text), err
}

// tryExchange returns an error if n, the entry, can't be exchanged, or not put back.
func (e *Entry) tryExchange(n edit.Node) error {
	if n.Kind() != edit.Object {
		return errors.New("it is not an object")
	}
	if _, err := n.Extent(); err != nil {
		return err
	}
	doc := n.Document()
	line := Line{Shim: "/" + shimName, Socket: "/", Session: "s", Remote: true}
	w := e.wasRemote(e.form.of(n))
	op, err := e.exchange(line, w, doc)
	if err != nil {
		return err
	}
	text, err := doc.Edit(op)
	if err != nil {
		return err
	}
	return proveReversible(doc, text, []originalEntry{w}, line)
}

// again returns the document after an edit.
func again(d *edit.Document, ops ...edit.Op) (*edit.Document, error) {
	text, err := d.Edit(ops...)
	if err != nil {
		return nil, err
	}
	return d.Syntax().Read(text)
}

// exchanged puts back one entry with an address that was rewritten.
func (t *lineRemover) exchanged(w originalEntry) {
	n := w.Form.of(t.doc.At(w.Path))
	d, at, err := w.lift(t.doc.Syntax())
	switch {
	case !n.Exists():
		t.addNote("%s was removed meanwhile and was not restored", w.ID)
	case t.isOtherSession(n):
		t.out.foreign = true
	case err != nil:
		t.addNote("%s was not restored: %v", w.ID, err)
	case t.starts(n) && isRemoteLine(n.behind()):
		t.exchangeBack(n, w.Path, w)
	case w.isBack(n, d.At(at)) && !t.traces(n): // already undone by somebody
	case t.traces(n) && n.Kind() == edit.Object:
		t.addNote("%s was altered and was restored", w.ID)
		t.out.altered = true
		t.exchangeBack(n, w.Path, w)
	default:
		t.addNote("%s was replaced meanwhile and was not changed", w.ID)
	}
}

// isBack reports whether the members that only an entry with an address has are as they were.
func (w originalEntry) isBack(n server, was edit.Node) bool {
	return !slices.ContainsFunc(w.Gone, func(name string) bool { return !edit.Equal(n.Member(name), was.Member(name)) })
}

// exchangeCopy puts back a copy of such an entry that is somewhere else. It returns false, and leaves
// the copy, if the original is not known.
func (t *lineRemover) exchangeCopy(n server, path []string, id string, w *originalEntry) bool {
	if w == nil {
		t.out.stuck = append(t.out.stuck, id)
		if t.session == "" {
			t.out.lines++
		}
		t.addNote("%s still starts tg-shim at %s, because its address is not known here: write the entry again", id, edit.Pointer(path))
		return false
	}
	t.exchangeBack(n, path, *w)
	return true
}

// exchangeBack replaces n, an entry of ours at path, by its original, with what others have changed in
// it since.
func (t *lineRemover) exchangeBack(n server, path []string, w originalEntry) {
	merged, at, err := t.merged(n, w)
	if err != nil {
		t.addNote("%s was not restored: %v", w.ID, err)
		return
	}
	op := edit.Set(path, merged.At(at).Written())
	if text, err := merged.At(at).Extent(); err == nil {
		// It is laid out as before, unless somebody has written it in another way since.
		if put := edit.Put(path, text); t.fits(put) {
			op = put
		}
	}
	t.ops = append(t.ops, op)
	t.out.lines++
}

// sameTexts reports whether two texts have the same value.
func (t *lineRemover) sameTexts(a, b string) bool {
	n, err := t.doc.Syntax().Value(a)
	return err == nil && t.same(n, b)
}

func (t *lineRemover) fits(op edit.Op) bool {
	_, err := t.doc.Edit(op)
	return err == nil
}

// merged returns the original entry with the members that others have added, changed or removed in n.
func (t *lineRemover) merged(n server, w originalEntry) (*edit.Document, []string, error) {
	d, at, err := w.lift(t.doc.Syntax())
	if err != nil {
		return nil, nil, err
	}
	was := w.Form.of(d.At(at))
	ours := slices.Concat(w.Gone, typeMembers, []string{n.form.Command, n.form.Args, n.form.Env})
	for _, l := range unchanged(n.Node, w.Limits) {
		ours = append(ours, l.Key)
	}
	c := &changes{entry: was.Node, path: at}
	for name, value := range n.Members() {
		if !slices.Contains(ours, name.Text()) && !edit.Equal(value, was.Member(name.Text())) {
			c.put(name.Text(), value.Written())
		}
	}
	for name := range was.Members() {
		if !slices.Contains(ours, name.Text()) && !n.Member(name.Text()).Exists() {
			c.put(name.Text(), "")
		}
	}
	if env := t.doc.Syntax().Table(theirs(n)); !t.sameTexts(env, t.doc.Syntax().Table(theirs(was))) {
		c.put(was.form.Env, env)
	}
	if d, err = again(d, c.all()...); err != nil {
		return nil, nil, err
	}
	return d, at, nil
}
