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

	"github.com/thoughtgate/thoughtgated/internal/edit"
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
		return l, dropSuperseded(l.Journal)
	}
	next, err := p.secure(l, keep)
	if err != nil {
		return nil, errors.Join(err, p.dropNewBackups())
	}
	p.step("journal stored")
	if err := p.Apply(); err != nil {
		return next, err
	}
	return next, dropSuperseded(next.Journal)
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
		if !f.altered {
			continue
		}
		said, err := f.file.keepAltered(p.notes())
		if err != nil {
			return err
		}
		p.step("altered kept")
		p.warnings = append(p.warnings, said)
	}
	return nil
}

// renewed is l with the journals of this plan in the place of older ones of the
// same files.
func (p *Plan) renewed(l *Protection) *Protection {
	next := *l
	next.Journal = nil
	for _, j := range l.Journal {
		if !slices.ContainsFunc(p.files, func(f *planned) bool { return f.file.path == j.Target }) {
			next.Journal = append(next.Journal, j)
		}
	}
	for _, f := range p.files {
		next.Journal = append(next.Journal, f.j)
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
			failed = append(failed, p.notes().dropCopy(f.file.path, f.backup, digest(f.base.data)))
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
	return b.removeBackup(target, path, func(string) {})
}

// removeBackup removes a backup, and the note of it.
func (b notebook) removeBackup(target, path string, step func(string)) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the backup: %w", err)
	}
	step("backup removed")
	return errors.Join(b.forget(target, path), syncFolder(filepath.Dir(path)))
}

// protectionVersion is raised when an older program could not undo what a newer
// one has protected.
const protectionVersion = 1

// Protection is a rewrite that lasts: every start of the agent is governed until
// somebody takes it back. It says what it takes to make the rewrite again, should
// the agent have dropped our lines, and what undoes it. It holds commands and
// arguments of servers, which may be secret.
type Protection struct {
	Version int            `json:"v"`
	ID      string         `json:"id"` // what the lines say in the place of a session
	Agent   string         `json:"agent"`
	Where   Where          `json:"where"`
	Line    Line           `json:"line"`
	Repair  bool           `json:"repair"` // the person agreed that lost lines are put back
	Journal []*fileJournal `json:"files"`  // of each file that is rewritten
}

// Where is what decides which files an agent reads, so that a daemon, whose
// environment is another, looks at those that the person's agent reads.
type Where struct {
	Home   string            `json:"home"`
	Config string            `json:"config,omitempty"` // the only file, as of --config-path
	Vars   map[string]string `json:"vars,omitempty"`
	Notes  string            `json:"notes,omitempty"` // see [Env]
	Own    bool              `json:"own,omitempty"`   // OwnOnly of Env
}

// NewProtection returns a protection of no file yet: see [Plan.Protect]. Of env
// it keeps the home, the one file if there is one, and the variables by which
// the agent finds its files.
func NewProtection(id string, agent Agent, env Env, line Line) *Protection {
	vars := map[string]string{}
	env.Cwd = anywhere
	lookup := env.LookupEnv
	env.LookupEnv = func(name string) (string, bool) {
		value, set := lookup(name)
		if filepath.IsAbs(value) { // a path, and no secret
			vars[name] = value
		}
		return value, set
	}
	agent.Files(env)
	line.Session = id
	return &Protection{
		Version: protectionVersion, ID: id, Agent: agent.Name(), Line: line,
		Where: Where{Home: env.Home, Config: env.Config, Vars: vars, Notes: env.Notes, Own: env.OwnOnly},
	}
}

// ParseProtection reads what [Protection.Text] wrote.
func ParseProtection(text []byte) (*Protection, error) {
	var p Protection
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, fmt.Errorf("read protection: %w", err)
	}
	if p.Version != protectionVersion {
		return nil, fmt.Errorf("read protection: it has version %d, and this program knows %d only", p.Version, protectionVersion)
	}
	if p.ID == "" || p.Line.Session != p.ID {
		return nil, errors.New("read protection: its lines do not carry its id")
	}
	if err := p.Line.check(); err != nil {
		return nil, fmt.Errorf("read protection: %w", err)
	}
	for _, j := range p.Journal {
		if j == nil {
			return nil, errors.New("read protection: a journal is missing")
		}
		if err := j.check(); err != nil {
			return nil, fmt.Errorf("read protection: %w", err)
		}
		if j.Line.Session != p.ID || !filepath.IsAbs(j.Target) {
			return nil, fmt.Errorf("read protection: the journal of %q is not its own", j.Path)
		}
	}
	return &p, nil
}

// Text is the protection as it is kept.
func (p *Protection) Text() ([]byte, error) { return json.Marshal(p) }

// wrote reports whether lines that start this shim were put into a file.
func (p *Protection) wrote(shim string) bool {
	return p.Line.Shim == shim || slices.ContainsFunc(p.Journal, func(j *fileJournal) bool { return j.Line.Shim == shim })
}

// Env is where the agent is started, as far as that decides what it reads.
// lookup is asked for variables that the protection does not know.
func (p *Protection) Env(lookup func(string) (string, bool)) Env {
	return Env{
		Home: p.Where.Home, Cwd: anywhere, Config: p.Where.Config, Lasting: []*Protection{p}, Renew: p.ID, Socket: p.Line.Socket, Notes: p.Where.Notes, OwnOnly: p.Where.Own,
		LookupEnv: func(name string) (string, bool) {
			if value, set := p.Where.Vars[name]; set {
				return value, true
			}
			return lookup(name)
		},
	}
}

// Plan is the rewrite as it should be, prepared, with line in each entry. Of all
// protections the others' lines are left alone.
func (p *Protection) Plan(line Line, lookup func(string) (string, bool), all []*Protection) (*Plan, error) {
	agent, err := AgentFor(p.Agent, nil)
	if err != nil {
		return nil, err
	}
	env := p.Env(lookup)
	for _, other := range all {
		if other.ID != p.ID {
			env.Lasting = append(env.Lasting, other)
		}
	}
	plan, err := NewPlan(agent, env, line.Shim)
	if err == nil {
		err = plan.Prepare(line)
	}
	return plan, err
}

// Paths returns the files that are rewritten, as the agent knows them.
func (p *Protection) Paths() []string {
	var paths []string
	for _, j := range p.Journal {
		paths = append(paths, j.Path)
	}
	return paths
}

// Servers returns the names of the servers whose entries are rewritten, each
// once, in order.
func (p *Protection) Servers() []string {
	var names []string
	for _, j := range p.Journal {
		for _, w := range j.Entries {
			names = append(names, w.ID)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Backups returns the copies that the protection keeps beside the files.
func (p *Protection) Backups() []string {
	var paths []string
	for _, j := range p.Journal {
		paths = append(paths, j.Backup)
		for _, old := range j.Superseded {
			paths = append(paths, old.Path)
		}
	}
	return paths
}

// Files returns every file that the protection is about: the configurations and
// where their links lead, the backups, and the locks.
func (p *Protection) Files() []string {
	var paths []string
	for _, j := range p.Journal {
		paths = append(paths, j.paths()...)
	}
	return paths
}

// Watched returns every path whose change can mean that the agent is not
// governed as it should be: all that the agent reads, and where links lead.
func (p *Protection) Watched(lookup func(string) (string, bool)) []string {
	var paths []string
	for _, j := range p.Journal {
		paths = append(paths, j.Path, j.Target)
	}
	if agent, err := AgentFor(p.Agent, nil); err == nil {
		paths = append(paths, agent.Files(p.Env(lookup))...)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// Covers reports whether server is one of those whose entries are rewritten.
func (p *Protection) Covers(server string) bool { return slices.Contains(p.Servers(), server) }

// Busy reports whether somebody is rewriting one of the files, or putting it back,
// at this moment: what stands in them is about to change.
func (p *Protection) Busy() bool {
	return slices.ContainsFunc(p.Journal, func(j *fileJournal) bool {
		var locked *LockedError
		return errors.As(isLocked(j.Lock, j.Path), &locked) && locked.brief
	})
}

// Restore puts every file back, as [Restore] does one. None is touched when one
// of them is in the hands of somebody else; the error is a *[LockedError] then.
// It may be interrupted at any point and called again.
func (p *Protection) Restore() ([]Report, error) {
	return p.restore(func(string) {})
}

func (p *Protection) restore(step func(string)) ([]Report, error) {
	var locks []*fileLock
	defer func() {
		for _, l := range locks {
			l.release()
		}
	}()
	for _, j := range slices.SortedFunc(slices.Values(p.Journal), func(a, b *fileJournal) int { return strings.Compare(a.Target, b.Target) }) {
		if j.settled() {
			continue
		}
		l, err := takeLock(j.Lock, j.Path, holder{Session: p.ID, Brief: true, notes: j.Notes})
		if errors.Is(err, fs.ErrNotExist) {
			continue // the folder is gone, and all in it
		}
		if err != nil {
			return nil, err
		}
		locks = append(locks, l)
	}
	var reports []Report
	var failed []error
	for _, j := range p.Journal {
		report, err := j.restore(step)
		if err != nil {
			err = fmt.Errorf("put %s back: %w", report.Path, err)
		}
		reports, failed = append(reports, report), append(failed, err)
	}
	if err := errors.Join(failed...); err != nil {
		return reports, err
	}
	return reports, dropSuperseded(p.Journal)
}

// anywhere is the working directory of an agent that may be started in any: what
// it reads from there, it reads everywhere.
const anywhere = "/"

// traveller is an agent whose own files hold servers that count in some folders
// only. Folders returns those folders.
type traveller interface {
	Folders(Env) ([]string, error)
}

// ourLine is what stands in an entry that starts the shim.
type ourLine struct {
	shim    string // as written
	session string
	renewed bool // it belongs to what is being made again
}

// seeThrough makes an entry that starts the shim tell of the server behind it:
// that is what the agent's rules, and people's, are about.
func (e *Entry) seeThrough(n server) {
	items := n.behind()
	words, _ := shimWords(items)
	if words == 0 || filepath.Base(n.program().Text()) != shimName {
		return
	}
	e.ours = &ourLine{shim: n.program().Text(), session: n.env().Member(envSession).Text()}
	e.Command, e.Args = items[words-1].Text(), nil
	for _, arg := range items[words:] {
		e.Args = append(e.Args, arg.Text())
	}
}

// starts is the program that the agent starts, which may be ours.
func (e *Entry) starts() string {
	if e.ours != nil {
		return e.ours.shim
	}
	return e.Command
}

// lookWith is an agent's Find, with every entry of ours seen through, and those
// marked that are the tools of extensions.
func lookWith(agent Agent, env Env) (*Found, error) {
	found, err := agent.Find(env)
	if err != nil {
		return nil, err
	}
	for s, e := range each(found.Sources) {
		n := e.form.of(s.doc.At(e.Path))
		e.seeThrough(n)
		if e.Ungoverned == "" && e.offered(n, env) {
			e.Ungoverned, e.offers = offersTools, true
		}
	}
	return found, nil
}

// lookAround is the agent's Find. For a rewrite that lasts it looks from everywhere at
// once: at the files that the agent reads wherever it is started, and in them at
// the servers of every folder. An entry that the agent must not start from one of
// the folders is left alone as a whole.
func (p *Plan) lookAround() (*Found, error) {
	if p.env.Renew == "" {
		return lookWith(p.agent, p.env)
	}
	env := p.env
	env.Cwd = anywhere
	found, err := lookWith(p.agent, env)
	if err != nil {
		return nil, err
	}
	if t, ok := p.agent.(traveller); ok {
		if err := p.findBelow(t, env, found); err != nil {
			return nil, err
		}
	}
	left := map[string]string{}
	key := func(s *Source, e *Entry) string { return s.file.path + "\x00" + edit.Pointer(e.Path) }
	for s, e := range each(found.Sources) {
		if e.Ungoverned != "" {
			left[key(s, e)] = e.Ungoverned
		}
	}
	for s, e := range each(found.Sources) {
		e.Ungoverned = left[key(s, e)]
	}
	return found, nil
}

// findBelow adds what the agent's own files say of servers of single folders.
// The files of those folders themselves are not its own.
func (p *Plan) findBelow(t traveller, env Env, found *Found) error {
	own := p.agent.Files(env)
	folders, err := t.Folders(env)
	if err != nil {
		return err
	}
	for _, folder := range folders {
		env.Cwd = folder
		there, err := lookWith(p.agent, env)
		if err != nil {
			found.Warnings = append(found.Warnings, fmt.Sprintf("the servers of %s are left as they are: %v", folder, err))
			continue
		}
		for _, s := range there.Sources {
			if slices.Contains(own, s.Path) {
				found.Sources = append(found.Sources, s)
			}
		}
		found.Warnings = union(found.Warnings, there.Warnings)
	}
	return nil
}

// cleanOurs tells apart what lines of ours there are. Those of another rewrite
// that lasts are left alone; those of the one that is being made again are put
// in afresh, over the file as it would be without them.
func (p *Plan) cleanOurs() error {
	for _, f := range p.files {
		mine := false
		for _, e := range each(f.sources) {
			if !p.env.lasts(e.ours, p.shim) {
				continue
			}
			e.ours.renewed = e.ours.session == p.env.Renew
			e.Protected = !e.ours.renewed
			mine, f.beside = mine || e.ours.renewed, f.beside || e.Protected
		}
		if !mine && len(p.wasIn(f)) == 0 {
			continue
		}
		doc, out, err := p.without(f, f.doc)
		if err != nil {
			return fmt.Errorf("%s: %w", f.path, err)
		}
		p.warnings = union(p.warnings, out.notes)
		base := *f.file
		base.data = out.text
		f.base, f.doc, f.cleaned, f.altered = &base, doc, true, out.altered
	}
	return nil
}

// without takes the lines out of doc that are made again.
func (p *Plan) without(f *planned, doc *edit.Document) (*edit.Document, taken, error) {
	out, err := takeBack(doc, p.wasIn(f), p.env.Renew, p.shim)
	if err == nil {
		doc, err = f.syntax().Read(out.text)
	}
	return doc, out, err
}

// lasts reports whether a line belongs to a rewrite that lasts. What the line says
// of itself is not enough: it has to start the shim of that rewrite, or this one.
func (env Env) lasts(line *ourLine, shim string) bool {
	return line != nil && slices.ContainsFunc(env.Lasting, func(l *Protection) bool {
		return l.ID == line.session && (l.wrote(line.shim) || sameFile(line.shim, shim))
	})
}

// keeps reports whether a rewrite that lasts has its backup at path.
func (env Env) keeps(path string) bool {
	return slices.ContainsFunc(env.Lasting, func(l *Protection) bool { return slices.Contains(l.Backups(), path) })
}

func sameFile(a, b string) bool {
	if !filepath.IsAbs(a) {
		return false
	}
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	two, err := os.Stat(b)
	return err == nil && os.SameFile(one, two)
}

// wasIn returns how the entries of a file were before they were rewritten for
// good, if they were.
func (p *Plan) wasIn(f *planned) []entryWas {
	if j := p.journalOf(f); j != nil {
		return j.Entries
	}
	return nil
}

func (p *Plan) journalOf(f *planned) *fileJournal {
	for _, l := range p.env.Lasting {
		for _, j := range l.Journal {
			if l.ID == p.env.Renew && j.Target == f.file.path {
				return j
			}
		}
	}
	return nil
}
