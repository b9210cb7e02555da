package agentconf

import (
	"slices"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

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
	var gone []string
	for _, part := range []struct{ name, was string }{{n.form.Command, w.Command}, {n.form.Args, w.Args}} {
		switch {
		case part.was != "":
			t.ops = append(t.ops, edit.Set(append(slices.Clone(w.Path), part.name), part.was))
		case n.Member(part.name).Exists():
			gone = append(gone, part.name)
		}
	}
	gone = append(gone, t.lower(n, w.Path, &w)...)
	t.dropMembers(w.Path, append(gone, t.clearEnv(n, w.Path, &w)...))
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
	ops, gone := lower(n.Node, nil, w.Limits)
	for _, op := range ops {
		lowered[op.Path[0]] = op.Text
	}
	for _, name := range gone {
		lowered[name] = ""
	}
	for name, value := range n.Members() {
		was, low := lowered[name.Text()]
		switch {
		case name.Text() == n.form.Command || name.Text() == n.form.Args:
		case low:
			add(name.Text(), was)
		case name.Text() == n.form.Env:
			add(name.Text(), t.rebuiltEnv(value, w))
		default:
			add(name.Text(), value.Written())
		}
	}
	return t.doc.Syntax().Table(members)
}

// rebuiltEnv is the text of an environment without our variables, empty when it
// should go.
func (t *taker) rebuiltEnv(env edit.Node, w entryWas) string {
	var rest []edit.Member
	for name, value := range env.Members() {
		if name.Text() != envSocket && name.Text() != envSession {
			rest = append(rest, edit.Member{Name: name.Text(), Value: value.Written()})
		}
	}
	if len(rest) == 0 && w.Env != envObject {
		return ""
	}
	return t.doc.Syntax().Table(rest)
}
