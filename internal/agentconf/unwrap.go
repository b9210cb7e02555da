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

// Unwrap restores a file by hand, without a journal or daemon, from our lines themselves and
// the backups beside it. It removes the lines of all sessions. If the file does not exist, it
// is restored from its backup, provided that a note in the folder notes says that the backup is
// ours; see [Env]. While a wrap holds the file, the error is a *[LockedError].
func Unwrap(path, notes string) (Report, error) {
	return unwrap(path, notebook(notes), func(string) {})
}

func unwrap(path string, notes notebook, step func(string)) (Report, error) {
	r := &restorer{byHand: true, step: step, report: Report{Path: path, State: Untouched}}
	target, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		dir, failed := filepath.EvalSymlinks(filepath.Dir(path))
		if failed != nil {
			return r.report, failed
		}
		target, err = filepath.Join(dir, filepath.Base(path)), nil
	}
	if err != nil {
		return r.report, err
	}
	r.j = &fileJournal{Path: path, Target: target, Notes: notes}
	r.locked = isLeftLock(lockPath(target))
	lock, err := awaitLock(lockPath(target), path, holder{Brief: true, notes: notes})
	if err != nil {
		return r.report, err
	}
	defer lock.release()
	r.addReportNote(sweepTemps(target, notes)...)
	rewrote := len(notes.of(noteBackup, target)) > 0
	err = lock.tryWithAgentLocks(knownLocks(path, target), r.unwrap)
	if rewrote {
		notes.rememberCopies(path, target)
	}
	notes.forgetCopies()
	return r.report, err
}

func (r *restorer) unwrap() error {
	r.backups = backupsOf(r.j.Target)
	if err := r.file(r.j.Target); err != nil {
		return err
	}
	if r.report.State == Missing {
		return r.bringBack()
	}
	return r.removeEqualBackups(r.text)
}

// NeedsUnwrap reports whether Unwrap would have anything to do at path: there are lines of ours,
// a backup, or files of a killed process.
func NeedsUnwrap(path string) bool {
	target := realPath(path)
	now, err := readFile(target)
	return err == nil && namesUs(now) || isLeftLock(lockPath(target)) || len(backupsOf(target)) > 0
}

// namesUs reports whether a file may contain our variables or our program.
func namesUs(f *file) bool {
	return bytes.Contains(f.data, []byte(envSession)) || bytes.Contains(f.data, []byte(shimName))
}

// removeLinesByBackup removes every line of ours from doc. It uses the backup that has the originals of
// most entries, and of several such the first.
func removeLinesByBackup(doc *edit.Document, backups []*file) (removal, error) {
	plain, err := removeLines(doc, nil, "", "")
	plain.nothing = len(backups) == 0 && len(hookLines(doc)) > 0 && standsForNothing(plain.text)
	if err != nil || plain.lines == 0 {
		return plain, err
	}
	best, known := plain, 0
	for _, backup := range backups {
		before := entriesOf(doc, backup)
		if len(before) <= known {
			continue
		}
		if out, err := removeLines(doc, before, "", ""); err == nil && !out.altered && len(out.notes) == 0 {
			best, known = out, len(before)
		}
	}
	after, err := doc.Syntax().Read(best.text)
	if err != nil {
		return best, err
	}
	if names := stillRaised(doc, after); len(names) > 0 {
		best.notes = append(best.notes, "raised time limits were kept, since no backup has their original values: "+strings.Join(names, ", "))
	}
	return best, nil
}

// entriesOf returns the originals, from a backup, of the entries that have our lines, if they
// are in the backup and start the same servers.
func entriesOf(doc *edit.Document, backup *file) []originalEntry {
	old, err := doc.Syntax().Read(backup.data)
	if err != nil {
		return nil
	}
	before := hooksByBackup(doc, old)
	for _, path := range linesIn(doc.Root(), nil) {
		now := formed(doc.At(path))
		then := now.form.of(old.At(path))
		words, id := shimWords(now.behind())
		e := &Entry{ID: id, Path: path, form: now.form}
		switch {
		case isRemoteLine(now.behind()):
			if _, err := then.Extent(); err != nil || !slices.ContainsFunc(addressMembers, func(name string) bool { return then.Member(name).Exists() }) {
				continue
			}
			e.Remote = &Remote{}
		case !slices.EqualFunc(now.launch()[words:], then.launch(), edit.Equal):
			continue
		}
		w := e.was(old)
		w.Limits = raisedSince(now.Node, then.Node)
		before = append(before, w)
	}
	return before
}

// linesIn returns the paths of all entries that have a complete line of ours.
func linesIn(n edit.Node, path []string) [][]string {
	s := formed(n)
	if words, _ := shimWords(s.behind()); words > 0 && (&lineRemover{}).starts(s) {
		return [][]string{path}
	}
	var out [][]string
	for step, kid := range n.Children() {
		out = append(out, linesIn(kid, append(slices.Clone(path), step))...)
	}
	return out
}

// removeEqualBackups removes the backups with the same content as the file, and reports the others.
func (r *restorer) removeEqualBackups(text []byte) error {
	for _, backup := range r.backups {
		if !bytes.Equal(backup.data, text) {
			r.report.Backup = backup.path
			r.addReportNote(backup.path + " differs from the current file and was kept; remove it if you don't need it")
			continue
		}
		if r.report.State == Merged {
			r.report.State = Restored
		}
		if err := r.j.Notes.removeBackup(r.j.Target, backup.path, r.step); err != nil {
			return err
		}
	}
	return syncFolder(filepath.Dir(r.j.Target))
}

// bringBack restores a file that does not exist from its latest backup.
func (r *restorer) bringBack() error {
	if len(r.backups) == 0 && r.locked {
		return nil // a process was killed before it made the file
	}
	if len(r.backups) == 0 {
		return fmt.Errorf("%s does not exist and has no backup: no wrap has rewritten it", r.j.Target)
	}
	backup, err := r.ownBackup()
	if err != nil {
		return fmt.Errorf("%s does not exist, and %w", r.j.Target, err)
	}
	if err := os.Link(backup.path, r.j.Target); err != nil { // unlike a rename, a link never replaces a file
		return fmt.Errorf("restore from the backup: %w", err)
	}
	r.step("linked")
	r.report.State = Restored
	r.addReportNote("it was missing and was restored from " + backup.path)
	return r.removeEqualBackups(backup.data)
}

// ownBackup returns the latest backup that we made. Anyone who can write to the folder can
// plant another.
func (r *restorer) ownBackup() (*file, error) {
	for _, backup := range r.backups {
		if r.j.Notes.made(backup, r.j.Target) {
			return backup, nil
		}
	}
	return nil, fmt.Errorf("%s may not have been made by ThoughtGate; if it has the right contents, copy it", r.backups[0].path)
}
