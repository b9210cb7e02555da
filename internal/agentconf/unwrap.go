package agentconf

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// Unwrap puts a file back by hand, with no journal and no daemon: by what our
// lines say themselves, and by the backups that lie beside it. It takes out the
// lines of every session. A file that is gone comes back from its backup, if the
// folder notes says that we made that; see [Env]. The error is a *[LockedError]
// while a wrap has the file.
func Unwrap(path, notes string) (Report, error) {
	return unwrap(path, notebook(notes), func(string) {})
}

func unwrap(path string, notes notebook, step func(string)) (Report, error) {
	u := &unwrapper{step: step, notes: notes, report: Report{Path: path, State: Untouched}}
	target, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		dir, failed := filepath.EvalSymlinks(filepath.Dir(path))
		if failed != nil {
			return u.report, failed
		}
		target, err = filepath.Join(dir, filepath.Base(path)), nil
	}
	if err != nil {
		return u.report, err
	}
	u.target = target
	lock, err := awaitLock(lockPath(target), path, holder{Brief: true, notes: notes})
	if err != nil {
		return u.report, err
	}
	defer lock.release()
	u.note(sweepTemps(target, notes)...)
	rewrote := len(notes.of(noteBackup, target)) > 0
	err = lock.regardless(knownLocks(path, target), func() error { return outrun(restoreTries, u.once) })
	if rewrote {
		notes.rememberCopies(path, target)
	}
	notes.forgetCopies()
	return u.report, err
}

// Concerned reports whether Unwrap would find anything to do at path: lines of
// ours, a backup, or what a killed process left.
func Concerned(path string) bool {
	target := realPath(path)
	if now, err := readFile(target); err == nil && (bytes.Contains(now.data, []byte(envSession)) || bytes.Contains(now.data, []byte(shimName))) {
		return true
	}
	if isLeftLock(lockPath(target)) {
		return true
	}
	return len(backupsOf(target)) > 0
}

// unwrapper puts one file back.
type unwrapper struct {
	target string
	step   func(string)
	notes  notebook
	report Report
}

func (u *unwrapper) once() error {
	backups := backupsOf(u.target)
	now, err := readFile(u.target)
	if errors.Is(err, fs.ErrNotExist) {
		return u.bringBack(backups)
	}
	if err != nil {
		return err
	}
	doc, err := now.parse(syntaxFor(now.data, u.report.Path, u.target), nil)
	if err != nil {
		return u.replaceBroken(now, backups, err)
	}
	out, err := takeBackBy(doc, backups)
	if err != nil {
		return fmt.Errorf("unwrap %s: %w", u.target, err)
	}
	if out.lines > 0 {
		err := now.replace(out.text, u.notes, u.step)
		for _, backup := range backups {
			if bytes.Equal(backup.data, out.text) {
				err = now.orSwap(backup, err, u.step)
				break
			}
		}
		if err != nil {
			return err
		}
		u.report.State = Merged
		u.note(out.notes...)
	}
	return u.settle(out.text, backups)
}

// takeBackBy takes every line of ours out of doc. Of the backups the first that
// knows how most of the entries were tells what was not there before.
func takeBackBy(doc *edit.Document, backups []*file) (taken, error) {
	plain, err := takeBack(doc, nil, "", "")
	if err != nil || plain.lines == 0 {
		return plain, err
	}
	best, known := plain, 0
	for _, backup := range backups {
		before := entriesOf(doc, backup)
		if len(before) <= known {
			continue
		}
		if out, err := takeBack(doc, before, "", ""); err == nil && !out.altered && len(out.notes) == 0 {
			best, known = out, len(before)
		}
	}
	after, err := doc.Syntax().Read(best.text)
	if err != nil {
		return best, err
	}
	if names := stillRaised(doc, after); len(names) > 0 {
		best.notes = append(best.notes, "time limits that were raised stay so, since no backup tells what they were: "+strings.Join(names, ", "))
	}
	return best, nil
}

// entriesOf returns how the entries that hold our lines were in a backup, as far
// as they were there and started the same servers.
func entriesOf(doc *edit.Document, backup *file) []entryWas {
	old, err := doc.Syntax().Read(backup.data)
	if err != nil {
		return nil
	}
	var before []entryWas
	for _, path := range linesIn(doc.Root(), nil) {
		now := formed(doc.At(path))
		then := now.form.of(old.At(path))
		words, id := shimWords(now.behind())
		if !slices.EqualFunc(now.launch()[words:], then.launch(), edit.Equal) {
			continue
		}
		e := &Entry{ID: id, Path: path, form: now.form}
		w := e.was(old)
		w.Limits = raisedSince(now.Node, then.Node)
		before = append(before, w)
	}
	return before
}

// linesIn returns the paths of all entries that hold a whole line of ours.
func linesIn(n edit.Node, path []string) [][]string {
	s := formed(n)
	if words, _ := shimWords(s.behind()); words > 0 && (&taker{}).starts(s) {
		return [][]string{path}
	}
	var out [][]string
	for step, kid := range n.Children() {
		out = append(out, linesIn(kid, append(slices.Clone(path), step))...)
	}
	return out
}

// settle removes the backups that say nothing else than the file does now, and
// names those that stay.
func (u *unwrapper) settle(text []byte, backups []*file) error {
	for _, backup := range backups {
		if !bytes.Equal(backup.data, text) {
			u.report.Backup = backup.path
			u.note(backup.path + " differs from the file as it is now, and stays; remove it when you do not need it")
			continue
		}
		if u.report.State == Merged {
			u.report.State = Restored
		}
		if err := os.Remove(backup.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		u.step("backup removed")
		if err := u.notes.forget(u.target, backup.path); err != nil {
			return err
		}
	}
	return syncFolder(filepath.Dir(u.target))
}

// bringBack makes a file anew that is gone, from its latest backup.
func (u *unwrapper) bringBack(backups []*file) error {
	if len(backups) == 0 {
		return fmt.Errorf("there is no %s, and no backup of it", u.target)
	}
	backup, err := u.ownBackup(backups)
	if err != nil {
		return fmt.Errorf("%s is gone, and %w", u.target, err)
	}
	if err := os.Link(backup.path, u.target); err != nil { // unlike a rename, never over something
		return fmt.Errorf("put back from the backup: %w", err)
	}
	u.step("linked")
	u.report.State = Restored
	u.note("it was gone, and is put back from " + backup.path)
	return u.settle(backup.data, backups)
}

// replaceBroken puts the latest backup in the place of a file that does not
// parse, which is kept.
func (u *unwrapper) replaceBroken(now *file, backups []*file, why error) error {
	if len(backups) == 0 {
		return fmt.Errorf("%s: %w; there is no backup of it", u.target, why)
	}
	if !bytes.Contains(now.data, []byte(envSession)) && !bytes.Contains(now.data, []byte(shimName)) {
		return fmt.Errorf("%s: %w; nothing of ours is in it, and %s is a backup", u.target, why, backups[0].path)
	}
	backup, err := u.ownBackup(backups)
	if err != nil {
		return fmt.Errorf("%s: %w, and %w", u.target, why, err)
	}
	kept, err := now.copyBeside(alteredSuffix, u.notes)
	if err != nil {
		return err
	}
	if err := now.replace(backup.data, u.notes, u.step); err != nil {
		return err
	}
	u.report.State = Restored
	u.note(fmt.Sprintf("it did not parse (%v); it is kept as %s, and put back from %s", why, kept, backup.path))
	return u.settle(backup.data, backups)
}

// ownBackup returns the latest backup that we made: whoever can write to the
// folder can plant one.
func (u *unwrapper) ownBackup(backups []*file) (*file, error) {
	for _, backup := range backups {
		if u.notes.made(backup, u.target) {
			return backup, nil
		}
	}
	return nil, fmt.Errorf("nothing on record says that %s was made by ThoughtGate; if it holds what you want, copy it", backups[0].path)
}

func (u *unwrapper) note(notes ...string) { u.report.Notes = union(u.report.Notes, notes) }
