package agentconf

import (
	"errors"
	"fmt"
	"slices"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// applyTries is how often a file that changes under our hands is taken up anew.
const applyTries = 200

// Journal is how one file is put back, in the words of this package.
type Journal struct {
	Path string // as the agent knows it
	Text []byte
}

// Lock keeps every other wrap away from the files until Unlock, or until this
// process ends, and reads them again. The error is a *[LockedError] when one is
// taken; then none is held. session is noted for whoever finds it so.
func (p *Plan) Lock(session string) error {
	p.session = session
	held := map[string]*fileLock{}
	drop := func() {
		for _, l := range held {
			l.release()
		}
	}
	for _, f := range p.sortedFiles() {
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
		err = p.asShown(shown)
	}
	if err != nil {
		drop()
		return err
	}
	for _, f := range p.files {
		if f.lock = held[f.file.path]; f.lock == nil {
			drop()
			return fmt.Errorf("%s came up just now; try again", f.path)
		}
		delete(held, f.file.path)
	}
	drop() // of files that hold no server any more
	p.step("locked")
	return nil
}

// Unlock lets others at the files again.
func (p *Plan) Unlock() {
	for _, f := range p.files {
		if f.lock != nil {
			f.lock.release()
			f.lock = nil
			p.step("unlocked")
		}
	}
}

// Backup keeps a copy of each file beside it, and reads it back. A copy that is
// there already serves if it is the same; a different one stays, and is told of.
func (p *Plan) Backup() error {
	for _, f := range p.files {
		path, err := p.backUp(f.base(), f.display())
		if err != nil {
			return fmt.Errorf("back up %s: %w", f.path, err)
		}
		if f.backup = path; path != f.file.path+backupSuffix && !p.env.keeps(f.file.path+backupSuffix) {
			p.warnings = append(p.warnings, fmt.Sprintf("%s holds something else from before; this backup is %s", f.file.path+backupSuffix, path))
		}
		p.step("backed up")
	}
	return nil
}

// prepare works out the new text of one file, and its journal.
func (p *Plan) prepare(f *planned, line Line) error {
	text, before, err := rewrite(f.doc(), f.governed(), line)
	if err != nil {
		return err
	}
	f.text, f.before = text, before
	j := &fileJournal{
		Version: journalVersion, Agent: p.agent.Name(), Syntax: f.syntax().Name(), Path: f.display(), Target: f.file.path,
		Backup: f.backup, Lock: f.lockPath(), AgentLocks: f.agentLocks(),
		Original: digest(f.base().data), Written: digest(text), Line: line, Entries: before,
		Notes: p.notes(), Beside: f.holdsLasting(), Superseded: p.superseded(f),
	}
	f.journal, err = j.journalText()
	return err
}

// Journals returns how each file is put back. They must be safe on disk before
// Apply is called. Backup and Prepare come first.
func (p *Plan) Journals() ([]Journal, error) {
	var out []Journal
	for _, f := range p.files {
		if f.backup == "" || f.journal == nil {
			return nil, fmt.Errorf("%s is not backed up or not prepared", f.path)
		}
		f.stored = f.journal
		out = append(out, Journal{f.display(), f.journal})
	}
	return out, nil
}

// Apply writes the files. When one cannot be written those written before it
// are put back, and nothing has changed.
func (p *Plan) Apply() error {
	for i, f := range p.files {
		err := f.lock.withAgentLocks(f.agentLocks(), func() error {
			p.step("agent locked")
			return p.write(f)
		})
		if err == nil {
			p.step("applied")
			continue
		}
		err = fmt.Errorf("rewrite %s: %w", f.path, err)
		if p.env.Renew != "" {
			return err // what is made again is better half done than undone
		}
		for _, done := range p.files[:i+1] {
			if _, undo := restore(done.journal, p.step); undo != nil {
				err = errors.Join(err, undo)
			}
		}
		return err
	}
	return nil
}

// write writes one file. When the agent wrote it since it was read, what it
// holds now is rewritten, provided that the servers are the same: the journal
// names them and holds as it is.
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

// outrun does what do does, against whoever writes to the file meanwhile.
func outrun(tries int, do func() error) error {
	for range tries {
		if err := do(); !errors.Is(err, errChanged) {
			return err
		}
	}
	return outrunBy(tries)
}

func outrunBy(tries int) error { return fmt.Errorf("%w, %d times over", errChanged, tries) }

// asShown makes sure that the files name the servers that they named when the plan
// was made, and no others: a person may have agreed to those.
func (p *Plan) asShown(shown []*Source) error {
	type key struct{ file, path string }
	before := map[key]*Entry{}
	for s, e := range each(shown) {
		before[key{s.file.path, edit.Pointer(e.Path)}] = e
	}
	for s, e := range each(p.found) {
		was := before[key{s.file.path, edit.Pointer(e.Path)}]
		if e.fixed != "" && (was == nil || was.fixed == "") || e.Ungoverned == "" && (was == nil || was.Ungoverned != "" || was.Command != e.Command || !slices.Equal(was.Args, e.Args)) {
			return fmt.Errorf("%w: server %s in %s is not what it was when it was looked at first; nothing was rewritten, look again", errChanged, e.ID, s.Path)
		}
	}
	return nil
}

// unplanned refuses a server that came in since the files were read.
func (p *Plan) unplanned() error {
	drift, err := p.Drift()
	if err != nil {
		return err
	}
	for _, d := range drift {
		if d.How == Added {
			return fmt.Errorf("%w, and server %s came in; look at %s, and try again", errChanged, d.ID, d.Path)
		}
	}
	return nil
}

// readBack makes sure that a file holds what was written. Somebody else may have
// written it since; then it must at least still have been ours they read, and
// name no server that nobody looked at.
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
	return p.unplanned()
}

// rebase makes the same changes to what the file holds now.
func (p *Plan) rebase(f *planned, now *file) ([]byte, error) {
	doc, settled, err := parseSettled(now, f.syntax(), settleFor)
	*now = *settled
	if err == nil && f.clean != nil {
		doc, _, err = p.without(f, doc)
	}
	if err != nil {
		return nil, err
	}
	for i, e := range f.governed() {
		now, w := e.was(doc), f.before[i]
		n := w.Form.of(doc.At(w.Path))
		if !same(n.command(), w.Command, f.syntax()) || !same(n.args(), w.Args, f.syntax()) || now.Env != w.Env || !slices.Equal(now.Limits, w.Limits) {
			return nil, fmt.Errorf("%w, and server %s with it; try again", errChanged, w.ID)
		}
	}
	j, err := parseJournal(f.journal)
	if err != nil {
		return nil, err
	}
	text, _, err := rewrite(doc, f.governed(), j.Line)
	return text, errors.Join(err, p.unplanned())
}

// Restore puts every file back: see [Restore]. It goes on past one that cannot
// be, and may be called again. Without a backup there is nothing to restore.
func (p *Plan) Restore() ([]Report, error) {
	var reports []Report
	var failed []error
	for _, f := range slices.Backward(p.files) {
		if f.backup == "" {
			continue
		}
		if f.journal == nil {
			failed = append(failed, p.discard(f))
			continue
		}
		report, err := restore(f.journal, p.step)
		if err != nil {
			err = fmt.Errorf("put %s back: %w; the original is %s, and `tgctl unwrap %s` tries again", f.path, err, f.backup, f.path)
		}
		reports, failed = append(reports, report), append(failed, err)
	}
	slices.Reverse(reports)
	return reports, errors.Join(failed...)
}

// discard removes the backup of a file that was never touched.
func (p *Plan) discard(f *planned) error {
	return p.notes().dropCopy(f.file.path, f.backup, digest(f.file.data))
}
