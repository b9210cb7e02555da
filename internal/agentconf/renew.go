package agentconf

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// anywhere is the working directory of an agent that may be started in any: what
// it reads from there, it reads everywhere.
const anywhere = "/"

// traveller is an agent whose own files hold servers that count in some folders
// only. Folders returns those folders.
type traveller interface {
	Folders(Env) ([]string, error)
}

// ourLine is what stands in an entry that starts the shim.
type ourLine struct {
	shim    string // as written
	session string
	renewed bool // it belongs to what is being made again
}

// seeThrough makes an entry that starts the shim tell of the server behind it:
// that is what the agent's rules, and people's, are about.
func (e *Entry) seeThrough(n server) {
	items := n.behind()
	words, _ := shimWords(items)
	if words == 0 || filepath.Base(n.program().Text()) != shimName {
		return
	}
	e.ours = &ourLine{shim: n.program().Text(), session: n.env().Member(envSession).Text()}
	e.Command, e.Args = items[words-1].Text(), nil
	for _, arg := range items[words:] {
		e.Args = append(e.Args, arg.Text())
	}
}

// starts is the program that the agent starts, which may be ours.
func (e *Entry) starts() string {
	if e.ours != nil {
		return e.ours.shim
	}
	return e.Command
}

// lookWith is an agent's Find, with every entry of ours seen through.
func lookWith(agent Agent, env Env) (*Found, error) {
	found, err := agent.Find(env)
	if err != nil {
		return nil, err
	}
	for s, e := range each(found.Sources) {
		e.seeThrough(e.form.of(s.doc.At(e.Path)))
	}
	markOffered(found, env)
	return found, nil
}

// lookAround is the agent's Find. For a rewrite that lasts it looks from everywhere at
// once: at the files that the agent reads wherever it is started, and in them at
// the servers of every folder. An entry that the agent must not start from one of
// the folders is left alone as a whole.
func (p *Plan) lookAround() (*Found, error) {
	if p.env.Renew == "" {
		return lookWith(p.agent, p.env)
	}
	env := p.env
	env.Cwd = anywhere
	found, err := lookWith(p.agent, env)
	if err != nil {
		return nil, err
	}
	if t, ok := p.agent.(traveller); ok {
		if err := p.findBelow(t, env, found); err != nil {
			return nil, err
		}
	}
	left := map[string]string{}
	key := func(s *Source, e *Entry) string { return s.file.path + "\x00" + edit.Pointer(e.Path) }
	for s, e := range each(found.Sources) {
		if e.Ungoverned != "" {
			left[key(s, e)] = e.Ungoverned
		}
	}
	for s, e := range each(found.Sources) {
		e.Ungoverned = left[key(s, e)]
	}
	return found, nil
}

// findBelow adds what the agent's own files say of servers of single folders.
// The files of those folders themselves are not its own.
func (p *Plan) findBelow(t traveller, env Env, found *Found) error {
	own := p.agent.Files(env)
	folders, err := t.Folders(env)
	if err != nil {
		return err
	}
	for _, folder := range folders {
		env.Cwd = folder
		there, err := lookWith(p.agent, env)
		if err != nil {
			found.Warnings = append(found.Warnings, fmt.Sprintf("the servers of %s are left as they are: %v", folder, err))
			continue
		}
		for _, s := range there.Sources {
			if slices.Contains(own, s.Path) {
				found.Sources = append(found.Sources, s)
			}
		}
		found.Warnings = union(found.Warnings, there.Warnings)
	}
	return nil
}

// cleaned is a file without the lines that are made again.
type cleaned struct {
	file    *file
	doc     *edit.Document
	altered bool // something that somebody wrote had to give way
}

// base is the file as it would be without us.
func (f *planned) base() *file {
	if f.clean != nil {
		return f.clean.file
	}
	return f.file
}

func (f *planned) doc() *edit.Document {
	if f.clean != nil {
		return f.clean.doc
	}
	return f.sources[0].doc
}

// cleanOurs tells apart what lines of ours there are. Those of another rewrite
// that lasts are left alone; those of the one that is being made again are put
// in afresh, over the file as it would be without them.
func (p *Plan) cleanOurs() error {
	for _, f := range p.files {
		mine := false
		for _, e := range each(f.sources) {
			if p.env.lasting(e.ours, p.shim) == nil {
				continue
			}
			e.ours.renewed = e.ours.session == p.env.Renew
			e.Protected = !e.ours.renewed
			mine = mine || e.ours.renewed
		}
		if !mine && len(p.wasIn(f)) == 0 {
			continue
		}
		doc, out, err := p.without(f, f.sources[0].doc)
		if err != nil {
			return fmt.Errorf("%s: %w", f.path, err)
		}
		p.warnings = union(p.warnings, out.notes)
		at := *f.file
		at.data = out.text
		f.clean = &cleaned{&at, doc, out.altered}
	}
	return nil
}

// without takes the lines out of doc that are made again.
func (p *Plan) without(f *planned, doc *edit.Document) (*edit.Document, taken, error) {
	out, err := takeBack(doc, p.wasIn(f), p.env.Renew, p.shim)
	if err == nil {
		doc, err = f.syntax().Read(out.text)
	}
	return doc, out, err
}

// lasting returns the rewrite that lasts to which a line belongs, nil for none.
// What the line says of itself is not enough: it has to start the shim of that
// rewrite, or this one.
func (env Env) lasting(line *ourLine, shim string) *Protection {
	for _, l := range env.Lasting {
		if line != nil && l.ID == line.session && (l.wrote(line.shim) || sameFile(line.shim, shim)) {
			return l
		}
	}
	return nil
}

// keeps reports whether a rewrite that lasts has its backup at path.
func (env Env) keeps(path string) bool {
	return slices.ContainsFunc(env.Lasting, func(l *Protection) bool { return slices.Contains(l.Backups(), path) })
}

func sameFile(a, b string) bool {
	if !filepath.IsAbs(a) {
		return false
	}
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	two, err := os.Stat(b)
	return err == nil && os.SameFile(one, two)
}

// wasIn returns how the entries of a file were before they were rewritten for
// good, if they were.
func (p *Plan) wasIn(f *planned) []entryWas {
	if j := p.journalOf(f); j != nil {
		return j.Entries
	}
	return nil
}

func (p *Plan) journalOf(f *planned) *fileJournal {
	for _, l := range p.env.Lasting {
		for _, j := range l.journals() {
			if l.ID == p.env.Renew && j.Target == f.file.path {
				return j
			}
		}
	}
	return nil
}

// holdsLasting reports whether the file holds lines that last, and that are not
// the plan's to change.
func (f *planned) holdsLasting() bool {
	for _, s := range f.sources {
		if slices.ContainsFunc(s.Entries, func(e *Entry) bool { return e.Protected }) {
			return true
		}
	}
	return false
}
