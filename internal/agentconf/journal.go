package agentconf

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// journalVersion is increased when an older program could not restore from a newer journal. It is
// that of a journal with entries with an address. hooksVersion is that of any other with entries for
// hooks; the rest have the one before.
const (
	journalVersion = 4
	hooksVersion   = 3
)

// fileJournal has everything needed to restore one file. It holds the original commands and
// arguments, which may be secret, but no environment.
type fileJournal struct {
	Version    int                `json:"v"`
	Agent      string             `json:"agent"`
	Syntax     string             `json:"syntax,omitempty"` // name in package edit; empty for json
	Path       string             `json:"path"`             // as the agent knows it
	Target     string             `json:"target"`           // path without links: the file that is rewritten
	Backup     string             `json:"backup"`
	Lock       string             `json:"lock"`
	AgentLocks []string           `json:"agent_locks,omitempty"`
	Original   string             `json:"original"` // hex SHA-256 of the original file
	Written    string             `json:"written"`  // and of the rewritten file
	Line       Line               `json:"line"`     // what was inserted
	Entries    []originalEntry    `json:"entries"`
	Notes      notebook           `json:"notes,omitempty"`
	Beside     bool               `json:"beside,omitempty"` // the file had lines of protections before, which stay
	Superseded []supersededBackup `json:"superseded,omitempty"`
	Made       string             `json:"made,omitempty"` // hex SHA-256 of the text that stands for no file, which there was before; empty if there was one
}

// supersededBackup is a backup that was replaced by a newer one and has not been removed yet.
type supersededBackup struct {
	Path     string `json:"path"`
	Original string `json:"original"` // hex SHA-256 of its content
}

// originalEntry is the original of one entry. Values are texts in the syntax of the file, empty if
// absent.
type originalEntry struct {
	Path    []string    `json:"path"`
	ID      string      `json:"id"`
	Command string      `json:"command"`
	Args    string      `json:"args,omitempty"`
	Env     originalEnv `json:"env,omitempty"`

	Form      form            `json:"form,omitzero"`
	Inherited []string        `json:"inherited,omitempty"` // arguments from a weaker scope that were added after our words
	Limits    []originalLimit `json:"limits,omitempty"`

	// Whole is the complete text of an entry with an address, and Gone the names of the members that
	// only such an entry has. Command and Args are empty then.
	Whole string   `json:"whole,omitempty"`
	Gone  []string `json:"gone,omitempty"`

	// Quoted reports that the texts in a journal are quoted like Go strings: text in a file may
	// be invalid Unicode, which JSON can't represent.
	Quoted bool `json:"quoted,omitempty"`

	// Hooks says that this is the original of a file's hooks, and Made which lists and objects
	// were made for our entries.
	Hooks bool       `json:"hooks,omitempty"`
	Made  [][]string `json:"made,omitempty"`
}

// texts returns a copy of w in which do was applied to each text from the file.
func (w originalEntry) texts(do func(string) string) originalEntry {
	all := func(list []string) []string {
		list = slices.Clone(list)
		for i := range list {
			list[i] = do(list[i])
		}
		return list
	}
	w.Path, w.Inherited, w.Limits = all(w.Path), all(w.Inherited), slices.Clone(w.Limits)
	w.Whole = do(w.Whole)
	w.ID, w.Command, w.Args, w.Env = do(w.ID), do(w.Command), do(w.Args), originalEnv(do(string(w.Env)))
	for i := range w.Limits {
		w.Limits[i].Was = do(w.Limits[i].Was)
	}
	return w
}

// MarshalJSON implements [json.Marshaler].
func (w originalEntry) MarshalJSON() ([]byte, error) {
	sound := true
	w.texts(func(text string) string { sound = sound && utf8.ValidString(text); return text })
	if !sound {
		w = w.texts(strconv.Quote)
		w.Quoted = true
	}
	type plain originalEntry
	return json.Marshal(plain(w))
}

// UnmarshalJSON implements [json.Unmarshaler].
func (w *originalEntry) UnmarshalJSON(text []byte) error {
	type plain originalEntry
	if err := json.Unmarshal(text, (*plain)(w)); err != nil || !w.Quoted {
		return err
	}
	var failed error
	*w = w.texts(func(text string) string {
		inner, err := strconv.Unquote(text)
		failed = errors.Join(failed, err)
		return inner
	})
	w.Quoted = false
	return failed
}

// originalEnv is the original environment of an entry without its content: "" if there was none,
// envObject, or the text of a null. It is the whole text only if the environment had variables
// of ours, because these are replaced.
type originalEnv string

const envObject originalEnv = "object"

func (j *fileJournal) syntax() edit.Syntax { return syntaxNamed(j.Syntax) }

func parseJournal(text []byte) (*fileJournal, error) {
	var j fileJournal
	if err := json.Unmarshal(text, &j); err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	return &j, j.check()
}

func (j *fileJournal) check() error {
	if j.Version < 1 || j.Version > journalVersion {
		return fmt.Errorf("read journal: unsupported version %d; this program supports versions up to %d", j.Version, journalVersion)
	}
	if j.Target == "" || j.Lock == "" || j.Line.Session == "" {
		return fmt.Errorf("read journal: file, lock or session is missing")
	}
	return nil
}

// was returns the entry as it is before the rewrite.
func (e *Entry) was(doc *edit.Document) originalEntry {
	n := e.form.of(doc.At(e.Path))
	if e.Remote != nil {
		return e.wasRemote(n)
	}
	w := originalEntry{Path: e.Path, ID: e.ID, Command: n.command().Raw(), Args: n.args().Written(), Limits: raised(n.Node, e.limits)}
	if n.form != usualForm {
		w.Form = n.form
	}
	switch n.env().Kind() {
	case edit.Object:
		w.Env = envObject
		if setsOurs(n) {
			w.Env = originalEnv(n.env().Written())
		}
	case edit.Null:
		w.Env = originalEnv(n.env().Written())
	}
	if !n.args().Exists() && !n.form.isList() {
		w.Inherited = e.Args
	}
	return w
}

// setsOurs reports whether an entry sets variables that are reserved for us.
func setsOurs(n server) bool {
	return n.env().Member(envSocket).Exists() || n.env().Member(envSession).Exists()
}

// whole reports whether w is the text of an environment.
func (w originalEnv) whole() bool { return strings.HasPrefix(string(w), "{") }

// TryLock takes the lock of the file of a journal without waiting. If another process holds the
// lock, such as a running wrap or one that is restoring, held is true. Otherwise the caller
// must call unlock when it is done, which also removes the lock file. If nothing is left to
// restore, no lock is taken.
func TryLock(journal []byte) (unlock func(), held bool, err error) {
	j, err := parseAny(journal)
	if err != nil {
		return nil, false, err
	}
	unlock, err = lockToRestore(j)
	if _, held = errors.AsType[*LockedError](err); held {
		err = nil
	}
	return unlock, held, err
}

// undoing is a [fileJournal] or a [pointJournal].
type undoing interface {
	settled() bool // nothing is left to do
	take() (*fileLock, error)
	restore(step func(string)) (Report, error)
	paths() []string
}

func parseAny(journal []byte) (undoing, error) {
	if p, err := parsePointed(journal); p != nil || err != nil {
		return p, err
	}
	return parseJournal(journal)
}

// lockToRestore is TryLock, but the error is a *[LockedError] if another process holds the lock.
func lockToRestore(j undoing) (unlock func(), err error) {
	for !j.settled() {
		l, err := j.take()
		switch {
		case errors.Is(err, errVanished):
			continue
		case errors.Is(err, fs.ErrNotExist): // the folder with all its files was removed
			return func() {}, nil
		case err != nil:
			return nil, err
		}
		return l.release, nil
	}
	return func() {}, nil
}

// JournalPaths returns all files that a journal concerns: the configuration as the agent knows
// it and without links, the backup, and the lock.
func JournalPaths(journal []byte) ([]string, error) {
	j, err := parseAny(journal)
	if err != nil {
		return nil, err
	}
	return j.paths(), nil
}

func (j *fileJournal) paths() []string { return []string{j.Path, j.Target, j.Backup, j.Lock} }

func (j *fileJournal) take() (*fileLock, error) {
	return takeLockOnce(j.Lock, j.Path, holder{Session: j.Line.Session, Brief: true, notes: j.Notes})
}

// settled reports whether nothing is left to do for the session of a journal: there is no lock
// file and no backup, and the file has no line of the session.
func (j *fileJournal) settled() bool {
	for _, path := range []string{j.Lock, j.Backup} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	if _, err := os.Lstat(j.Target); j.Made != "" && errors.Is(err, fs.ErrNotExist) {
		return true
	}
	if real, err := filepath.EvalSymlinks(j.Path); err != nil || real != j.Target {
		return false
	}
	now, err := readFile(j.Target)
	if err != nil {
		return false
	}
	if digest(now.data) == j.Original {
		return j.Made == ""
	}
	doc, err := j.syntax().Read(now.data)
	if err != nil {
		return false
	}
	out, err := removeLines(doc, j.Entries, j.Line.Session, j.Line.Shim)
	return err == nil && out.lines == 0
}
