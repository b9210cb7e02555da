package agentconf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// State is what a restore found, and left.
type State string

const (
	Untouched State = "untouched" // nothing of ours was in the file
	Restored  State = "restored"  // byte for byte what it was
	Merged    State = "merged"    // our words are out; what others wrote stays
	Missing   State = "missing"   // the file is gone, and the backup stays
)

// Report says what became of one file.
type Report struct {
	Path   string
	State  State
	Notes  []string // what a person should know of; nothing secret
	Backup string   // a backup that was kept, empty when there is none
}

// String says it in one line. It is empty when there is nothing to say: the
// file is what it was, or was never changed.
func (r Report) String() string {
	if len(r.Notes) > 0 {
		return string(r.State) + ": " + strings.Join(r.Notes, "; ")
	}
	if r.State == Merged {
		return "merged: what others wrote meanwhile stays"
	}
	return ""
}

const (
	alteredSuffix = Infix + "altered"

	// Somebody who writes all the time is outrun, not waited for.
	restoreTries = 500
)

// Restore puts a file back by its journal, whoever rewrote it. The caller holds
// the lock of the file: see [TryLock].
//
// A file that nobody else wrote to becomes what it was, byte for byte. Otherwise
// only our words are taken out, entry by entry: what the agent or a person wrote
// stays, an entry of ours that was damaged is put back, with the damaged file
// kept beside it, and copies of our lines are undone. A file that was removed
// stays so; its backup then stays too. A file that no longer parses is kept
// beside the backup's content, which takes its place.
//
// What a [Pointing] left is removed; its files were never touched.
//
// Restore may be interrupted at any point and called again, also when there is
// nothing left to do.
func Restore(journal []byte) (Report, error) {
	return restore(journal, func(string) {})
}

func restore(journal []byte, step func(string)) (Report, error) {
	j, err := parseAny(journal)
	if err != nil {
		return Report{}, err
	}
	return j.restore(step)
}

func (j *fileJournal) restore(step func(string)) (Report, error) {
	r := &restorer{j: j, step: step, report: Report{Path: j.Path, State: Untouched}}
	if j.settled() {
		return r.report, nil
	}
	lock := joinLock(j.Lock, j.Notes)
	if lock != nil {
		defer lock.f.Close()
	}
	if err := lock.regardless(j.AgentLocks, r.files); err != nil {
		return r.report, err
	}
	step("agent unlocked")
	if j.Agent == (custom{}).Name() {
		j.Notes.rememberCopies(j.Path, j.Target)
	}
	return r.report, r.dropBackup()
}

// restorer puts one file back.
type restorer struct {
	j       *fileJournal
	step    func(string)
	report  Report
	foreign bool // another session has lines in the file, and may need the backup
}

// files restores the file that was rewritten, and the one that has taken its
// place should a link have been replaced meanwhile, or the file by a link.
func (r *restorer) files() error {
	r.step("agent locked")
	r.report.Notes = union(r.report.Notes, sweepTemps(r.j.Target, r.j.Notes))
	if info, err := os.Lstat(r.j.Target); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		if err := r.file(r.j.Target); err != nil {
			return err
		}
	}
	now, err := filepath.EvalSymlinks(r.j.Path)
	if err != nil || now == r.j.Target {
		return nil
	}
	state := r.report.State
	if err := r.file(now); err != nil {
		return err
	}
	if r.report.State == Untouched {
		r.report.State = state
	}
	return nil
}

// file takes our lines out of the file at path, against whoever writes to it.
func (r *restorer) file(path string) error {
	for range restoreTries {
		now, err := readFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			r.report.State = Missing
			return nil
		}
		if err != nil {
			return err
		}
		if digest(now.data) == r.j.Original {
			return nil // from the start, or by us just now
		}
		out, err := r.undo(now)
		if err != nil {
			return err
		}
		r.foreign = r.foreign || out.foreign && !r.j.Beside
		if bytes.Equal(out.text, now.data) {
			r.report.Notes = union(r.report.Notes, out.notes)
			return nil
		}
		if out.altered {
			if err := r.keepAltered(now, &out); err != nil {
				return err
			}
		}
		err = now.replace(out.text, r.j.Notes, r.step)
		if backup, failed := readFile(r.j.Backup); failed == nil && bytes.Equal(backup.data, out.text) {
			err = now.orSwap(backup, err, r.step)
		}
		if errors.Is(err, errChanged) {
			continue
		}
		if err != nil {
			return err
		}
		r.report.Notes = union(r.report.Notes, out.notes)
		r.report.State = Merged
		if digest(out.text) == r.j.Original {
			r.report.State = Restored
		}
		// Once more from the top: that reads it back, and sees whether somebody
		// who still had our lines in mind wrote them again.
	}
	return fmt.Errorf("restore %s: %w", path, outrunBy(restoreTries))
}

// undo works out what the file should hold.
func (r *restorer) undo(now *file) (taken, error) {
	doc, settled, err := parseSettled(now, r.j.syntax(), settleFor)
	*now = *settled
	if err == nil {
		err = (&taker{doc: doc, before: r.j.Entries}).doubt()
	}
	if err != nil {
		backup, failed := readFile(r.j.Backup)
		if failed != nil || digest(backup.data) != r.j.Original {
			return taken{}, fmt.Errorf("restore %s: it does not parse any more (%w), and there is no good backup at %s", now.path, err, r.j.Backup)
		}
		return taken{text: backup.data, altered: true,
			notes: []string{"the file did not parse any more" + placeOf(err) + " and is put back as it was"}}, nil
	}
	out, err := takeBack(doc, r.j.Entries, r.j.Line.Session, r.j.Line.Shim)
	if err == nil && (digest(now.data) != r.j.Written || digest(out.text) == r.j.Original) {
		return out, nil
	}
	// Nobody wrote to it, and yet the way back leads elsewhere: then the backup.
	backup, failed := readFile(r.j.Backup)
	if failed == nil && digest(backup.data) == r.j.Original {
		return taken{text: backup.data, altered: digest(now.data) != r.j.Written, notes: []string{"put back from the backup"}}, nil
	}
	return out, err
}

// placeOf says where a text did not parse, and nothing of what stands there.
func placeOf(err error) string {
	var syntax *edit.SyntaxError
	if !errors.As(err, &syntax) {
		return ""
	}
	return fmt.Sprintf(" (line %d, column %d)", syntax.Line, syntax.Column)
}

// keepAltered keeps what somebody wrote and we are about to overwrite.
func (r *restorer) keepAltered(now *file, out *taken) error {
	path, err := now.copyBeside(alteredSuffix, r.j.Notes)
	if err != nil {
		return fmt.Errorf("keep the altered file: %w", err)
	}
	r.step("altered kept")
	out.notes = append(out.notes, "the file as it was altered is kept as "+path)
	return nil
}

// dropBackup removes the backup, now that it is not needed any more.
func (r *restorer) dropBackup() error {
	backup, err := readFile(r.j.Backup)
	if errors.Is(err, fs.ErrNotExist) {
		return r.j.Notes.forget(r.j.Target, r.j.Backup)
	}
	if r.foreign {
		return nil
	}
	switch {
	case r.report.State == Missing:
		r.report.Backup = r.j.Backup
		r.report.Notes = union(r.report.Notes, []string{"the file was removed meanwhile and stays so; `tgctl unwrap " + r.j.Path + "` puts back " + r.j.Backup})
		return nil
	case err != nil || digest(backup.data) != r.j.Original && digest(backup.data) != r.j.Written: // by a swap that was cut short
		r.report.Backup = r.j.Backup
		r.report.Notes = union(r.report.Notes, []string{r.j.Backup + " is not the backup that was made, and stays"})
		return nil
	}
	err = r.j.Notes.removeCopy(r.j.Target, r.j.Backup)
	r.step("backup removed")
	return err
}

// union appends what is not there yet: a file may be gone over more than once.
func union(notes, more []string) []string {
	for _, note := range more {
		if !slices.Contains(notes, note) {
			notes = append(notes, note)
		}
	}
	return notes
}

// journalText is the one way a journal becomes bytes.
func (j *fileJournal) journalText() ([]byte, error) { return json.Marshal(j) }
