package agentconf

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"

	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// ErrWrapped reports that a configuration has lines of ours already. The text names the file
// and what to do.
var ErrWrapped = errors.New("the configuration is already managed by ThoughtGate")

// Texts required by the specification.
const (
	noServers   = "No MCP servers found in config"
	allDisabled = "All MCP servers are disabled"
)

// Plan is one rewrite of all files of one agent. Its methods must be called in the order Lock,
// Backup, Prepare, Journals, Apply, Restore, Unlock. To display the rewrite, Prepare and Diff
// are enough. A Plan is not safe for concurrent use.
type Plan struct {
	agent    Agent
	env      Env
	shim     string
	session  string
	line     Line
	warnings []string
	files    []*planned
	step     func(string) // called after each step, for tests
	found    []*Source    // all sources, including those that are not rewritten

	hookFlag string // flag that gives the agent hooks for one start; empty for none
	hooked   bool   // a protection has entries for hooks

	swept     []string // messages for the person about what killed writers left
	unreached string   // servers that no rewrite governs; empty if there are none
	adopting  []*Entry // entries of the file that Adopt is about to write
	left      []string // likewise, of other kinds: see Found
}

// NewPlan finds and parses the files of an agent. It returns an error if they can't be wrapped:
// there is none, one is empty or invalid, they have no server, all servers are off, or there
// are lines of ours already. shim is the absolute path of tg-shim, without links. NewPlan
// changes nothing, except that it completes what a killed writer noted in env.Notes.
func NewPlan(agent Agent, env Env, shim string) (*Plan, error) {
	env.Shim = shim
	p := &Plan{agent: agent, env: env, shim: shim, step: func(string) {}}
	p.sweep()
	err := p.read()
	if errors.Is(err, ErrWrapped) {
		for _, f := range p.files { // perhaps by a wrap that is still running
			if locked := isLocked(f.lockPath(), f.path); locked != nil {
				return nil, locked
			}
		}
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// sweep completes the work of killed writers before anything is read, because the person who
// agrees to the plan must see what this brings back.
func (p *Plan) sweep() {
	noted := p.notes().all()
	for _, path := range Files(p.agent, p.env) {
		target, err := filepath.EvalSymlinks(path)
		if err != nil || !slices.ContainsFunc(noted, func(n *note) bool { return n.Kind == noteTemp && n.Target == target }) {
			continue
		}
		l, err := takeLock(lockPath(target), path, holder{Brief: true, notes: p.notes()})
		if err != nil {
			continue // the holder of the lock does it
		}
		p.swept = append(p.swept, sweepTemps(target, p.notes())...)
		l.release()
	}
}

// read fills the plan from the current files.
func (p *Plan) read() error {
	found, err := p.find()
	if err != nil {
		return err
	}
	if len(found.Sources) == 0 && !p.env.Tools {
		return fmt.Errorf("no configuration of %s was found; searched %s", p.agent.Name(), strings.Join(p.agent.Files(p.env), ", "))
	}
	p.warnings, p.files, p.unreached, p.left = slices.Concat(p.swept, found.Warnings), nil, found.unreached, found.left
	for _, s := range found.Sources {
		p.add(s)
	}
	for _, check := range []func() error{p.addHooks, p.classifyOurLines, p.refuseWrapped, func() error { return p.refuseEmpty(found) }, p.refuseFixed} {
		if err := check(); err != nil {
			return err
		}
	}
	p.files = slices.DeleteFunc(p.files, func(f *planned) bool { return len(f.governed()) == 0 && !f.cleaned && f.hooks == nil })
	for _, f := range p.files {
		if !utf8.ValidString(f.path) || !utf8.ValidString(f.file.path) {
			return fmt.Errorf("the path %q is not UTF-8", f.path)
		}
	}
	p.warnUnset()
	p.warnOurs()
	if text := kindOf(p.agent.Name()).retrust; text != "" {
		p.warnings = append(p.warnings, text)
	}
	p.found = found.Sources
	return nil
}

// find returns the content of the files.
func (p *Plan) find() (*Found, error) {
	if p.env.NoServers {
		return &Found{}, nil
	}
	found, err := p.findEverywhere()
	if err != nil {
		return nil, err
	}
	for e := range each(found.Sources) {
		e.limits = limitsOf(p.agent.Name(), e)
		if e.comesWithProject(p.env) {
			e.recordProjectUse(e.File, e.form.of(e.node()).env())
		}
	}
	p.applyProjectSettings(found.Sources)
	if err := found.markDoubtfulEntries(); err != nil {
		return nil, err
	}
	found.leaveFixed()
	return found, nil
}

// add adds a source. Sources in the same file are combined.
func (p *Plan) add(s *Source) {
	f := p.fileAt(s.file.path)
	if f == nil {
		f = &planned{path: s.Path, file: s.file, base: s.file, doc: s.doc}
		p.files = append(p.files, f)
	}
	f.include(s, s.Entries)
}

// refuseWrapped returns an error if an entry starts tg-shim.
func (p *Plan) refuseWrapped() error {
	for _, f := range p.files {
		for _, e := range f.governed() {
			// If a project's entry starts a program called tg-shim, the person is asked about
			// it as about any other program.
			theirs := e.From != "" && filepath.Base(e.Command) == shimName
			if e.ours != nil && !e.ours.renewed || !theirs && isShim(e.vars.word(e.Command, p.env), p.shim, p.env) {
				return fmt.Errorf("%w: server %q in %s starts %s; restore it with `tgctl unwrap %s`, or start the agent directly",
					ErrWrapped, e.ID, f.path, e.starts(), f.path)
			}
		}
	}
	return nil
}

// refuseFixed returns an error for a project's entry that can't be rewritten: the agent would
// start the server without anybody's approval.
func (p *Plan) refuseFixed() error {
	for _, f := range p.files {
		for _, e := range f.governed() {
			if e.fixed != "" {
				return fmt.Errorf("server %q in %s, a file of a project, would be started without your approval, since its entry can't be rewritten: %s; change or remove the entry", e.ID, f.path, e.fixed)
			}
		}
	}
	return nil
}

// refuseEmpty returns an *[EmptyError] if the agent would start no server that can be governed.
func (p *Plan) refuseEmpty(found *Found) error {
	var paths, left []string
	count, off := 0, 0
	for _, s := range found.Sources {
		paths = append(paths, s.Path)
		for _, e := range s.Entries {
			switch {
			case e.Off == Disabled || e.Off == Denied:
				off++
				count++
			case e.Ungoverned != "":
				left = append(left, fmt.Sprintf("%s is %s", e.ID, e.Ungoverned))
			default:
				count++
			}
		}
	}
	where := strings.Join(paths, ", ")
	switch {
	case p.HooksTools():
		return nil
	case p.env.Renew != "" && slices.ContainsFunc(p.files, func(f *planned) bool { return f.cleaned }):
		return nil // lines of ours remain to be removed
	case count == 0 && len(left) > 0:
		return empty("%s that can be governed: %s (%s)", noServers, where, strings.Join(left, "; "))
	case count == 0:
		return empty("%s: %s", noServers, where)
	case off == count:
		return empty("%s: %s", allDisabled, where)
	}
	return nil
}

// Agent returns the type of the agent.
func (p *Plan) Agent() string { return p.agent.Name() }

// Warnings returns what a person should know before the agent starts.
func (p *Plan) Warnings() []string { return p.warnings }

// Paths returns the files that are rewritten, as the agent knows them.
func (p *Plan) Paths() []string {
	var paths []string
	for _, f := range p.files {
		paths = append(paths, f.path)
	}
	return paths
}

// Entries returns all servers found. For those that will not be governed, Ungoverned has the
// reason.
func (p *Plan) Entries() []*Entry {
	var out []*Entry
	for _, s := range p.found {
		out = append(out, s.Entries...)
	}
	return out
}

// Left is a server that the agent may start and that stays ungoverned.
type Left struct {
	ID   string // the agent's name of it; empty if only Why is known
	Path string // of the file, as the agent knows it; likewise
	Why  string
}

// Left returns the servers that the agent may start, now or once the person approves them, and that
// stay ungoverned.
func (p *Plan) Left() []Left {
	var left []Left
	if p.env.NoServers {
		left = append(left, Left{Why: "only the agent's own tools are to be governed"})
	}
	for e := range each(p.found) {
		starts := e.Off == Starts || e.Off == Pending
		if e.Ungoverned != "" && e.Ungoverned != inVariable && starts && !e.inert && !e.offers { // a variable is refused, or set anew
			left = append(left, Left{e.ID, e.File, e.Ungoverned})
		}
	}
	for _, why := range p.left {
		left = append(left, Left{Why: why})
	}
	return left
}

// Prepare makes the new text of each file, with line inserted, and verifies that the rewrite
// can be undone.
func (p *Plan) Prepare(line Line) error {
	if err := p.setLine(line); err != nil {
		return err
	}
	for _, f := range p.files {
		if err := p.prepare(f); err != nil {
			return fmt.Errorf("rewrite %s: %w", f.path, err)
		}
	}
	return nil
}

// setLine sets what is inserted into each entry.
func (p *Plan) setLine(line Line) error {
	line.Shim = p.shim
	p.line = line
	return line.check()
}

// Diff returns the changes that Apply will make, as a unified diff that patch(1) accepts.
func (p *Plan) Diff() string {
	var b strings.Builder
	for _, f := range p.files {
		label := f.path
		if strings.ContainsAny(label, " \t") {
			label += "\t" // patch requires a tab after a name with blanks
		}
		b.WriteString(udiff.Unified(label, label, string(f.file.data), string(f.text)))
	}
	return b.String()
}

func (p *Plan) notes() notebook { return notebook(p.env.Notes) }

// sortedFiles returns the files in the order in which their locks must be taken.
func (p *Plan) sortedFiles() []*planned {
	return slices.SortedFunc(slices.Values(p.files), func(a, b *planned) int { return strings.Compare(a.file.path, b.file.path) })
}

// planned is one file of a plan. Its entries are from several sources if several paths lead to it.
type planned struct {
	path       string // as the agent knows it
	file       *file
	entries    []*Entry
	agentLocks []string // folders that the agent uses as locks on this file
	lock       *fileLock
	backup     string
	text       []byte // the new text
	before     []originalEntry
	j          *fileJournal
	stored     []byte              // the last journal that was returned
	beside     bool                // it has lines of protections that the plan must not change
	hooks      *agenthook.Contract // entries for hooks are inserted; nil if not

	// The file as it would be without the lines that are renewed.
	base    *file
	doc     *edit.Document
	cleaned bool // there are such lines
	altered bool // removing them replaces something that somebody wrote
}

// governed returns the entries of a file that are rewritten, without duplicates.
func (f *planned) governed() []*Entry {
	var out []*Entry
	for _, e := range f.entries {
		twice := slices.ContainsFunc(out, func(have *Entry) bool { return slices.Equal(have.Path, e.Path) })
		if e.Ungoverned == "" && !twice && !e.Protected {
			out = append(out, e)
		}
	}
	return out
}

// syntax returns the syntax for reading the file after it was written.
func (f *planned) syntax() edit.Syntax { return reading(f.doc.Syntax()) }

func (f *planned) lockPath() string { return lockPath(f.file.path) }

// include adds entries of a source.
func (f *planned) include(s *Source, entries []*Entry) {
	f.entries = append(f.entries, entries...)
	f.agentLocks = append(f.agentLocks, s.AgentLocks...)
	slices.Sort(f.agentLocks)
	f.agentLocks = slices.Compact(f.agentLocks)
}

func (f *planned) display() string { return filepath.Clean(f.path) }

// EmptyError reports that an agent would start no server that can be governed.
type EmptyError struct{ text string }

func (e *EmptyError) Error() string { return e.text }

func empty(format string, args ...any) *EmptyError {
	return &EmptyError{fmt.Sprintf(format, args...)}
}

// OnStep sets a function that is called with the name of each step of the plan's methods after
// the step. It is for tests that kill the process at each step.
func (p *Plan) OnStep(told func(step string)) { p.step = told }

// applyTries is how often a rewrite is retried if the file changes meanwhile.
const applyTries = 200

// Journal says how to restore one file. Its format is internal to this package.
type Journal struct {
	Path string // as the agent knows it
	Text []byte
}

// Lock locks the files against other wraps until Unlock, or until this process ends, and reads
// them again. The error is a *[LockedError] if one is locked; in this case none stays locked.
// session is written to the lock files.
func (p *Plan) Lock(session string) error {
	p.session = session
	held := map[string]*fileLock{}
	drop := func() {
		for _, l := range held {
			l.release()
		}
	}
	for _, f := range p.sortedFiles() {
		if f.file.absent {
			if err := os.MkdirAll(filepath.Dir(f.file.path), 0o700); err != nil {
				drop()
				return fmt.Errorf("make the folder of %s: %w", f.path, err)
			}
		}
		l, err := awaitLock(f.lockPath(), f.path, holder{Session: session, Brief: p.env.Renew != "", notes: p.notes()})
		if err != nil {
			drop()
			return err
		}
		held[f.file.path] = l
	}
	shown := p.found
	err := p.read()
	if err == nil {
		err = p.checkUnchanged(shown)
	}
	if err != nil {
		drop()
		return err
	}
	for _, f := range p.files {
		if f.lock = held[f.file.path]; f.lock == nil {
			drop()
			return fmt.Errorf("%s was created meanwhile; try again", f.path)
		}
		delete(held, f.file.path)
	}
	drop() // files that have no server any more
	p.step("locked")
	return nil
}

// Unlock releases the locks.
func (p *Plan) Unlock() {
	for _, f := range p.files {
		if f.lock != nil {
			f.lock.release()
			f.lock = nil
			p.step("unlocked")
		}
	}
}

// Backup keeps a copy of each file beside it, and verifies it. An existing copy with the same
// content is used. One with another content stays, with a warning.
func (p *Plan) Backup() error {
	for _, f := range p.files {
		if f.file.absent {
			f.backup = freeName(f.file.path + backupSuffix)
			continue
		}
		path, err := p.backUp(f.base, f.display())
		if err != nil {
			return fmt.Errorf("back up %s: %w", f.path, err)
		}
		if f.backup = path; path != f.file.path+backupSuffix && !p.env.isProtectedBackup(f.file.path+backupSuffix) {
			p.warnings = append(p.warnings, fmt.Sprintf("%s is an older backup and was kept; this backup is %s", f.file.path+backupSuffix, path))
		}
		p.step("backed up")
	}
	return nil
}

// prepare makes the new text of one file, and its journal.
func (p *Plan) prepare(f *planned) error {
	text, before, err := rewrite(f.doc, f.governed(), f.hooks, p.line)
	if err != nil {
		return err
	}
	f.text, f.before = text, before
	f.j = &fileJournal{
		Version: journalVersion, Made: p.made(f), Agent: p.agent.Name(), Syntax: f.syntax().Name(), Path: f.display(), Target: f.file.path,
		Backup: f.backup, Lock: f.lockPath(), AgentLocks: f.agentLocks,
		Original: digest(f.base.data), Written: digest(text), Line: p.line, Entries: before,
		Notes: p.notes(), Beside: f.beside, Superseded: p.superseded(f),
	}
	switch remote := slices.ContainsFunc(before, func(w originalEntry) bool { return w.Whole != "" }); {
	case remote:
	case hooksOf(before) != nil || f.j.Made != "":
		f.j.Version = hooksVersion
	default:
		f.j.Version = hooksVersion - 1
	}
	return nil
}

// made returns the digest of the text that stands for no file, if there was none before.
func (p *Plan) made(f *planned) string {
	if f.file.absent {
		return digest(f.file.data)
	}
	if j := p.journalOf(f); j != nil {
		return j.Made
	}
	return ""
}

// Journals returns how to restore each file. They must be safely on disk before Apply is
// called. Backup and Prepare must be called first.
func (p *Plan) Journals() ([]Journal, error) {
	var out []Journal
	for _, f := range p.files {
		if f.backup == "" || f.j == nil {
			return nil, fmt.Errorf("%s has no backup or is not prepared", f.path)
		}
		var err error
		if f.stored, err = json.Marshal(f.j); err != nil {
			return nil, err
		}
		out = append(out, Journal{f.display(), f.stored})
	}
	return out, nil
}

// Apply writes the files. If one can't be written, those written before are restored, unless a
// protection is renewed.
func (p *Plan) Apply() error {
	for i, f := range p.files {
		err := f.lock.withAgentLocks(f.agentLocks, func() error {
			p.step("agent locked")
			return p.write(f)
		})
		if err == nil {
			p.step("applied")
			continue
		}
		err = fmt.Errorf("rewrite %s: %w", f.path, err)
		if p.env.Renew != "" {
			return err // a partly renewed protection is better than none
		}
		for _, done := range p.files[:i+1] {
			if _, undo := done.j.restore(p.step); undo != nil {
				err = errors.Join(err, undo)
			}
		}
		return err
	}
	return nil
}

// write writes one file. If the agent has written it in the meantime, its new content is
// rewritten, provided that the servers are the same, so that the journal stays valid.
func (p *Plan) write(f *planned) error {
	now, text := f.file, f.text
	for range applyTries {
		err := now.replace(text, p.notes(), p.step)
		if err == nil {
			return p.readBack(f, text)
		}
		if !errors.Is(err, errChanged) {
			return err
		}
		if now, err = readFile(f.file.path); err != nil {
			return err
		}
		if text, err = p.rebase(f, now); err != nil {
			return err
		}
	}
	return outrunBy(applyTries)
}

// outrun calls do again while it returns errChanged, up to tries times.
func outrun(tries int, do func() error) error {
	for range tries {
		if err := do(); !errors.Is(err, errChanged) {
			return err
		}
	}
	return outrunBy(tries)
}

func outrunBy(tries int) error { return fmt.Errorf("%w, %d times in a row", errChanged, tries) }

// checkUnchanged returns an error unless the files name the same servers as when the plan was made,
// because a person may have agreed to those.
func (p *Plan) checkUnchanged(shown []*Source) error {
	for e := range each(p.found) {
		was := sameEntry(shown, e)
		if e.fixed != "" && (was == nil || was.fixed == "") || e.Ungoverned == "" && (was == nil || was.Ungoverned != "" || was.Command != e.Command || !slices.Equal(was.Args, e.Args) || !reflect.DeepEqual(was.Remote, e.Remote)) {
			return fmt.Errorf("%w: server %s in %s has changed since it was shown; nothing was rewritten; try again", errChanged, e.ID, e.File)
		}
	}
	return nil
}

// sameEntry returns the entry at the same place in other sources, or nil if there is none.
func sameEntry(sources []*Source, e *Entry) *Entry {
	for other := range each(sources) {
		if other.source.file.path == e.source.file.path && slices.Equal(other.Path, e.Path) {
			return other
		}
	}
	return nil
}

// checkNoNewServers returns an error if a server was added since the files were read.
func (p *Plan) checkNoNewServers() error {
	drift, err := p.Drift()
	if err != nil {
		return err
	}
	for _, d := range drift {
		if d.How == Added {
			return fmt.Errorf("%w: server %s was added; review %s, then try again", errChanged, d.ID, d.Path)
		}
	}
	return nil
}

// readBack checks that a file holds what was written. If somebody else has written it since, it
// must still parse and name no server that was not in the plan.
func (p *Plan) readBack(f *planned, text []byte) error {
	now, err := readFile(f.file.path)
	if err != nil {
		return err
	}
	if string(now.data) == string(text) {
		return nil
	}
	if _, err := f.syntax().Read(now.data); err != nil {
		return fmt.Errorf("%w: %w", errChanged, err)
	}
	return p.checkNoNewServers()
}

// rebase applies the same changes to the current content of the file.
func (p *Plan) rebase(f *planned, now *file) ([]byte, error) {
	doc, err := parseSettled(now, f.syntax(), settleTimeout)
	if err == nil && f.cleaned {
		doc, _, err = p.removeRenewedLines(f, doc)
	}
	if err != nil {
		return nil, err
	}
	for i, e := range f.governed() {
		now, w := e.was(doc), f.before[i]
		n := w.Form.of(doc.At(w.Path))
		if w.Whole != "" {
			if lifted, at, err := w.lift(f.syntax()); err != nil || !edit.Equal(lifted.At(at), n.Node) {
				return nil, fmt.Errorf("%w: server %s was changed; try again", errChanged, w.ID)
			}
			continue
		}
		if !same(n.command(), w.Command, f.syntax()) || !same(n.args(), w.Args, f.syntax()) || now.Env != w.Env || !slices.Equal(now.Limits, w.Limits) {
			return nil, fmt.Errorf("%w: server %s was changed; try again", errChanged, w.ID)
		}
	}
	text, before, err := rewrite(doc, f.governed(), f.hooks, f.j.Line)
	if err == nil && !reflect.DeepEqual(hooksOf(before), hooksOf(f.before)) {
		err = fmt.Errorf("%w: its hooks were changed; try again", errChanged)
	}
	return text, errors.Join(err, p.checkNoNewServers())
}

// Restore restores every file: see [Restore]. It continues after an error, and may be called
// again. Files without a backup are skipped.
func (p *Plan) Restore() ([]Report, error) {
	var reports []Report
	var failed []error
	for _, f := range slices.Backward(p.files) {
		if f.backup == "" {
			continue
		}
		if f.j == nil {
			failed = append(failed, p.discard(f))
			continue
		}
		report, err := f.j.restore(p.step)
		if err != nil {
			err = fmt.Errorf("restore %s: %w; the original is %s; to try again, run `tgctl unwrap %s`", f.path, err, f.backup, f.path)
		}
		reports, failed = append(reports, report), append(failed, err)
	}
	slices.Reverse(reports)
	return reports, errors.Join(failed...)
}

// discard removes the backup of a file that was never changed.
func (p *Plan) discard(f *planned) error {
	return p.notes().dropCopy(f.file.path, f.backup, digest(f.file.data))
}
