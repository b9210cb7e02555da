package agentconf

import "github.com/thoughtgate/thoughtgated/internal/edit"

// putBack makes an entry whose line somebody damaged what it was. What was
// there instead stays out of the note, which is logged: it may hold secrets.
func (t *taker) putBack(n server, w entryWas) {
	t.note("%s was altered and is put back", w.ID)
	t.out.altered = true
	t.out.lines++
	if w.Command != "" && !n.command().Exists() || w.Args != "" && !n.args().Exists() {
		t.ops = append(t.ops, edit.Set(w.Path, t.rebuilt(n, w)))
		return
	}
	c := &changes{entry: n.Node, path: w.Path}
	c.put(n.form.Command, w.Command)
	c.put(n.form.Args, w.Args)
	t.clear(c, n, &w)
}

// rebuilt is the text of an entry that has lost a member: command and arguments
// as they were, and what else it has now.
func (t *taker) rebuilt(n server, w entryWas) string {
	var members []edit.Member
	add := func(name, value string) {
		if value != "" {
			members = append(members, edit.Member{Name: name, Value: value})
		}
	}
	add(n.form.Command, w.Command)
	add(n.form.Args, w.Args)
	lowered := map[string]string{} // empty for what goes
	for _, l := range unchanged(n.Node, w.Limits) {
		lowered[l.Key] = l.Was
	}
	for name, value := range n.Members() {
		was, low := lowered[name.Text()]
		switch {
		case name.Text() == n.form.Command || name.Text() == n.form.Args:
		case low:
			add(name.Text(), was)
		case name.Text() == n.form.Env:
			if env := theirs(n); len(env) > 0 || w.Env == envObject {
				add(name.Text(), t.doc.Syntax().Table(env))
			}
		default:
			add(name.Text(), value.Written())
		}
	}
	return t.doc.Syntax().Table(members)
}
