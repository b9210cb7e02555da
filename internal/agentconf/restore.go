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
	if backup, err := readFile(j.Backup); err == nil {
		r.backups = []*file{backup}
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

// restorer puts one file back: by its journal, or by what our lines say themselves
// and the backups beside it.
type restorer struct {
	j       *fileJournal // by hand it says where the file is, and no more
	byHand  bool
	backups []*file // the latest first
	step    func(string)
	report  Report
	text    []byte // that the file holds now
	foreign bool   // another session has lines in the file, and may need the backup
}

func (r *restorer) note(notes ...string) { r.report.Notes = union(r.report.Notes, notes) }

// files restores the file that was rewritten, and the one that has taken its
// place should a link have been replaced meanwhile, or the file by a link.
func (r *restorer) files() error {
	r.step("agent locked")
	r.note(sweepTemps(r.j.Target, r.j.Notes)...)
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
			r.note(out.notes...)
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
		err = now.replace(out.text, r.j.Notes, r.step)
		if i := slices.IndexFunc(r.backups, func(b *file) bool { return bytes.Equal(b.data, out.text) }); i >= 0 {
			err = now.orSwap(r.backups[i], err, r.step)
		}
		if errors.Is(err, errChanged) {
			continue
		}
		if err != nil {
			return err
		}
		r.note(out.notes...)
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
	syntax := r.j.syntax()
	if r.byHand {
		syntax = syntaxFor(now.data, r.j.Path, r.j.Target)
	}
	doc, err := now.parse(syntax, r.j.Entries)
	backup, bad := r.goodBackup(now)
	switch {
	case err != nil && bad != nil:
		return taken{}, fmt.Errorf("restore %s: it does not parse any more (%w), and %w", now.path, err, bad)
	case err != nil:
		return taken{text: backup.data, altered: true,
			notes: []string{"the file did not parse any more" + placeOf(err) + " and is put back as it was"}}, nil
	case r.byHand:
		return takeBackBy(doc, r.backups)
	}
	out, err := takeBack(doc, r.j.Entries, r.j.Line.Session, r.j.Line.Shim)
	if err == nil && (digest(now.data) != r.j.Written || digest(out.text) == r.j.Original) {
		return out, nil
	}
	// Nobody wrote to it, and yet the way back leads elsewhere: then the backup.
	if bad == nil {
		return taken{text: backup.data, altered: digest(now.data) != r.j.Written, notes: []string{"put back from the backup"}}, nil
	}
	return out, err
}

// goodBackup returns the backup that may take the place of the file.
func (r *restorer) goodBackup(now *file) (*file, error) {
	switch {
	case !r.byHand && len(r.backups) == 1 && digest(r.backups[0].data) == r.j.Original:
		return r.backups[0], nil
	case !r.byHand:
		return nil, fmt.Errorf("there is no good backup at %s", r.j.Backup)
	case len(r.backups) == 0:
		return nil, errors.New("there is no backup of it")
	case !namesUs(now):
		return nil, fmt.Errorf("nothing of ours is in it; %s is a backup", r.backups[0].path)
	}
	return r.ownBackup()
}

// parse parses what a file holds now, in which it must be certain what of ours
// stands in it.
func (f *file) parse(syntax edit.Syntax, before []entryWas) (*edit.Document, error) {
	doc, err := parseSettled(f, syntax, settleFor)
	if err == nil {
		err = (&taker{doc: doc, before: before}).doubt()
	}
	return doc, err
}

// placeOf says where a text did not parse, and nothing of what stands there.
func placeOf(err error) string {
	var syntax *edit.SyntaxError
	if !errors.As(err, &syntax) {
		return ""
	}
	return fmt.Sprintf(" (line %d, column %d)", syntax.Line, syntax.Column)
}

// keepAltered keeps what somebody wrote and we are about to overwrite, and says
// where.
func (f *file) keepAltered(notes notebook) (said string, err error) {
	path, err := f.copyBeside(alteredSuffix, notes)
	if err != nil {
		return "", fmt.Errorf("keep the altered file: %w", err)
	}
	return "the file as it was altered is kept as " + path, nil
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
		r.note("the file was removed meanwhile and stays so; `tgctl unwrap " + r.j.Path + "` puts back " + r.j.Backup)
		return nil
	case err != nil || digest(backup.data) != r.j.Original && digest(backup.data) != r.j.Written: // by a swap that was cut short
		r.report.Backup = r.j.Backup
		r.note(r.j.Backup + " is not the backup that was made, and stays")
		return nil
	}
	return r.j.Notes.removeBackup(r.j.Target, r.j.Backup, r.step)
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

// taken is a text from which our lines were taken.
type taken struct {
	text    []byte
	lines   int      // how many entries had to be changed
	notes   []string // what a person should know
	altered bool     // something that somebody wrote had to give way
	foreign bool     // there are lines of other sessions, which stay
}

// taker takes our lines out of a document, entry by entry: three-way, in that
// what else was written into it since stays.
type taker struct {
	doc     *edit.Document
	before  []entryWas
	session string // whose lines; empty for anybody's
	shim    string // empty: whatever goes by the shim's name
	ops     []edit.Op
	out     taken
}

// takeBack returns doc without the lines of a session. before says how the
// entries were; lines that stand elsewhere, such as copies that the agent made,
// are taken out by what they themselves say.
func takeBack(doc *edit.Document, before []entryWas, session, shim string) (taken, error) {
	t := &taker{doc: doc, before: before, session: session, shim: shim}
	if err := t.doubt(); err != nil {
		return t.out, err
	}
	for _, w := range before {
		t.entry(w)
	}
	t.strays(doc.Root(), nil)
	text, err := doc.Edit(t.ops...)
	t.out.text = text
	return t.out, err
}

// entry takes the line out of one entry that was rewritten.
func (t *taker) entry(w entryWas) {
	n := w.Form.of(t.doc.At(w.Path))
	switch {
	case !n.Exists():
		t.note("%s was removed meanwhile and stays so", w.ID)
	case t.others(n):
		t.out.foreign = true
	case t.unwrap(n, w.Path, &w):
	case t.same(n.command(), w.Command) && t.same(n.args(), w.Args) && !t.marked(n): // somebody was before us
	case t.traces(n):
		t.putBack(n, w)
	default:
		t.note("%s was replaced meanwhile and stays as it is now", w.ID)
	}
}

// others reports whether the line in n is another session's: one that came after
// this one, and perhaps is to stay.
func (t *taker) others(n server) bool {
	session := n.env().Member(envSession)
	return t.session != "" && session.Exists() && session.Text() != t.session
}

// traces reports whether anything of ours is left in n.
func (t *taker) traces(n server) bool {
	words, _ := shimWords(n.behind())
	return t.starts(n) || words > 0 || t.marked(n)
}

// marked reports whether variables of ours are in the environment of n.
func (t *taker) marked(n server) bool { return setsOurs(n) }

// starts reports whether n starts the shim.
func (t *taker) starts(n server) bool {
	command := n.program()
	return command.Kind() == edit.String && (command.Text() == t.shim || filepath.Base(command.Text()) == shimName)
}

// unwrap takes a whole line of ours out of n, by what it says itself. w, when
// not nil, knows what was not there before at all. It reports false when there
// is no such line.
func (t *taker) unwrap(n server, path []string, w *entryWas) bool {
	words, _ := shimWords(n.behind())
	if !t.starts(n) || words == 0 {
		return false
	}
	c := &changes{entry: n.Node, path: path}
	if n.form.isList() { // the shim goes, and our words but the program that follows them
		c.do(edit.DropItems(c.at(n.form.Command), words))
	} else {
		t.moveBack(c, n, words, w)
	}
	t.clear(c, n, w)
	t.out.lines++
	return true
}

// moveBack makes the last of our words the command again, and takes out the
// others.
func (t *taker) moveBack(c *changes, n server, words int, w *entryWas) {
	items := n.args().Items()
	command := items[words-1].Written()
	if w != nil && (w.Command == "" || t.same(items[words-1], w.Command)) { // the agent may spell the same string in another way
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

// clear puts limits back that were raised in n, takes our variables out of its
// environment, and takes up these changes and those in c.
func (t *taker) clear(c *changes, n server, w *entryWas) {
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

// strays looks everywhere else for lines of ours.
func (t *taker) strays(n edit.Node, path []string) {
	if t.stray(n, path) {
		return
	}
	for step, kid := range n.Children() {
		t.strays(kid, append(slices.Clone(path), step))
	}
}

// stray takes the line out of n if it is one that nobody put there for the
// agent to keep.
func (t *taker) stray(n edit.Node, path []string) bool {
	if n.Kind() != edit.Object || slices.ContainsFunc(t.before, func(w entryWas) bool { return slices.Equal(w.Path, path) }) {
		return false
	}
	s := formed(n)
	words, id := shimWords(s.behind())
	if t.session != "" && s.env().Member(envSession).Text() != t.session {
		t.out.foreign = t.out.foreign || t.starts(s) && words > 0
		return false
	}
	var origin *entryWas
	for i := range t.before {
		if t.before[i].ID == id {
			origin = &t.before[i]
		}
	}
	if !t.unwrap(s, path, origin) {
		return false
	}
	if t.session != "" {
		t.note("a copy of our line at %s was taken back too", edit.Pointer(path))
	}
	return true
}

func (t *taker) note(format string, args ...any) {
	t.out.notes = append(t.out.notes, fmt.Sprintf(format, args...))
}

func (t *taker) same(n edit.Node, text string) bool { return same(n, text, t.doc.Syntax()) }

// same reports whether n has the value that a text stands for in a syntax; an
// empty text stands for no value.
func same(n edit.Node, text string, syntax edit.Syntax) bool {
	if text == "" || !n.Exists() {
		return text == "" && !n.Exists()
	}
	value, err := syntax.Value(text)
	return err == nil && edit.Equal(n, value)
}

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
	c := &changes{entry: n.Node, path: w.Path}
	c.put(n.form.Command, w.Command)
	c.put(n.form.Args, w.Args)
	t.clear(c, n, &w)
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
