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

	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// State is the result of a restore.
type State string

const (
	Untouched State = "untouched" // nothing of ours was in the file
	Restored  State = "restored"  // the original bytes are back
	Merged    State = "merged"    // our words were removed; what others wrote stays
	Missing   State = "missing"   // the file does not exist; the backup stays
)

// Report is the result of restoring one file.
type Report struct {
	Path   string
	State  State
	Notes  []string // what a person should know; nothing secret
	Backup string   // a backup that was kept, empty if there is none
}

// String returns a one-line summary. It is empty if the file is as it was originally, or was
// never changed.
func (r Report) String() string {
	if len(r.Notes) > 0 {
		return string(r.State) + ": " + strings.Join(r.Notes, "; ")
	}
	if r.State == Merged {
		return "merged: changes made by others meanwhile were kept"
	}
	return ""
}

const (
	alteredSuffix = Infix + "altered"

	// Somebody who writes all the time is outrun, not waited for.
	restoreTries = 500
)

// Restore restores a file from its journal, even if another process rewrote it. The lock of the
// file must be held: see [TryLock].
//
// If nobody else has written the file, its original bytes are restored. Otherwise only our
// words are removed, entry by entry. What the agent or a person wrote stays. An entry of ours
// that was damaged is restored, and the damaged file is kept beside it. Copies of our lines are
// undone. If the file was removed, it stays so, and its backup is kept. If the file no longer
// parses, it is kept under another name and replaced by the backup.
//
// The copy of a [Pointing] is removed; its files were never changed.
//
// Restore may be interrupted at any point and called again, even if nothing is left to do.
//
// If told is not nil, it is called after each step, as by [Plan.OnStep].
func Restore(journal []byte, told func(step string)) (Report, error) {
	j, err := parseAny(journal)
	if err != nil {
		return Report{}, err
	}
	if told == nil {
		told = func(string) {}
	}
	return j.restore(told)
}

func (j *fileJournal) restore(step func(string)) (Report, error) {
	r := &restorer{j: j, step: step, report: Report{Path: j.Path, State: Untouched}}
	if j.settled() {
		return r.report, nil
	}
	if backup, err := readFile(j.Backup); err == nil {
		r.backups = []*file{backup}
	}
	lock := joinLock(j.Lock, j.Notes)
	if lock != nil {
		defer lock.f.Close()
	}
	if err := lock.tryWithAgentLocks(j.AgentLocks, r.files); err != nil {
		return r.report, err
	}
	step("agent unlocked")
	if j.Agent == (custom{}).Name() {
		j.Notes.rememberCopies(j.Path, j.Target)
	}
	return r.report, r.dropBackup()
}

// restorer restores one file, from its journal, or by hand: from our lines themselves and the
// backups beside the file.
type restorer struct {
	j       *fileJournal // by hand, only Path, Target and Notes are set
	byHand  bool
	locked  bool    // by hand: a killed process has left its lock
	backups []*file // latest first
	step    func(string)
	report  Report
	text    []byte // current content of the file
	foreign bool   // other sessions have lines in the file and may need the backup
}

func (r *restorer) addReportNote(notes ...string) { r.report.Notes = union(r.report.Notes, notes) }

// files restores the file that was rewritten. If a link or the file was replaced meanwhile, so
// that Path leads to another file, it restores that one too.
func (r *restorer) files() error {
	r.step("agent locked")
	r.addReportNote(sweepTemps(r.j.Target, r.j.Notes)...)
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

// file removes our lines from the file at path, and retries if others write it meanwhile.
func (r *restorer) file(path string) error {
	for range restoreTries {
		now, err := readFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			r.report.State = Missing
			if r.j.Made != "" {
				r.report.State = Restored
			}
			return nil
		}
		if err != nil {
			return err
		}
		switch digest(now.data) {
		case r.j.Made: // nothing of anybody is left in it
			if err := now.remove(r.j.Notes, r.step); !errors.Is(err, errChanged) {
				return err
			}
			continue
		case r.j.Original:
			return nil // it was never changed, or the last try has restored it
		}
		out, err := r.undo(now)
		if err != nil {
			return err
		}
		r.foreign = r.foreign || out.foreign && !r.j.Beside
		if bytes.Equal(out.text, now.data) {
			r.addReportNote(out.notes...)
			r.text = now.data
			return nil
		}
		if out.altered {
			said, err := now.keepAltered(r.j.Notes)
			if err != nil {
				return err
			}
			r.step("altered kept")
			out.notes = append(out.notes, said)
		}
		switch err := r.write(now, out); {
		case errors.Is(err, errChanged):
			continue
		case err != nil:
			return err
		}
		r.addReportNote(out.notes...)
		if out.nothing {
			r.report.State = Restored
			return nil
		}
		r.report.State = Merged
		if digest(out.text) == r.j.Original {
			r.report.State = Restored
		}
		// Try again from the start. This verifies the result, and detects a writer who has just
		// written our lines again.
	}
	return fmt.Errorf("restore %s: %w", path, outrunBy(restoreTries))
}

// write writes what the file should hold, or removes a file that should not exist.
func (r *restorer) write(now *file, out removal) error {
	if out.nothing {
		return now.remove(r.j.Notes, r.step)
	}
	err := now.replace(out.text, r.j.Notes, r.step)
	if i := slices.IndexFunc(r.backups, func(b *file) bool { return bytes.Equal(b.data, out.text) }); i >= 0 {
		err = now.orSwap(r.backups[i], err, r.step)
	}
	return err
}

// undo returns what the file should hold.
func (r *restorer) undo(now *file) (removal, error) {
	syntax := r.j.syntax()
	if r.byHand {
		syntax = syntaxFor(now.data, r.j.Path, r.j.Target)
	}
	doc, err := now.parse(syntax, r.j.Entries)
	backup, bad := r.goodBackup(now)
	switch {
	case err != nil && r.j.Made != "":
		return removal{text: []byte(agenthook.Of(r.j.Agent).Empty()), altered: true, notes: []string{"the file was invalid" + placeOf(err) + " and was removed, since it did not exist before"}}, nil
	case err != nil && bad != nil:
		return removal{}, fmt.Errorf("restore %s: the file is invalid (%w), and %w", now.path, err, bad)
	case err != nil:
		return removal{text: backup.data, altered: true,
			notes: []string{"the file was invalid" + placeOf(err) + " and was restored as it was"}}, nil
	case r.byHand:
		return removeLinesByBackup(doc, r.backups)
	}
	out, err := removeLines(doc, r.j.Entries, r.j.Line.Session, r.j.Line.Shim)
	if err == nil && (digest(now.data) != r.j.Written || digest(out.text) == r.j.Original) {
		return out, nil
	}
	// Nobody has written the file, but the result is not the original, so use the backup.
	if bad == nil {
		return removal{text: backup.data, altered: digest(now.data) != r.j.Written, notes: []string{"restored from the backup"}}, nil
	}
	return out, err
}

// goodBackup returns a backup that may replace the file.
func (r *restorer) goodBackup(now *file) (*file, error) {
	switch {
	case !r.byHand && len(r.backups) == 1 && digest(r.backups[0].data) == r.j.Original:
		return r.backups[0], nil
	case !r.byHand:
		return nil, fmt.Errorf("there is no valid backup at %s", r.j.Backup)
	case len(r.backups) == 0:
		return nil, errors.New("it has no backup")
	case !namesUs(now):
		return nil, fmt.Errorf("it has no tg-shim entries; %s is a backup", r.backups[0].path)
	}
	return r.ownBackup()
}

// parse parses the current content of a file. It returns an error if doubts make it uncertain
// what of it is ours.
func (f *file) parse(syntax edit.Syntax, before []originalEntry) (*edit.Document, error) {
	doc, err := parseSettled(f, syntax, settleTimeout)
	if err == nil {
		err = (&lineRemover{doc: doc, before: before}).checkDoubts()
	}
	return doc, err
}

// placeOf returns where a text did not parse, without quoting it.
func placeOf(err error) string {
	var syntax *edit.SyntaxError
	if !errors.As(err, &syntax) {
		return ""
	}
	return fmt.Sprintf(" (line %d, column %d)", syntax.Line, syntax.Column)
}

// keepAltered keeps a copy of a file that somebody wrote and that will be overwritten. It
// returns a message with the copy's path.
func (f *file) keepAltered(notes notebook) (said string, err error) {
	path, err := f.copyFor(f.path, alteredSuffix, notes)
	if err != nil {
		return "", fmt.Errorf("keep the altered file: %w", err)
	}
	return "the altered file was saved as " + path, nil
}

// dropBackup removes the backup, unless it is still needed.
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
		r.addReportNote("the file was removed meanwhile and was not restored; to restore it from " + r.j.Backup + ", run `tgctl unwrap " + r.j.Path + "`")
		return nil
	case err != nil || digest(backup.data) != r.j.Original && digest(backup.data) != r.j.Written: // Written after an interrupted swap
		r.report.Backup = r.j.Backup
		r.addReportNote(r.j.Backup + " is not the backup that was made, and was kept")
		return nil
	}
	return r.j.Notes.removeBackup(r.j.Target, r.j.Backup, r.step)
}

// union appends those notes that are not there yet, because a file may be processed more than
// once.
func union(notes, more []string) []string {
	for _, note := range more {
		if !slices.Contains(notes, note) {
			notes = append(notes, note)
		}
	}
	return notes
}

// removal is a text from which our lines were removed.
type removal struct {
	text    []byte
	lines   int      // number of entries that were changed
	notes   []string // what a person should know
	altered bool     // something that somebody wrote was replaced
	foreign bool     // lines of other sessions remain
	stuck   []string // servers behind an address whose lines stay, because their address is not known
	nothing bool     // nothing of anybody is left, and the file was made for our hooks
}

// lineRemover removes our lines from a document, entry by entry. Anything else that was written since
// stays.
type lineRemover struct {
	doc     *edit.Document
	before  []originalEntry
	session string // the session whose lines are removed; empty for any
	shim    string // path of tg-shim; if empty, only its name counts
	ops     []edit.Op
	out     removal
}

// removeLines returns doc without the lines of a session. before has the original entries. Lines
// elsewhere, such as copies that the agent made, are removed based on their own words.
func removeLines(doc *edit.Document, before []originalEntry, session, shim string) (removal, error) {
	t := &lineRemover{doc: doc, before: before, session: session, shim: shim}
	if err := t.checkDoubts(); err != nil {
		return t.out, err
	}
	for _, w := range before {
		switch {
		case w.Hooks:
		case w.Whole != "":
			t.exchanged(w)
		default:
			t.entry(w)
		}
	}
	t.removeHooks(hooksOf(before))
	t.removeCopies(doc.Root(), nil)
	text, err := doc.Edit(t.ops...)
	t.out.text = text
	return t.out, err
}

// entry removes the line from one entry that was rewritten.
func (t *lineRemover) entry(w originalEntry) {
	n := w.Form.of(t.doc.At(w.Path))
	switch {
	case !n.Exists():
		t.addNote("%s was removed meanwhile and was not restored", w.ID)
	case t.isOtherSession(n):
		t.out.foreign = true
	case t.unwrap(n, w.Path, &w):
	case t.same(n.command(), w.Command) && t.same(n.args(), w.Args) && !setsOurs(n): // already undone by somebody
	case t.traces(n):
		t.putBack(n, w)
	default:
		t.addNote("%s was replaced meanwhile and was not changed", w.ID)
	}
}

// isOtherSession reports whether the line in n belongs to another session, perhaps a later one that
// must keep it.
func (t *lineRemover) isOtherSession(n server) bool {
	session := n.env().Member(envSession)
	return t.session != "" && session.Exists() && session.Text() != t.session
}

// traces reports whether anything of ours is left in n.
func (t *lineRemover) traces(n server) bool {
	words, _ := shimWords(n.behind())
	return t.starts(n) || words > 0 || setsOurs(n)
}

// starts reports whether n starts tg-shim.
func (t *lineRemover) starts(n server) bool {
	command := n.program()
	return command.Kind() == edit.String && (command.Text() == t.shim || filepath.Base(command.Text()) == shimName)
}

// unwrap removes a complete line of ours from n, based on the line's own words. If w is not
// nil, it has the original entry. unwrap returns false if there is no such line.
func (t *lineRemover) unwrap(n server, path []string, w *originalEntry) bool {
	words, _ := shimWords(n.behind())
	if !t.starts(n) || words == 0 || isRemoteLine(n.behind()) {
		return false
	}
	c := &changes{entry: n.Node, path: path}
	if n.form.isList() { // removes tg-shim and our words, but not the program that follows them
		c.do(edit.DropItems(c.at(n.form.Command), words))
	} else {
		t.moveBack(c, n, words, w)
	}
	t.clear(c, n, w)
	t.out.lines++
	return true
}

// moveBack makes the last of our words the command again, and removes the others.
func (t *lineRemover) moveBack(c *changes, n server, words int, w *originalEntry) {
	items := n.args().Items()
	command := items[words-1].Written()
	if w != nil && (w.Command == "" || t.same(items[words-1], w.Command)) { // the agent may have changed the spelling of the string
		command = w.Command
	}
	c.put(n.form.Command, command)
	if w != nil && (w.Args == "" || isNull(w.Args, t.doc.Syntax())) && slices.EqualFunc(items[words:], w.Inherited, isText) {
		c.put(n.form.Args, w.Args)
	} else {
		c.do(edit.DropItems(c.at(n.form.Args), words))
	}
}

func isText(n edit.Node, text string) bool { return n.Kind() == edit.String && n.Text() == text }

// clear resets the limits that were raised in n and removes our variables from its environment.
// It adds these changes and those in c to t.
func (t *lineRemover) clear(c *changes, n server, w *originalEntry) {
	if w != nil {
		for _, l := range unchanged(n.Node, w.Limits) {
			c.put(l.Key, l.Was)
		}
	}
	var ours []string
	others := 0
	for name := range n.env().Members() {
		if name.Text() == envSocket || name.Text() == envSession {
			ours = append(ours, name.Text())
		} else {
			others++
		}
	}
	switch {
	case len(ours) == 0:
	case w != nil && w.Env.whole():
		c.put(n.form.Env, string(w.Env))
	case others == 0 && n.env().Implied():
		c.put(n.form.Env, "")
	case others > 0 || w == nil || w.Env == envObject:
		c.do(edit.DropMembers(c.at(n.form.Env), ours...))
	default:
		c.put(n.form.Env, string(w.Env))
	}
	t.ops = append(t.ops, c.all()...)
}

// removeCopies removes lines of ours anywhere else in the document.
func (t *lineRemover) removeCopies(n edit.Node, path []string) {
	if t.removeCopy(n, path) {
		return
	}
	for step, kid := range n.Children() {
		t.removeCopies(kid, append(slices.Clone(path), step))
	}
}

// removeCopy removes the line from n, if it is of the session and n is not one of the rewritten
// entries.
func (t *lineRemover) removeCopy(n edit.Node, path []string) bool {
	if n.Kind() != edit.Object || slices.ContainsFunc(t.before, func(w originalEntry) bool { return slices.Equal(w.Path, path) }) {
		return false
	}
	s := formed(n)
	words, id := shimWords(s.behind())
	if t.session != "" && s.env().Member(envSession).Text() != t.session {
		t.out.foreign = t.out.foreign || t.starts(s) && words > 0
		return false
	}
	var origin *originalEntry
	remote := isRemoteLine(s.behind())
	for i := range t.before {
		if t.before[i].ID == id && (t.before[i].Whole != "") == remote {
			origin = &t.before[i]
		}
	}
	if remote && t.starts(s) {
		if !t.exchangeCopy(s, path, id, origin) {
			return true
		}
	} else if !t.unwrap(s, path, origin) {
		return false
	}
	if t.session != "" {
		t.addNote("a copy of the tg-shim entry at %s was removed too", edit.Pointer(path))
	}
	return true
}

func (t *lineRemover) addNote(format string, args ...any) {
	t.out.notes = append(t.out.notes, fmt.Sprintf(format, args...))
}

func (t *lineRemover) same(n edit.Node, text string) bool { return same(n, text, t.doc.Syntax()) }

// same reports whether n has the value of text. An empty text means that there is no value.
func same(n edit.Node, text string, syntax edit.Syntax) bool {
	if text == "" || !n.Exists() {
		return text == "" && !n.Exists()
	}
	value, err := syntax.Value(text)
	return err == nil && edit.Equal(n, value)
}

// putBack restores an entry whose line was damaged. The note does not quote the damaged entry,
// because the note is logged and the entry may have secrets.
func (t *lineRemover) putBack(n server, w originalEntry) {
	t.addNote("%s was altered and was restored", w.ID)
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

// rebuilt returns the text of an entry that has lost a member: the original command and
// arguments, and its current other members.
func (t *lineRemover) rebuilt(n server, w originalEntry) string {
	var members []edit.Member
	add := func(name, value string) {
		if value != "" {
			members = append(members, edit.Member{Name: name, Value: value})
		}
	}
	add(n.form.Command, w.Command)
	add(n.form.Args, w.Args)
	lowered := map[string]string{} // original values; empty if there was none
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
