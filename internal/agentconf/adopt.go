package agentconf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// Adopt rewrites the servers that [Plan.Drift] reports, while the agent runs, as carefully as
// Apply. Files that held no server before are locked and backed up first, and are restored with
// the others. Adopt leaves entries that it can't rewrite as they are and reports them in the
// error.
//
// Before a file is written, commit is called with its journal, which replaces the one that
// Journals returned for the same path. The journal must be safely on disk when commit returns.
func (p *Plan) Adopt(commit func([]Journal) error) error {
	found, err := p.find()
	if err != nil {
		return err
	}
	var targets []string
	for _, s := range found.Sources {
		if !slices.Contains(targets, s.file.path) && slices.ContainsFunc(s.Entries, func(e *Entry) bool { return p.adoptable(e, e.node()) }) {
			targets = append(targets, s.file.path)
		}
	}
	var failed []error
	for _, target := range targets {
		sources := slices.DeleteFunc(slices.Clone(found.Sources), func(s *Source) bool { return s.file.path != target })
		if err := p.adoptFile(sources, commit); err != nil {
			failed = append(failed, fmt.Errorf("rewrite %s: %w", sources[0].Path, err))
		}
	}
	return errors.Join(failed...)
}

// adoptable reports whether n, an entry without our line, may get one. An entry whose line was
// damaged is not touched until it is restored.
func (p *Plan) adoptable(e *Entry, n edit.Node) bool {
	s, t := formed(n), &lineRemover{shim: p.shim}
	words, id := shimWords(s.behind())
	damaged := t.starts(s) || setsOurs(s) || words > 0 && id == e.ID
	return e.Ungoverned == "" && !damaged && !isShim(e.vars.word(e.Command, p.env), p.shim, p.env)
}

func (p *Plan) adoptFile(sources []*Source, commit func([]Journal) error) error {
	f, err := p.addLockedFile(sources)
	if err != nil {
		return err
	}
	return f.lock.withAgentLocks(f.agentLocks, func() error {
		p.step("agent locked")
		return outrun(applyTries, func() error { return p.adoptInto(f, sources, commit) })
	})
}

// addLockedFile returns the file of the plan for sources. If there is none, it adds one: locked, backed
// up and prepared.
func (p *Plan) addLockedFile(sources []*Source) (*planned, error) {
	s := sources[0]
	if f := p.fileAt(s.file.path); f != nil {
		return f, nil
	}
	f := &planned{path: s.Path, doc: s.doc}
	for _, have := range p.files {
		if have.display() == f.display() { // its journal is known by this name and still needed
			return nil, errors.New("the path leads to another file than at the start of the session")
		}
	}
	for _, s := range sources {
		f.include(s, slices.DeleteFunc(slices.Clone(s.Entries), func(e *Entry) bool { return !p.adoptable(e, e.node()) }))
	}
	var err error
	if f.lock, err = takeLock(lockPath(s.file.path), s.Path, holder{Session: p.session, notes: p.notes()}); err != nil {
		return nil, err
	}
	if err := p.readLockedFile(f, s.file); err != nil {
		f.lock.release()
		return nil, err
	}
	p.files = append(p.files, f)
	p.step("taken")
	return f, nil
}

func (p *Plan) readLockedFile(f *planned, found *file) error {
	var err error
	if f.file, err = readFile(found.path); err != nil {
		return err
	}
	if f.base = f.file; !bytes.Equal(f.file.data, found.data) {
		return errChanged
	}
	if f.backup, err = p.backUp(f.file, f.display()); err != nil {
		return err
	}
	p.step("backed up")
	if err := p.prepare(f); err != nil {
		return errors.Join(err, p.discard(f))
	}
	return nil
}

// adoptInto makes the new text from the file as it would be without our lines. That this can be
// undone is verified as for any rewrite.
func (p *Plan) adoptInto(f *planned, sources []*Source, commit func([]Journal) error) error {
	now, err := readFile(f.file.path)
	if err != nil {
		return err
	}
	doc, err := parseSettled(now, f.syntax(), shortSettleTimeout)
	if err != nil {
		return err
	}
	out, err := removeLines(doc, f.before, p.line.Session, p.shim)
	if err != nil {
		return err
	}
	if out.altered {
		return errors.New("a tg-shim entry was altered; it is restored at the end of the session")
	}
	base, err := f.syntax().Read(out.text)
	if err != nil {
		return err
	}
	entries := p.toAdopt(f, doc, base, sources)
	text, before, err := rewrite(base, entries, f.hooks, p.line)
	if err != nil {
		return err
	}
	p.adopting = entries
	defer func() { p.adopting = nil }()
	if err := f.amend(before, commit); err != nil {
		return err
	}
	f.entries = entries
	p.step("amended")
	if err := now.replace(text, p.notes(), p.step); err != nil {
		return err
	}
	p.step("adopted")
	return nil
}

// toAdopt returns the entries of a file that get our line: those that have it already, and
// those that are adoptable. base is the file without our lines.
func (p *Plan) toAdopt(f *planned, doc, base *edit.Document, sources []*Source) []*Entry {
	var entries []*Entry
	for _, e := range f.governed() {
		if base.At(e.Path).Exists() && p.starts(doc.At(e.Path)) && !p.starts(base.At(e.Path)) {
			entries = append(entries, e)
		}
	}
	for e := range each(sources) {
		n := base.At(e.Path)
		twice := slices.ContainsFunc(entries, func(have *Entry) bool { return slices.Equal(have.Path, e.Path) })
		// Adoptable was decided by what was read earlier, so the entry must still be the same.
		if !twice && n.Exists() && p.adoptable(e, n) && edit.Equal(n, e.node()) {
			entries = append(entries, e)
		}
	}
	return entries
}

// amend changes the journal of f to hold the entries as they are before the file is written
// with our line in each, and commits it.
func (f *planned) amend(before []originalEntry, commit func([]Journal) error) error {
	j := *f.j
	if !reflect.DeepEqual(j.Entries, before) {
		// The backup holds the first version of the file. Restore must only use it if nobody
		// else has written to the file since, so Written must not match any more.
		j.Entries, j.Written = before, ""
	}
	text, err := json.Marshal(j)
	if err != nil {
		return err
	}
	if !bytes.Equal(text, f.stored) {
		if err := commit([]Journal{{f.display(), text}}); err != nil {
			return err
		}
	}
	f.j, f.stored, f.before = &j, text, before
	return nil
}

// Drift is a server that the agent starts ungoverned although its configuration is rewritten.
type Drift struct {
	ID   string // the server's name in the agent
	Path string // path of the file as the agent knows it
	How  How
}

// How says why a server is started ungoverned.
type How string

const (
	Added   How = "added"   // it was added to the configuration
	Changed How = "changed" // its entry was rewritten and does not start tg-shim any more
)

// Drift compares the configuration with what the plan wrote. An error may be temporary, for
// example while another program writes a file.
func (p *Plan) Drift() ([]Drift, error) {
	found, err := p.find()
	if err != nil {
		return nil, err
	}
	var out []Drift
	for e := range each(found.Sources) {
		switch {
		case p.starts(e.node()):
		case p.rewrote(e.source.file.path, e.Path):
			out = append(out, Drift{e.ID, e.File, Changed})
		case e.fixed != "" && !p.shownFixed(e), e.Ungoverned == "" && (e.Off == Starts || e.Off == Pending):
			out = append(out, Drift{e.ID, e.File, Added})
		}
	}
	return append(out, p.driftOfHooks()...), nil
}

// shownFixed reports whether an entry that can't be changed is one that the person was warned
// of.
func (p *Plan) shownFixed(e *Entry) bool {
	was := sameEntry(p.found, e)
	return was != nil && was.fixed != "" && edit.Identical(was.node(), e.node())
}

// Stamp returns a short text that changes whenever a file of the agent does. It makes frequent
// checks cheap.
func (p *Plan) Stamp() string { return Stamp(slices.Concat(Files(p.agent, p.env), p.Paths())) }

// Stamp returns a short text that changes whenever one of the files at paths does.
func Stamp(paths []string) string {
	var b strings.Builder
	for _, path := range paths {
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			b.WriteString("-\n")
			continue
		}
		fmt.Fprintln(&b, st.Dev, st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano())
	}
	return b.String()
}

// starts reports whether an entry holds a complete line of ours.
func (p *Plan) starts(n edit.Node) bool {
	s := formed(n)
	words, _ := shimWords(s.behind())
	return words > 0 && (&lineRemover{shim: p.shim}).starts(s)
}

func (p *Plan) rewrote(target string, path []string) bool {
	f := p.fileAt(target)
	return f != nil && slices.ContainsFunc(f.before, func(w originalEntry) bool { return slices.Equal(w.Path, path) })
}

// fileAt returns the plan's file at target, a path without links, or nil if there is none.
func (p *Plan) fileAt(target string) *planned {
	for _, f := range p.files {
		if f.file.path == target {
			return f
		}
	}
	return nil
}
