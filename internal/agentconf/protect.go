package agentconf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Decay is how far a lasting rewrite is from what it should be.
type Decay struct {
	Lost  []string // servers whose line somebody took out: they are started ungoverned
	Added []string // servers that came in since, and are started ungoverned
	Other bool     // something else of it is not as it should be, such as where the shim is
}

// None reports whether everything is as it should be.
func (d Decay) None() bool { return len(d.Lost)+len(d.Added) == 0 && !d.Other }

// Decay says what [Plan.Protect] would mend. Prepare comes first. Of a rewrite
// that was not made yet, every server is added.
func (p *Plan) Decay() Decay {
	var d Decay
	for _, f := range p.files {
		if string(f.text) == string(f.file.data) {
			continue
		}
		before, explained := p.wasIn(f), false
		for _, e := range f.governed() {
			switch known := slices.ContainsFunc(before, func(w entryWas) bool { return slices.Equal(w.Path, e.Path) }); {
			case e.ours != nil:
				continue
			case known:
				d.Lost = append(d.Lost, e.ID)
			default:
				d.Added = append(d.Added, e.ID)
			}
			explained = true
		}
		d.Other = d.Other || !explained
	}
	slices.Sort(d.Lost)
	slices.Sort(d.Added)
	d.Lost, d.Added = slices.Compact(d.Lost), slices.Compact(d.Added)
	return d
}

// Protect makes the rewrite that l stands for, or makes it again where it has
// drifted, and returns what l is then. Files that are as they should be are not
// touched; where all are, nothing is done. keep is given what undoes the rewrite,
// and must have it safe on disk when it returns: after that no accident can
// leave a file that nobody knows how to put back.
//
// The error is a *[LockedError] when a wrap, or another rewrite, has a file.
func (p *Plan) Protect(l *Protection, keep func(*Protection) error) (*Protection, error) {
	if err := p.Lock(l.ID); err != nil {
		return nil, err
	}
	defer p.Unlock()
	if err := p.Prepare(l.Line); err != nil {
		return nil, err
	}
	if p.unlockFinished(); len(p.files) == 0 {
		return l, dropSuperseded(l.journals())
	}
	next, err := p.secure(l, keep)
	if err != nil {
		return nil, errors.Join(err, p.dropNewBackups())
	}
	p.step("journal stored")
	if err := p.Apply(); err != nil {
		return next, err
	}
	return next, dropSuperseded(next.journals())
}

// secure does all that has to be done before a file is written.
func (p *Plan) secure(l *Protection, keep func(*Protection) error) (*Protection, error) {
	for _, do := range []func() error{p.keepAltered, p.Backup, func() error { return p.Prepare(l.Line) }} {
		if err := do(); err != nil {
			return nil, err
		}
	}
	next := p.renewed(l)
	return next, keep(next)
}

// unlockFinished lets go of the files that are as they should be.
func (p *Plan) unlockFinished() {
	p.files = slices.DeleteFunc(p.files, func(f *planned) bool {
		if string(f.text) != string(f.file.data) {
			return false
		}
		f.lock.release()
		return true
	})
}

// keepAltered keeps a copy of each file in which something that somebody wrote
// has to give way.
func (p *Plan) keepAltered() error {
	for _, f := range p.files {
		if f.clean == nil || !f.clean.altered {
			continue
		}
		path, err := f.file.copyBeside(alteredSuffix, p.notes())
		if err != nil {
			return fmt.Errorf("keep the altered file: %w", err)
		}
		p.step("altered kept")
		p.warnings = append(p.warnings, "the file as it was altered is kept as "+path)
	}
	return nil
}

// renewed is l with the journals of this plan in the place of older ones of the
// same files.
func (p *Plan) renewed(l *Protection) *Protection {
	next := *l
	next.Journal = nil
	for i, j := range l.journals() {
		if !slices.ContainsFunc(p.files, func(f *planned) bool { return f.file.path == j.Target }) {
			next.Journal = append(next.Journal, l.Journal[i])
		}
	}
	for _, f := range p.files {
		next.Journal = append(next.Journal, f.journal)
	}
	return &next
}

// superseded are the copies that the new one takes the place of.
func (p *Plan) superseded(f *planned) []copyWas {
	j := p.journalOf(f)
	if j == nil {
		return nil
	}
	if j.Backup == f.backup {
		return j.Superseded
	}
	return append(slices.Clip(j.Superseded), copyWas{j.Backup, j.Original})
}

// dropSuperseded removes copies that others have taken the place of.
func dropSuperseded(journals []*fileJournal) error {
	var failed []error
	for _, j := range journals {
		for _, old := range j.Superseded {
			if old.Path != j.Backup {
				failed = append(failed, j.Notes.dropCopy(j.Target, old.Path, old.Original))
			}
		}
	}
	return errors.Join(failed...)
}

// dropNewBackups removes copies that nobody will need.
func (p *Plan) dropNewBackups() error {
	var failed []error
	for _, f := range p.files {
		if j := p.journalOf(f); j == nil || j.Backup != f.backup {
			failed = append(failed, p.notes().dropCopy(f.file.path, f.backup, digest(f.base().data)))
		}
	}
	return errors.Join(failed...)
}

// dropCopy removes a backup if it is the one that was made.
func (b notebook) dropCopy(target, path, original string) error {
	copied, err := readFile(path)
	if err != nil || digest(copied.data) != original {
		return nil // gone, or not ours: what it holds may be needed
	}
	return b.removeCopy(target, path)
}

// removeCopy removes a backup, and the note of it.
func (b notebook) removeCopy(target, path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the backup: %w", err)
	}
	return errors.Join(b.forget(target, path), syncFolder(filepath.Dir(path)))
}
