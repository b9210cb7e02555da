package agentconf

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// Governing is a way to have an agent's servers started through tg-shim: a [Plan], which
// rewrites its files, or a [Pointing], which doesn't. Methods must be called in the same order
// as Plan's.
type Governing interface {
	Agent() string
	Warnings() []string
	Paths() []string
	Entries() []*Entry
	Left() []Left
	Remotes() []Remote
	Shipped() []ProjectServer
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

	// How describes for the person how the agent is governed, after Prepare. It is empty for a
	// rewrite.
	How() string
	// Launch returns the command line and the environment for starting the agent, derived from
	// the original ones.
	Launch(argv, environ []string) ([]string, []string)
	// HooksTools reports whether the agent's own tools are governed, too.
	HooksTools() bool
}

// Launch returns its arguments: the agent reads the rewritten files.
// If it takes hooks by a flag, they are added.
func (p *Plan) Launch(argv, environ []string) ([]string, []string) {
	if p.hookFlag != "" {
		argv = slices.Concat(argv[:1], []string{p.hookFlag + "=" + p.hookSettings()}, argv[1:])
	}
	return argv, environ
}

// How returns "" for a rewrite, which is usual, and a text if no file has to be rewritten.
func (p *Plan) How() string {
	switch {
	case p.hookFlag != "":
		return "its hooks are set by " + p.hookFlag + "=" + p.hookSettings()
	case len(p.files) == 0:
		return "its files are not changed; a protection has rewritten them"
	}
	return ""
}

// Pointing makes one start of an agent use tg-shim for its servers, by a flag or a variable. It
// changes none of its files. It writes at most a private copy, in the session's own folder,
// which also has the lock. The daemon removes both when the session has ended for any reason.
//
// An agent may have any number of Pointings at the same time.
type Pointing struct {
	*Plan
	to     pointer
	found  *Found
	folder string // of the session; empty before Lock
	parent string
	lock   *fileLock
	out    *pointed
}

const (
	copyName      = "mcp.json"
	pointLockName = "lock"
)

// IsTold reports whether an agent can be told about its servers for one start, but not about hooks.
func IsTold(agent Agent) bool {
	_, told := agent.(pointer)
	_, hooks := agent.(hookTeller)
	return told && !hooks
}

// Point returns a Pointing, which does without a rewrite. If that is not possible, it returns
// nil and the reason in why, and p must be used. parent is the folder for the folders of
// sessions. The error reports that neither is possible.
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
	case slices.ContainsFunc(p.files, func(f *planned) bool { return f.hooks != nil }):
		why = "its hooks are named in a file"
	case p.env.Config != "":
		why = "--config-path names a file"
	case name != p.agent.Name():
		why = "the command may not pass it on to the agent"
	case kindOf(p.agent.Name()).merges.servers != nil && len(p.Remotes()) > 0:
		why = "it merges settings, and would still see the address of " + p.Remotes()[0].Server
	default:
		why = to.unfaithful(p.env, found)
	}
	if slices.ContainsFunc(p.Entries(), func(e *Entry) bool { return e.Protected }) {
		why = "it is protected, so its files already have tg-shim entries"
	}
	if why != "" {
		return nil, why, p.CheckUnreached()
	}
	return &Pointing{Plan: p, to: to, found: found, parent: parent}, "", nil
}

// CheckUnreached returns an error if servers would be started that no rewrite of files can govern.
func (p *Plan) CheckUnreached() error {
	if p.unreached == "" {
		return nil
	}
	return fmt.Errorf("%s, which a rewrite of files does not change", p.unreached)
}

// Lock makes the session's folder and takes its lock. The agent's own files need no lock. Lock
// also removes folders that killed sessions left.
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

// Unlock releases the lock and removes the folder.
func (p *Pointing) Unlock() {
	if p.lock == nil {
		return
	}
	p.lock.release()
	p.lock = nil
	p.step("unlocked")
}

// Backup does nothing, because no file is changed.
func (p *Pointing) Backup() error { return nil }

// Prepare determines the arguments or variable for the agent.
func (p *Pointing) Prepare(line Line) error {
	err := p.setLine(line)
	if err == nil {
		p.out, err = p.work(p.found)
	}
	return err
}

func (p *Pointing) work(found *Found) (*pointed, error) {
	out, err := p.to.point(p.env, found, p.line, p.copyPath())
	if err == nil && len(out.value) > maxVariableBytes {
		err = fmt.Errorf("the value of the variable %s would be too long; to rewrite the files instead, use --rewrite", out.name)
	}
	return out, err
}

// Journals returns what to remove later. There is a journal for each file that servers come
// from, so that these files are known.
func (p *Pointing) Journals() ([]Journal, error) {
	if p.out == nil || p.lock == nil {
		return nil, errors.New("the session is not locked or not prepared")
	}
	var out []Journal
	for _, path := range p.Paths() {
		text, err := json.Marshal(pointJournal{Version: pointVersion, Agent: p.Agent(), Path: path, Folder: p.folder, Session: p.line.Session})
		if err != nil {
			return nil, err
		}
		out = append(out, Journal{path, text})
	}
	return out, nil
}

// Apply writes the copy. It reads the agent's files again, so that it does not miss a server
// that was just added.
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
	for _, f := range p.files { // so that Drift does not report their entries
		f.before = nil
		for _, s := range found.Sources {
			if s.file.path == f.file.path {
				f.before = accounted(s)
			}
		}
	}
	if p.out.copy != nil {
		if err := writeCopy(p.copyPath(), p.out.copy); err != nil {
			return err
		}
	}
	p.step("applied")
	return nil
}

// accounted returns the entries of a file that the agent was given.
func accounted(s *Source) []originalEntry {
	var out []originalEntry
	for _, e := range s.Entries {
		out = append(out, originalEntry{Path: e.Path, ID: e.ID})
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

// Drift returns the servers that were added to the agent's files. A changed entry does not
// affect the agent, which uses the servers it was given.
func (p *Pointing) Drift() ([]Drift, error) {
	all, err := p.Plan.Drift()
	return slices.DeleteFunc(all, func(d Drift) bool { return d.How == Changed }), err
}

// Adopt always fails: the agent can't be given more servers.
func (p *Pointing) Adopt(func([]Journal) error) error {
	return errors.New("the agent's files are not rewritten in this session")
}

// Diff returns the copy, as a new file.
func (p *Pointing) Diff() string {
	if p.out.copy == nil {
		return ""
	}
	return udiff.Unified("/dev/null", p.copyPath(), "", string(p.out.copy))
}

func (p *Pointing) copyPath() string {
	return filepath.Join(p.parent, p.line.Session, copyName)
}

// How returns the flag or variable that the agent is given.
func (p *Pointing) How() string {
	if p.out.name != "" {
		return "its files are not changed; its servers are set by " + p.out.name + "=" + p.out.value
	}
	return "its files are not changed; its servers are set by " + strings.Join(p.out.args, " ")
}

// Launch adds the flag or variable to the command line and environment.
func (p *Pointing) Launch(argv, environ []string) ([]string, []string) {
	argv = slices.Concat(argv[:1], p.out.args, argv[1:])
	if p.out.name == "" {
		return argv, environ
	}
	assignment := p.out.name + "="
	environ = slices.DeleteFunc(slices.Clone(environ), func(entry string) bool { return strings.HasPrefix(entry, assignment) })
	return argv, append(environ, assignment+p.out.value)
}

// pointer is an agent that can be told by a flag or variable, for one start, how to start its
// servers.
type pointer interface {
	// unfaithful says why that would not work this time: the agent would start a server
	// ungoverned, or not what it starts otherwise. It is empty if it works.
	unfaithful(Env, *Found) string
	// point determines what the agent is given. copyPath is the path of the copy, if one is
	// needed.
	point(env Env, found *Found, line Line, copyPath string) (*pointed, error)
}

// pointed is what an agent is given for one start.
type pointed struct {
	args  []string // arguments directly after the program
	name  string   // of a variable, empty for none
	value string   // of the variable
	copy  []byte   // content of a file, nil for none
}

// maxVariableBytes is the maximum length of a variable's value in bytes. Linux accepts 128 KiB,
// including the name.
const maxVariableBytes = 120 << 10

// writeCopy writes a new file that only its owner can read, and syncs it.
func writeCopy(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// plain returns the text of a value as strict JSON, without comments and trailing commas.
func plain(n edit.Node) string {
	var parts []string
	switch n.Kind() {
	case edit.Object:
		for name, value := range n.Members() {
			parts = append(parts, name.Raw()+": "+plain(value))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case edit.Array:
		for _, item := range n.Items() {
			parts = append(parts, plain(item))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return n.Raw()
}

// strongest calls yield for the strongest entry of each name.
func (f *Found) strongest(yield func(*Entry) bool) {
	seen := map[string]bool{}
	for _, e := range f.order {
		if !seen[e.ID] && !yield(e) {
			return
		}
		seen[e.ID] = true
	}
}

// tooLow returns the limits that must be raised for the server at path. The strongest file that
// has a limit counts; a limit that no file has is included unless lax.
func tooLow(strongestFirst []*Source, path []string, limits []limit) []limit {
	var out []limit
	for _, l := range limits {
		setting := edit.Node{}
		for _, s := range strongestFirst {
			if n := s.doc.At(path); n.Member(l.key).Exists() {
				setting = n
				break
			}
		}
		if len(raised(setting, []limit{l})) > 0 {
			out = append(out, l)
		}
	}
	return out
}

// pointJournal says what is left to do after the session of a [Pointing]: its folder and the
// files in it must be removed. There is one journal for each file that servers came from; that
// file is not changed.
type pointJournal struct {
	Version int    `json:"pointed"`
	Agent   string `json:"agent"`
	Path    string `json:"path"`   // the agent's own file
	Folder  string `json:"folder"` // of the session
	Session string `json:"session"`
}

// pointVersion is increased when an older program could not process a newer journal.
const pointVersion = 1

// parsePointed parses the journal of a [Pointing], or returns nil for another journal. Its
// content comes from a client, so the name of the folder must be the session's id.
func parsePointed(text []byte) (*pointJournal, error) {
	var j pointJournal
	if err := json.Unmarshal(text, &j); err != nil || j.Version == 0 {
		return nil, nil // the next parser reports the error
	}
	if j.Version != pointVersion {
		return nil, fmt.Errorf("read journal: unsupported version %d; this program supports version %d", j.Version, pointVersion)
	}
	if !filepath.IsAbs(j.Folder) || j.Session == "" || filepath.Base(j.Folder) != j.Session || strings.Trim(j.Session, "0123456789abcdef") != "" {
		return nil, errors.New("read journal: the session's folder is missing")
	}
	return &j, nil
}

func (j *pointJournal) lockPath() string { return filepath.Join(j.Folder, pointLockName) }

func (j *pointJournal) paths() []string {
	return []string{j.Path, j.Folder, filepath.Join(j.Folder, copyName)}
}

func (j *pointJournal) settled() bool {
	_, err := os.Lstat(j.Folder)
	return errors.Is(err, fs.ErrNotExist)
}

// take takes the lock. Releasing it removes the folder.
func (j *pointJournal) take() (*fileLock, error) {
	l, err := takeLockOnce(j.lockPath(), j.Folder, holder{Session: j.Session, Brief: true})
	if err == nil {
		l.folder = j.Folder
	}
	return l, err
}

func (j *pointJournal) restore(func(string)) (Report, error) {
	return Report{State: Untouched}, removeCopy(j.Folder)
}

// removeCopy removes the copy from a session's folder, and nothing else.
func removeCopy(folder string) error {
	if err := os.Remove(filepath.Join(folder, copyName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the copy of the session: %w", err)
	}
	return nil
}

// SweepPointed removes what killed sessions left in parent, the folder for the folders of
// sessions, and returns the removed folders. Running sessions hold their locks.
func SweepPointed(parent string) (removed []string) {
	folders, _ := os.ReadDir(parent)
	for _, f := range folders {
		j := &pointJournal{Folder: filepath.Join(parent, f.Name()), Session: f.Name()}
		if _, err := os.Lstat(j.lockPath()); err != nil {
			continue // it is being made
		}
		unlock, err := lockToRestore(j)
		if err != nil {
			continue
		}
		if removeCopy(j.Folder) == nil {
			removed = append(removed, j.Folder)
		}
		unlock()
	}
	return removed
}
