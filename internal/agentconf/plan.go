package agentconf

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"
)

// ErrWrapped says that a configuration holds lines of ours already. Which file
// and what to do is in the text.
var ErrWrapped = errors.New("the configuration is managed by ThoughtGate already")

// What the specification has people read.
const (
	noServers   = "No MCP servers found in config"
	allDisabled = "All MCP servers are disabled"
)

// Plan is one rewrite of all the files of one agent. Its methods are called in
// the order Lock, Backup, Prepare, Journals, Apply, Restore, Unlock; to see what
// would be written Prepare and Diff are enough. A Plan is for one goroutine.
type Plan struct {
	agent    Agent
	env      Env
	shim     string
	session  string
	line     Line
	warnings []string
	files    []*planned
	step     func(string) // told of each step that was taken, in tests
	found    []*Source    // all of them, those that are not rewritten too

	swept     []string // what a person should know of what killed writers left
	unreached string   // what no rewrite governs; empty when there is nothing
}

// NewPlan finds and reads the files of an agent, and refuses what cannot be
// wrapped: nothing there, an empty or broken file, no server, all of them off,
// lines of ours in it already. shim is the absolute path of the shim, links
// resolved. It changes nothing, but for finishing what a killed writer left undone,
// which is noted in env.Notes.
func NewPlan(agent Agent, env Env, shim string) (*Plan, error) {
	env.Shim = shim
	p := &Plan{agent: agent, env: env, shim: shim, step: func(string) {}}
	p.sweep()
	err := p.read()
	if errors.Is(err, ErrWrapped) {
		for _, f := range p.files { // by a wrap that lives, perhaps
			if locked := isLocked(f.lockPath(), f.path); locked != nil {
				return nil, locked
			}
		}
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// sweep finishes what a killed writer left undone, before anything is read: what
// it brings back must be seen by whoever agrees to the plan.
func (p *Plan) sweep() {
	noted := p.notes().all()
	for _, path := range p.agent.Files(p.env) {
		target, err := filepath.EvalSymlinks(path)
		if err != nil || !slices.ContainsFunc(noted, func(n *note) bool { return n.Kind == noteTemp && n.Target == target }) {
			continue
		}
		l, err := takeLock(lockPath(target), path, holder{Brief: true, notes: p.notes()})
		if err != nil {
			continue // whoever has it is at it
		}
		p.swept = append(p.swept, sweepTemps(target, p.notes())...)
		l.release()
	}
}

// read fills the plan from what the files say now.
func (p *Plan) read() error {
	found, err := p.find()
	if err != nil {
		return err
	}
	if len(found.Sources) == 0 {
		return fmt.Errorf("no configuration of %s found; looked for %s", p.agent.Name(), strings.Join(p.agent.Files(p.env), ", "))
	}
	p.warnings, p.files, p.unreached = slices.Concat(p.swept, found.Warnings), nil, found.unreached
	for _, s := range found.Sources {
		p.add(s)
	}
	if err := p.cleanOurs(); err != nil {
		return err
	}
	if err := p.refuseWrapped(); err != nil {
		return err
	}
	if err := p.refuseEmpty(found); err != nil {
		return err
	}
	if err := p.refuseFixed(); err != nil {
		return err
	}
	p.files = slices.DeleteFunc(p.files, func(f *planned) bool { return len(f.governed()) == 0 && f.clean == nil })
	for _, f := range p.files {
		if !utf8.ValidString(f.path) || !utf8.ValidString(f.file.path) {
			return fmt.Errorf("the path %q is not UTF-8", f.path)
		}
	}
	p.warnUnset()
	p.warnOurs()
	if text := asksAgain[p.agent.Name()]; text != "" {
		p.warnings = append(p.warnings, text)
	}
	p.found = found.Sources
	return nil
}

// find reads the files.
func (p *Plan) find() (*Found, error) {
	found, err := p.lookAround()
	if err != nil {
		return nil, err
	}
	for _, s := range found.Sources {
		for _, e := range s.Entries {
			e.limits = limitsOf(p.agent.Name(), e)
		}
		s.markShipped(p.env)
	}
	p.shareShipped(found.Sources)
	if err := found.doubt(); err != nil {
		return nil, err
	}
	found.leaveFixed()
	return found, nil
}

// add joins sources that are the same file.
func (p *Plan) add(s *Source) {
	f := p.fileAt(s.file.path)
	if f == nil {
		f = &planned{path: s.Path, file: s.file}
		p.files = append(p.files, f)
	}
	f.sources = append(f.sources, s)
}

// refuseWrapped finds entries that start the shim.
func (p *Plan) refuseWrapped() error {
	for _, f := range p.files {
		for _, e := range f.governed() {
			// What a project calls tg-shim is a program like others, which a person is
			// asked about.
			theirs := e.From != "" && filepath.Base(e.Command) == shimName
			if e.ours != nil && !e.ours.renewed || !theirs && isShim(e.vars.word(e.Command, p.env), p.shim, p.env) {
				return fmt.Errorf("%w: server %q in %s starts %s; put it back with `tgctl unwrap %s`, or start the agent directly",
					ErrWrapped, e.ID, f.path, e.starts(), f.path)
			}
		}
	}
	return nil
}

// refuseFixed finds entries of a project that are written in a way that cannot be
// rewritten: the agent would start them, and nobody has agreed to that.
func (p *Plan) refuseFixed() error {
	for _, f := range p.files {
		for _, e := range f.governed() {
			if e.fixed != "" {
				return fmt.Errorf("server %q in %s, a file of a project, would be started without you having agreed, since its entry can't be changed: %s; write it otherwise, or remove it", e.ID, f.path, e.fixed)
			}
		}
	}
	return nil
}

// refuseEmpty refuses to wrap an agent that would start nothing we govern. The
// error is an *[EmptyError].
func (p *Plan) refuseEmpty(found *Found) error {
	var paths, left []string
	count, off := 0, 0
	for _, s := range found.Sources {
		paths = append(paths, s.Path)
		for _, e := range s.Entries {
			switch {
			case e.Off == Disabled || e.Off == Denied:
				off++
				count++
			case e.Ungoverned != "":
				left = append(left, fmt.Sprintf("%s is %s", e.ID, e.Ungoverned))
			default:
				count++
			}
		}
	}
	where := strings.Join(paths, ", ")
	switch {
	case p.env.Renew != "" && slices.ContainsFunc(p.files, func(f *planned) bool { return f.clean != nil }):
		return nil // lines of ours are still to be taken out
	case count == 0 && len(left) > 0:
		return empty("%s that can be governed: %s (%s)", noServers, where, strings.Join(left, "; "))
	case count == 0:
		return empty("%s: %s", noServers, where)
	case off == count:
		return empty("%s: %s", allDisabled, where)
	}
	return nil
}

// Agent returns the type of the agent.
func (p *Plan) Agent() string { return p.agent.Name() }

// Warnings are what a person should know before the agent starts.
func (p *Plan) Warnings() []string { return p.warnings }

// Paths returns the files that are rewritten, as the agent knows them.
func (p *Plan) Paths() []string {
	var paths []string
	for _, f := range p.files {
		paths = append(paths, f.path)
	}
	return paths
}

// Entries returns all servers that were found: those that will be governed, and
// those that are left alone, with the reason in Ungoverned.
func (p *Plan) Entries() []*Entry {
	var out []*Entry
	for _, s := range p.found {
		out = append(out, s.Entries...)
	}
	return out
}

// Prepare works out the new text of each file, which starts the shim with what
// line says, and proves that it can be undone.
func (p *Plan) Prepare(line Line) error {
	line.Shim = p.shim
	if err := line.check(); err != nil {
		return err
	}
	p.line = line
	for _, f := range p.files {
		if err := p.prepare(f, line); err != nil {
			return fmt.Errorf("rewrite %s: %w", f.path, err)
		}
	}
	return nil
}

// Diff shows what Apply will change, as a unified diff that patch(1) applies.
func (p *Plan) Diff() string {
	var b strings.Builder
	for _, f := range p.files {
		label := f.path
		if strings.ContainsAny(label, " \t") {
			label += "\t" // patch takes a name with blanks only when a tab ends it
		}
		b.WriteString(udiff.Unified(label, label, string(f.file.data), string(f.text)))
	}
	return b.String()
}

func (p *Plan) notes() notebook { return notebook(p.env.Notes) }

// sortedFiles is the one order in which locks are taken.
func (p *Plan) sortedFiles() []*planned {
	files := slices.Clone(p.files)
	slices.SortFunc(files, func(a, b *planned) int { return strings.Compare(a.file.path, b.file.path) })
	return files
}
