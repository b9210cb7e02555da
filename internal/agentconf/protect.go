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

	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// Decay is the difference between a protection and its files.
type Decay struct {
	Lost  []string // servers whose line was removed, so that they start ungoverned
	Added []string // servers added since, which start ungoverned
	Tools bool     // entries for hooks were removed or changed, so that the agent's own tools run ungoverned
	Other bool     // another difference, such as the path of tg-shim
}

// None reports whether there is no difference.
func (d Decay) None() bool { return len(d.Lost)+len(d.Added) == 0 && !d.Tools && !d.Other }

// Decay returns what [Plan.Protect] would fix. Prepare must be called first. If the protection
// was not made yet, every server is in Added.
func (p *Plan) Decay() Decay {
	var d Decay
	for _, f := range p.files {
		if f.isDone() {
			continue
		}
		before, explained := p.wasIn(f), false
		for _, e := range f.governed() {
			switch known := slices.ContainsFunc(before, func(w originalEntry) bool { return slices.Equal(w.Path, e.Path) }); {
			case e.ours != nil:
				continue
			case known:
				d.Lost = append(d.Lost, e.ID)
			default:
				d.Added = append(d.Added, e.ID)
			}
			explained = true
		}
		if f.hooks != nil && !sameHooks(f.text, f.file.data, f.syntax()) {
			d.Tools, explained = true, true
		}
		d.Other = d.Other || !explained
	}
	slices.Sort(d.Lost)
	slices.Sort(d.Added)
	d.Lost, d.Added = slices.Compact(d.Lost), slices.Compact(d.Added)
	return d
}

// Protect makes the rewrite of l, or renews it where files have drifted, and returns the new
// value of l. It does not touch files that are as they should be. Before it writes a file, it
// calls keep with the protection, which must be safely on disk when keep returns. After that,
// every file can be restored even if this process is killed.
//
// The error is a *[LockedError] if a wrap, or another rewrite, holds a file.
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

// secure does everything that must be done before a file is written.
func (p *Plan) secure(l *Protection, keep func(*Protection) error) (*Protection, error) {
	for _, do := range []func() error{p.keepAltered, p.Backup, func() error { return p.Prepare(l.Line) }} {
		if err := do(); err != nil {
			return nil, err
		}
	}
	next := p.renewed(l)
	return next, keep(next)
}

// unlockFinished unlocks the files that need no change and removes them from the plan.
func (p *Plan) unlockFinished() {
	p.files = slices.DeleteFunc(p.files, func(f *planned) bool {
		if !f.isDone() {
			return false
		}
		f.lock.release()
		return true
	})
}

// isDone reports whether a file is as it should be. The agent may have laid it out in another way.
func (f *planned) isDone() bool {
	if f.file.absent || string(f.text) == string(f.file.data) {
		return !f.file.absent
	}
	now, err := f.syntax().Read(f.file.data)
	next, failed := f.syntax().Read(f.text)
	return err == nil && failed == nil && edit.Equal(now.Root(), next.Root())
}

// keepAltered keeps a copy of each file in which something that somebody wrote will be
// replaced.
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

// renewed returns a copy of l in which the journals of this plan replace older ones of the same
// files.
func (p *Plan) renewed(l *Protection) *Protection {
	next := *l
	next.Journal, next.Remotes = nil, p.Remotes()
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

// superseded returns the backups that the new backup of f replaces.
func (p *Plan) superseded(f *planned) []supersededBackup {
	j := p.journalOf(f)
	if j == nil {
		return nil
	}
	if j.Backup == f.backup {
		return j.Superseded
	}
	return append(slices.Clip(j.Superseded), supersededBackup{j.Backup, j.Original})
}

// dropSuperseded removes the backups that newer ones replaced.
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

// dropNewBackups removes backups that are not needed.
func (p *Plan) dropNewBackups() error {
	var failed []error
	for _, f := range p.files {
		if j := p.journalOf(f); j == nil || j.Backup != f.backup {
			failed = append(failed, p.notes().dropCopy(f.file.path, f.backup, digest(f.base.data)))
		}
	}
	return errors.Join(failed...)
}

// dropCopy removes a backup if it has the original content.
func (b notebook) dropCopy(target, path, original string) error {
	copied, err := readFile(path)
	if err != nil || digest(copied.data) != original {
		return nil // removed, or not ours: its content may be needed
	}
	return b.removeBackup(target, path, func(string) {})
}

// removeBackup removes a backup and its note.
func (b notebook) removeBackup(target, path string, step func(string)) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the backup: %w", err)
	}
	step("backup removed")
	return errors.Join(b.forget(target, path), syncFolder(filepath.Dir(path)))
}

// protectionVersion is increased when an older program could not undo a newer protection.
const protectionVersion = 1

// Protection is a permanent rewrite: every start of the agent is governed until somebody undoes
// it. It has what is needed to renew the rewrite, should the agent have dropped our lines, and
// to undo it. It contains commands and arguments of servers, which may be secret.
type Protection struct {
	Version int            `json:"v"`
	ID      string         `json:"id"` // session id in its lines
	Agent   string         `json:"agent"`
	Where   Where          `json:"where"`
	Line    Line           `json:"line"`
	Repair  bool           `json:"repair"`            // the person agreed that lost lines are restored
	Tools   bool           `json:"tools,omitempty"`   // the agent's own tools are governed, by entries for hooks
	Alone   bool           `json:"alone,omitempty"`   // only these
	Remotes []Remote       `json:"remotes,omitempty"` // governed servers behind an address
	Journal []*fileJournal `json:"files"`             // one for each file that is rewritten
}

// Where determines which files an agent reads, so that the daemon, whose environment differs,
// finds the files that the person's agent reads.
type Where struct {
	Home   string            `json:"home"`
	Config string            `json:"config,omitempty"` // the only file, from --config-path
	Vars   map[string]string `json:"vars,omitempty"`
	Notes  string            `json:"notes,omitempty"` // see [Env]
	Own    bool              `json:"own,omitempty"`   // OwnOnly of Env
}

// NewProtection returns a protection without files: see [Plan.Protect]. From env it keeps the
// home, the single file if there is one, and the variables by which the agent finds its files.
func NewProtection(id string, agent Agent, env Env, line Line) *Protection {
	vars := map[string]string{}
	env.Cwd = anyCwd
	lookup := env.LookupEnv
	env.LookupEnv = func(name string) (string, bool) {
		value, set := lookup(name)
		if filepath.IsAbs(value) { // a path, not a secret
			vars[name] = value
		}
		return value, set
	}
	Files(agent, env)
	line.Session = id
	return &Protection{
		Version: protectionVersion, ID: id, Agent: agent.Name(), Line: line, Tools: env.Tools, Alone: env.NoServers,
		Where: Where{Home: env.Home, Config: env.Config, Vars: vars, Notes: env.Notes, Own: env.OwnOnly},
	}
}

// ParseProtection parses the result of [Protection.Text].
func ParseProtection(text []byte) (*Protection, error) {
	var p Protection
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, fmt.Errorf("read protection: %w", err)
	}
	if p.Version != protectionVersion {
		return nil, fmt.Errorf("read protection: unsupported version %d; this program supports version %d", p.Version, protectionVersion)
	}
	if p.ID == "" || p.Line.Session != p.ID {
		return nil, errors.New("read protection: its entries have another id")
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
			return nil, fmt.Errorf("read protection: the journal of %q belongs to another one", j.Path)
		}
	}
	return &p, nil
}

// Text returns the stored form of the protection.
func (p *Protection) Text() ([]byte, error) { return json.Marshal(p) }

// wrote reports whether the protection has inserted lines that start shim.
func (p *Protection) wrote(shim string) bool {
	return p.Line.Shim == shim || slices.ContainsFunc(p.Journal, func(j *fileJournal) bool { return j.Line.Shim == shim })
}

// Env returns the environment of the agent, as far as it determines what the agent reads.
// lookup is called for variables that the protection does not have.
func (p *Protection) Env(lookup func(string) (string, bool)) Env {
	return Env{
		Home: p.Where.Home, Cwd: anyCwd, Config: p.Where.Config, Protections: []*Protection{p}, Renew: p.ID, Socket: p.Line.Socket, Notes: p.Where.Notes, OwnOnly: p.Where.Own,
		Tools: p.Tools, NoServers: p.Alone,
		LookupEnv: func(name string) (string, bool) {
			if value, set := p.Where.Vars[name]; set {
				return value, true
			}
			return lookup(name)
		},
	}
}

// Plan returns the rewrite as it should be, prepared, with line in each entry. The lines of
// other protections in all are left alone.
func (p *Protection) Plan(line Line, lookup func(string) (string, bool), all []*Protection) (*Plan, error) {
	agent, err := AgentFor(p.Agent, nil)
	if err != nil {
		return nil, err
	}
	env := p.Env(lookup)
	for _, other := range all {
		if other.ID != p.ID {
			env.Protections = append(env.Protections, other)
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

// Servers returns the names of the servers whose entries are rewritten, sorted and without
// duplicates.
func (p *Protection) Servers() []string {
	var names []string
	for _, j := range p.Journal {
		for _, w := range j.Entries {
			if !w.Hooks {
				names = append(names, w.ID)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Backups returns the backups beside the files.
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

// Files returns every file of the protection: the configurations, also without links, the
// backups, and the locks.
func (p *Protection) Files() []string {
	var paths []string
	for _, j := range p.Journal {
		paths = append(paths, j.paths()...)
	}
	return paths
}

// Watched returns every path whose change may mean that the agent is not governed: all files
// that the agent reads, also without links.
func (p *Protection) Watched(lookup func(string) (string, bool)) []string {
	var paths []string
	for _, j := range p.Journal {
		paths = append(paths, j.Path, j.Target)
	}
	if agent, err := AgentFor(p.Agent, nil); err == nil {
		paths = append(paths, Files(agent, p.Env(lookup))...)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// Covers reports whether the entry of server is rewritten. The agent's own tools are a server, too.
func (p *Protection) Covers(server string) bool {
	return server == agenthook.Server && p.Tools || slices.Contains(p.Servers(), server)
}

// Busy reports whether somebody is rewriting or restoring one of the files at the moment, so
// that its content is about to change.
func (p *Protection) Busy() bool {
	return slices.ContainsFunc(p.Journal, func(j *fileJournal) bool {
		var locked *LockedError
		return errors.As(isLocked(j.Lock, j.Path), &locked) && locked.holder.Brief
	})
}

// Restore restores every file, as [Restore] does for one. If somebody else holds one of them,
// none is changed, and the error is a *[LockedError]. Restore may be interrupted at any point
// and called again.
func (p *Protection) Restore() ([]Report, error) {
	return p.restore(func(string) {})
}

func (p *Protection) restore(step func(string)) ([]Report, error) {
	for _, j := range slices.SortedFunc(slices.Values(p.Journal), func(a, b *fileJournal) int { return strings.Compare(a.Target, b.Target) }) {
		unlock, err := lockToRestore(j)
		if err != nil {
			return nil, err
		}
		defer unlock()
	}
	var reports []Report
	var failed []error
	for _, j := range p.Journal {
		report, err := j.restore(step)
		if err != nil {
			err = fmt.Errorf("restore %s: %w", report.Path, err)
		}
		reports, failed = append(reports, report), append(failed, err)
	}
	if err := errors.Join(failed...); err != nil {
		return reports, err
	}
	return reports, dropSuperseded(p.Journal)
}

// anyCwd is the working directory of an agent that may be started in any folder: what it
// reads from there, it reads everywhere.
const anyCwd = "/"

// folderLister is an agent whose own files have servers for single folders. Folders returns these
// folders.
type folderLister interface {
	Folders(Env) ([]string, error)
}

// ourLine is our line in an entry that starts tg-shim.
type ourLine struct {
	shim    string // path of tg-shim as written
	session string
	remote  bool // the server is behind an address
	renewed bool // it belongs to the protection that is renewed
}

// unwrapCommand sets Command and Args of an entry that starts tg-shim to those of the server
// behind it, because the rules of agents and people apply to that server.
func (e *Entry) unwrapCommand(n server) {
	items := n.behind()
	words, _ := shimWords(items)
	if words == 0 || filepath.Base(n.program().Text()) != shimName {
		return
	}
	e.ours = &ourLine{shim: n.program().Text(), session: n.env().Member(envSession).Text(), remote: isRemoteLine(items)}
	if e.ours.remote {
		e.Command, e.Args = "", nil
		return
	}
	e.Command, e.Args = items[words-1].Text(), nil
	for _, arg := range items[words:] {
		e.Args = append(e.Args, arg.Text())
	}
}

// starts returns the program that the agent starts, which may be tg-shim.
func (e *Entry) starts() string {
	if e.ours != nil {
		return e.ours.shim
	}
	return e.Command
}

// lookWith calls the agent's Find and marks entries with lines of ours, and entries for the
// tools of extensions.
func lookWith(agent Agent, env Env) (*Found, error) {
	found, err := agent.Find(env)
	if err != nil {
		return nil, err
	}
	for e := range each(found.Sources) {
		n := e.form.of(e.node())
		e.unwrapCommand(n)
		if e.Ungoverned == "" && e.offered(n, env) {
			e.Ungoverned, e.offers = offersTools, true
		}
	}
	found.describeRemotes(agent, env)
	return found, nil
}

// findEverywhere calls the agent's Find. For a protection it reads the files that the agent reads
// wherever it is started, and returns the servers for all folders in them. If an entry must be
// left alone in one folder, it is left alone in all.
func (p *Plan) findEverywhere() (*Found, error) {
	if p.env.Renew == "" {
		return lookWith(p.agent, p.env)
	}
	env := p.env
	env.Cwd = anyCwd
	found, err := lookWith(p.agent, env)
	if err != nil {
		return nil, err
	}
	if t, ok := p.agent.(folderLister); ok {
		if err := p.findBelow(t, env, found); err != nil {
			return nil, err
		}
	}
	left := map[string]string{}
	key := func(e *Entry) string { return e.source.file.path + "\x00" + edit.Pointer(e.Path) }
	for e := range each(found.Sources) {
		if e.Ungoverned != "" {
			left[key(e)] = e.Ungoverned
		}
	}
	for e := range each(found.Sources) {
		e.Ungoverned = left[key(e)]
	}
	return found, nil
}

// findBelow adds the servers for single folders in the agent's own files. It does not add files
// in those folders.
func (p *Plan) findBelow(t folderLister, env Env, found *Found) error {
	own := p.agent.Files(env)
	folders, err := t.Folders(env)
	if err != nil {
		return err
	}
	for _, folder := range folders {
		env.Cwd = folder
		there, err := lookWith(p.agent, env)
		if err != nil {
			found.Warnings = append(found.Warnings, fmt.Sprintf("the servers of %s are not changed: %v", folder, err))
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

// classifyOurLines handles existing lines of ours. Those of other protections are left alone. Those of
// the protection that is renewed are replaced, starting from the file as it would be without
// them.
func (p *Plan) classifyOurLines() error {
	for _, f := range p.files {
		mine := slices.ContainsFunc(hookLines(f.doc), func(l hookLine) bool { return f.hooks != nil && l.session == p.env.Renew })
		for _, e := range f.entries {
			if !p.env.isProtected(e.ours, p.shim) {
				continue
			}
			e.ours.renewed = e.ours.session == p.env.Renew
			e.Protected = !e.ours.renewed
			mine, f.beside = mine || e.ours.renewed, f.beside || e.Protected
		}
		if !mine && len(p.wasIn(f)) == 0 {
			continue
		}
		doc, out, err := p.removeRenewedLines(f, f.doc)
		if err != nil {
			return fmt.Errorf("%s: %w", f.path, err)
		}
		p.warnings = union(p.warnings, out.notes)
		base := *f.file
		base.data = out.text
		f.base, f.doc, f.cleaned, f.altered = &base, doc, true, out.altered
		f.describeRenewed(p.agent)
	}
	return nil
}

// describeRenewed describes the servers behind an address whose lines are renewed.
func (f *planned) describeRenewed(agent Agent) {
	for _, e := range f.entries {
		if e.ours != nil && e.ours.renewed && e.ours.remote {
			e.describe(f.doc.At(e.Path), agent)
			if e.stays != "" {
				e.leaveAddress("")
				e.leaveRemote()
			}
		}
	}
}

// removeRenewedLines removes the lines that are renewed from doc.
func (p *Plan) removeRenewedLines(f *planned, doc *edit.Document) (*edit.Document, removal, error) {
	out, err := removeLines(doc, p.wasIn(f), p.env.Renew, p.shim)
	if err == nil && len(out.stuck) > 0 {
		err = fmt.Errorf("the address of %s is not known any more; write its entry again", strings.Join(out.stuck, ", "))
	}
	if err == nil {
		doc, err = f.syntax().Read(out.text)
	}
	return doc, out, err
}

// isProtected reports whether a line belongs to a protection. Its id is not sufficient: it must also
// start the protection's tg-shim, or this one.
func (env Env) isProtected(line *ourLine, shim string) bool {
	return line != nil && slices.ContainsFunc(env.Protections, func(l *Protection) bool {
		return l.ID == line.session && (l.wrote(line.shim) || sameFile(line.shim, shim))
	})
}

// isProtectedBackup reports whether path is a backup of a protection.
func (env Env) isProtectedBackup(path string) bool {
	return slices.ContainsFunc(env.Protections, func(l *Protection) bool { return slices.Contains(l.Backups(), path) })
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

// wasIn returns the original entries of a file if the protection has rewritten it.
func (p *Plan) wasIn(f *planned) []originalEntry {
	if j := p.journalOf(f); j != nil {
		return j.Entries
	}
	return nil
}

func (p *Plan) journalOf(f *planned) *fileJournal {
	for _, l := range p.env.Protections {
		for _, j := range l.Journal {
			if l.ID == p.env.Renew && j.Target == f.file.path {
				return j
			}
		}
	}
	return nil
}
