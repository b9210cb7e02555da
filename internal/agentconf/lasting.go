package agentconf

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// protectionVersion is raised when an older program could not undo what a newer
// one has protected.
const protectionVersion = 1

// Protection is a rewrite that lasts: every start of the agent is governed until
// somebody takes it back. It says what it takes to make the rewrite again, should
// the agent have dropped our lines, and what undoes it. It holds commands and
// arguments of servers, which may be secret.
type Protection struct {
	Version int               `json:"v"`
	ID      string            `json:"id"` // what the lines say in the place of a session
	Agent   string            `json:"agent"`
	Where   Where             `json:"where"`
	Line    Line              `json:"line"`
	Repair  bool              `json:"repair"` // the person agreed that lost lines are put back
	Journal []json.RawMessage `json:"files"`  // of each file that is rewritten
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
	for _, journal := range p.Journal {
		j, err := parseJournal(journal)
		if err != nil {
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

// journals are those of the files, which were checked when p was parsed or made.
func (p *Protection) journals() []*fileJournal {
	var all []*fileJournal
	for _, text := range p.Journal {
		if j, err := parseJournal(text); err == nil {
			all = append(all, j)
		}
	}
	return all
}

// wrote reports whether lines that start this shim were put into a file.
func (p *Protection) wrote(shim string) bool {
	return p.Line.Shim == shim || slices.ContainsFunc(p.journals(), func(j *fileJournal) bool { return j.Line.Shim == shim })
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
	for _, j := range p.journals() {
		paths = append(paths, j.Path)
	}
	return paths
}

// Servers returns the names of the servers whose entries are rewritten, each
// once, in order.
func (p *Protection) Servers() []string {
	var names []string
	for _, j := range p.journals() {
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
	for _, j := range p.journals() {
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
	for _, j := range p.journals() {
		paths = append(paths, j.paths()...)
	}
	return paths
}

// Watched returns every path whose change can mean that the agent is not
// governed as it should be: all that the agent reads, and where links lead.
func (p *Protection) Watched(lookup func(string) (string, bool)) []string {
	var paths []string
	for _, j := range p.journals() {
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
	return slices.ContainsFunc(p.journals(), func(j *fileJournal) bool {
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
	journals := p.journals()
	slices.SortFunc(journals, func(a, b *fileJournal) int { return strings.Compare(a.Target, b.Target) })
	for _, j := range journals {
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
	for _, text := range p.Journal {
		report, err := restore(text, step)
		if err != nil {
			err = fmt.Errorf("put %s back: %w", report.Path, err)
		}
		reports, failed = append(reports, report), append(failed, err)
	}
	if err := errors.Join(failed...); err != nil {
		return reports, err
	}
	return reports, dropSuperseded(journals)
}
