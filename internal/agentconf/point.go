package agentconf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Governing is one way of having an agent's servers started through the shim: a
// [Plan], which rewrites its files, or a [Pointing], which leaves them alone.
// Methods are called in the order of Plan's.
type Governing interface {
	Agent() string
	Warnings() []string
	Paths() []string
	Entries() []*Entry
	Shipped() []Shipped
	Lock(session string) error
	Backup() error
	Prepare(Line) error
	Journals() ([]Journal, error)
	Apply() error
	Drift() ([]Drift, error)
	Stamp() string
	Adopt(commit func([]Journal) error) error
	Restore() ([]Report, error)
	Unlock()
	Diff() string

	// How says in words for the person what is done, once it is prepared; empty
	// for a rewrite.
	How() string
	// Launch returns the command line and the environment that the agent is to
	// be started with, made of those that it would be without us.
	Launch(argv, environ []string) ([]string, []string)
}

// Launch changes nothing: the agent reads the files that were rewritten.
func (p *Plan) Launch(argv, environ []string) ([]string, []string) { return argv, environ }

// How is empty, as a rewrite is the usual way, unless nothing has to be rewritten.
func (p *Plan) How() string {
	if len(p.files) == 0 {
		return "its files stay as they are; they hold lines of ours that last"
	}
	return ""
}

// Pointing has an agent start its servers through the shim for one start, by a
// flag or a variable, and touches none of its files. What is written is a
// private copy at most, in a folder of the session's own, which the lock lies in
// too: the daemon removes both when the session is over, however it ended.
//
// Of one agent there may be any number at once.
type Pointing struct {
	*Plan
	to     pointer
	found  *Found
	folder string // of the session; empty before it is known
	parent string
	line   Line
	lock   *fileLock
	out    *pointed
}

const (
	copyName      = "mcp.json"
	pointLockName = "lock"
)

// Point returns the other way to do what p would: without a rewrite. Where that
// cannot be had, why says so, and p it is. parent is the folder for the folders
// of sessions. The error is that there is no way at all.
func (p *Plan) Point(parent string) (way *Pointing, why string, err error) {
	to, can := p.agent.(pointer)
	if !can {
		return nil, "", nil
	}
	found, err := p.find()
	if err != nil {
		return nil, "", err
	}
	name, _ := Detect(p.env.Command)
	switch {
	case p.env.Config != "":
		why = "a file was named"
	case name != p.agent.Name():
		why = "whether the command hands on what it is told is not known"
	default:
		why = to.unfaithful(p.env, found)
	}
	if slices.ContainsFunc(p.Entries(), func(e *Entry) bool { return e.Protected }) {
		why = "it is protected, and its files hold our lines already"
	}
	if why != "" {
		return nil, why, p.Reaches()
	}
	return &Pointing{Plan: p, to: to, found: found, parent: parent}, "", nil
}

// Reaches is an error when servers would be started that no rewrite of files can
// govern.
func (p *Plan) Reaches() error {
	if p.unreached == "" {
		return nil
	}
	return fmt.Errorf("%s, which a rewrite of files does not reach", p.unreached)
}

// Lock makes the session's folder and takes its lock. The agent's own files need
// none. What killed sessions left beside it is removed.
func (p *Pointing) Lock(session string) error {
	if err := os.MkdirAll(p.parent, 0o700); err != nil {
		return err
	}
	SweepPointed(p.parent)
	p.folder = filepath.Join(p.parent, session)
	if err := os.Mkdir(p.folder, 0o700); err != nil {
		return err
	}
	var err error
	if p.lock, err = takeLock(filepath.Join(p.folder, pointLockName), p.folder, holder{Session: session}); err != nil {
		_ = os.Remove(p.folder)
		return err
	}
	p.lock.folder = p.folder
	p.step("locked")
	return nil
}

// Unlock gives up the lock, and the folder with it.
func (p *Pointing) Unlock() {
	if p.lock == nil {
		return
	}
	p.lock.release()
	p.lock = nil
	p.step("unlocked")
}

// Backup does nothing: there is nothing to lose.
func (p *Pointing) Backup() error { return nil }

// Prepare works out what the agent will be told.
func (p *Pointing) Prepare(line Line) error {
	line.Shim = p.shim
	if err := line.check(); err != nil {
		return err
	}
	p.line = line
	var err error
	p.out, err = p.work(p.found)
	return err
}

func (p *Pointing) work(found *Found) (*pointed, error) {
	folder := p.folder
	if folder == "" { // only to show it
		folder = filepath.Join(p.parent, p.line.Session)
	}
	out, err := p.to.point(p.env, found, p.line, filepath.Join(folder, copyName))
	if err == nil && len(out.value) > mostInVariable {
		err = fmt.Errorf("there is too much for the variable %s; have the files rewritten, with --rewrite", out.name)
	}
	return out, err
}

// Journals returns what is to be removed again, a journal for each file that the
// servers come from: so that it is known which those are.
func (p *Pointing) Journals() ([]Journal, error) {
	if p.out == nil || p.lock == nil {
		return nil, errors.New("the session is not locked or not prepared")
	}
	var out []Journal
	for _, path := range p.Paths() {
		text, err := (&pointJournal{Version: pointVersion, Agent: p.Agent(), Path: path, Folder: p.folder, Session: p.line.Session}).text()
		if err != nil {
			return nil, err
		}
		out = append(out, Journal{path, text})
	}
	return out, nil
}

// Apply writes the copy. What the files say is read once more: a server that
// came into them a moment ago must not be missed.
func (p *Pointing) Apply() error {
	found, err := p.find()
	if err != nil {
		return err
	}
	if why := p.to.unfaithful(p.env, found); why != "" {
		return fmt.Errorf("%w: %s; try again", errChanged, why)
	}
	if p.out, err = p.work(found); err != nil {
		return err
	}
	for _, f := range p.files { // for Drift: these are accounted for
		f.before = nil
		for _, s := range found.Sources {
			if s.file.path == f.file.path {
				f.before = accounted(s)
			}
		}
	}
	if p.out.copy != nil {
		if err := writeCopy(filepath.Join(p.folder, copyName), p.out.copy); err != nil {
			return err
		}
	}
	p.step("applied")
	return nil
}

// accounted are the entries of a file that the agent was told about.
func accounted(s *Source) []entryWas {
	var out []entryWas
	for _, e := range s.Entries {
		out = append(out, entryWas{Path: e.Path, ID: e.ID})
	}
	return out
}

// Restore removes the copy.
func (p *Pointing) Restore() ([]Report, error) {
	if p.folder == "" {
		return nil, nil
	}
	err := removeCopy(p.folder)
	p.step("copy removed")
	return nil, err
}

// Drift tells of servers that came into the agent's files since. What changed in
// those that were there does not reach the agent: it was told of them.
func (p *Pointing) Drift() ([]Drift, error) {
	all, err := p.Plan.Drift()
	return slices.DeleteFunc(all, func(d Drift) bool { return d.How == Changed }), err
}

// Adopt can do nothing: the agent was told all that it is told.
func (p *Pointing) Adopt(func([]Journal) error) error {
	return errors.New("the agent's files are left alone in this session")
}

// Diff shows the copy, as a new file.
func (p *Pointing) Diff() string {
	if p.out.copy == nil {
		return ""
	}
	text := strings.TrimSuffix(string(p.out.copy), "\n")
	return fmt.Sprintf("--- /dev/null\n+++ %s\n@@ -0,0 +1,%d @@\n+%s\n", p.copyPath(), 1+strings.Count(text, "\n"),
		strings.ReplaceAll(text, "\n", "\n+"))
}

func (p *Pointing) copyPath() string {
	return filepath.Join(p.parent, p.line.Session, copyName)
}

// How says what the agent is told, and where.
func (p *Pointing) How() string {
	if p.out.name != "" {
		return "its files stay as they are; it is told by " + p.out.name + "=" + p.out.value
	}
	return "its files stay as they are; it is told by " + strings.Join(p.out.args, " ")
}

// Launch puts in what the agent is told.
func (p *Pointing) Launch(argv, environ []string) ([]string, []string) {
	argv = slices.Concat(argv[:1], p.out.args, argv[1:])
	if p.out.name == "" {
		return argv, environ
	}
	assignment := p.out.name + "="
	environ = slices.DeleteFunc(slices.Clone(environ), func(entry string) bool { return strings.HasPrefix(entry, assignment) })
	return argv, append(environ, assignment+p.out.value)
}
