package agentconf

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// An agent runs a hook before it uses a tool of its own, and names its hooks in one of its files,
// as lists under hooks, one for each event. An item that starts `tg-shim hook` is one of ours. It
// is inserted and removed by the same rewrite as the lines of servers, with the same journal:
// there, the hooks of a file are an [originalEntry] without a command.

// hooksKey is the member that has an agent's hooks.
const hooksKey = "hooks"

// hookFile returns the file of the user's own hooks, or "" if none of them are rewritten: the
// agent has no such file, or a person has named the one file that may be changed.
func (k kind) hookFile(env Env) string {
	if k.hooks == nil || env.Config != "" {
		return ""
	}
	return k.hooks(env)
}

// Files returns the paths at which an agent looks for servers and hooks, whether they exist or not.
func Files(agent Agent, env Env) []string {
	paths := agent.Files(env)
	if path := kindOf(agent.Name()).hookFile(env); path != "" && !slices.Contains(paths, path) {
		paths = append(paths, path)
	}
	return paths
}

// HookContract returns how an agent in env calls hooks, or nil if none can be written for it.
func HookContract(agent Agent, env Env) *agenthook.Contract {
	if kindOf(agent.Name()).hooks == nil || env.Config != "" {
		return nil
	}
	return agenthook.Of(agent.Name())
}

// hookTeller is an agent that can be given hooks for one start.
type hookTeller interface {
	// hookFlag returns the flag that takes settings with hooks, or "" if it can't be used this
	// time.
	hookFlag(Env) string
}

// addHooks adds the file with the agent's hooks, if entries are to be written. If the agent can
// be told for one start, or a protection has entries there, the file needs no rewrite.
func (p *Plan) addHooks() error {
	p.hookFlag = ""
	c := HookContract(p.agent, p.env)
	if c == nil || !p.env.Tools {
		return nil
	}
	path := kindOf(p.agent.Name()).hookFile(p.env)
	s, err := load(path, syntaxOf(path))
	if err != nil {
		return fmt.Errorf("read the hooks of %s: %w", p.agent.Name(), err)
	}
	if s == nil {
		s = absentSource(path, c)
	}
	if off := hooksOff(s.doc); off != "" {
		p.warnings = append(p.warnings, fmt.Sprintf("%s runs no hooks, so its own tools are not governed: %s in %s", p.agent.Name(), off, path))
	}
	mine, theirs, err := p.classifyHooks(s)
	if err != nil {
		return err
	}
	if theirs && !mine {
		p.hooked = true
		return nil
	}
	if to, can := p.agent.(hookTeller); can && p.env.Renew == "" && !p.env.InFile {
		name, _ := Detect(p.env.Command)
		if flag := to.hookFlag(p.env); flag != "" && name == p.agent.Name() {
			p.hookFlag = flag
			return nil
		}
	}
	if p.fileAt(s.file.path) == nil {
		p.add(s)
	}
	f := p.fileAt(s.file.path)
	f.hooks, f.beside = c, f.beside || theirs
	return nil
}

// absentSource returns a source for a file that does not exist yet.
func absentSource(path string, c *agenthook.Contract) *Source {
	target := filepath.Join(realPath(filepath.Dir(path)), filepath.Base(path))
	text := []byte(c.Empty())
	doc, _ := syntaxOf(path).Read(text) // it is constant
	return &Source{Path: path, doc: doc, file: &file{path: target, data: text, mode: 0o600, uid: os.Geteuid(), gid: os.Getegid(), absent: true}}
}

// classifyHooks reports whether a file has entries of the protection that is renewed, and of
// other protections. Any other entry of ours is an error.
func (p *Plan) classifyHooks(s *Source) (mine, theirs bool, err error) {
	for _, l := range hookLines(s.doc) {
		switch line := (&ourLine{shim: l.shim, session: l.session}); {
		case !p.env.isProtected(line, p.shim):
			return false, false, fmt.Errorf("%w: a hook in %s starts %s; restore it with `tgctl unwrap %s`, or start the agent directly", ErrWrapped, s.Path, l.shim, s.Path)
		case l.session == p.env.Renew:
			mine = true
		default:
			theirs = true
		}
	}
	return mine, theirs, nil
}

// hookLine is one entry of ours.
type hookLine struct{ shim, session string }

// hookLines returns the entries of ours in a file.
func hookLines(doc *edit.Document) []hookLine {
	var lines []hookLine
	for _, list := range doc.Root().Member(hooksKey).Members() {
		for _, item := range list.Items() {
			for _, n := range hooksIn(item) {
				if l, ours := hookOwner(n); ours {
					lines = append(lines, l)
				}
			}
		}
	}
	return lines
}

// hooksIn returns the hooks of an item: a group of some, or one.
func hooksIn(item edit.Node) []edit.Node {
	if group := item.Member(hooksKey); group.Exists() {
		return group.Items()
	}
	return []edit.Node{item}
}

// hookOwner returns the entry of ours that n is.
func hookOwner(n edit.Node) (l hookLine, ours bool) {
	command, args := hookCommand(n)
	l.shim, l.session, ours = agenthook.Owner(command, args)
	return l, ours
}

// hookCommand returns what n has the agent run. args is nil if command is a line for a shell.
func hookCommand(n edit.Node) (command string, args []string) {
	at := n.Member("command")
	if !at.Exists() {
		at = n.Member("bash")
	}
	if list := n.Member("args"); list.Kind() == edit.Array {
		args = append([]string{}, texts(list)...)
	}
	return at.Text(), args
}

// judgingHooks returns what the entries of ours for an event have the agent run.
func judgingHooks(doc *edit.Document, event string) []HookCommand {
	var all []HookCommand
	for _, item := range doc.Root().Member(hooksKey).Member(event).Items() {
		for _, n := range hooksIn(item) {
			if _, ours := hookOwner(n); ours {
				command, args := hookCommand(n)
				all = append(all, HookCommand{Shell: args == nil, Argv: append([]string{command}, args...)})
			}
		}
	}
	return all
}

// insertHooks returns the operations that insert entries before those of others, and what is
// needed to undo them.
func insertHooks(doc *edit.Document, c *agenthook.Contract, line Line) ([]edit.Op, originalEntry, error) {
	w := originalEntry{Path: []string{hooksKey}, ID: agenthook.Server, Hooks: true}
	hooks, syntax := doc.Root().Member(hooksKey), doc.Syntax()
	if hooks.Exists() && hooks.Kind() != edit.Object {
		return nil, w, errors.New("its member hooks is not an object; correct it first")
	}
	var ops []edit.Op
	var lists []edit.Member
	for _, entry := range c.Entries(line.Shim, line.Socket, line.Session) {
		path := []string{hooksKey, entry.Event}
		switch list := hooks.Member(entry.Event); list.Kind() {
		case edit.Array:
			ops = append(ops, edit.Prepend(path, entry.Text))
		case edit.Absent:
			lists = append(lists, edit.Member{Name: entry.Event, Value: syntax.List([]string{entry.Text})})
			w.Made = append(w.Made, path)
		default:
			return nil, w, fmt.Errorf("its member %s is not a list; correct it first", edit.Pointer(path))
		}
	}
	switch {
	case !hooks.Exists():
		ops = append(ops, edit.Add(nil, edit.Member{Name: hooksKey, Value: syntax.Table(lists)}))
		w.Made = append(w.Made, []string{hooksKey})
	case len(lists) > 0:
		ops = append(ops, edit.Add([]string{hooksKey}, lists...))
	}
	return ops, w, nil
}

// removeHooks removes the entries of ours, and the lists that were made for them and are empty
// then. w has what was there before; without it, every list that becomes empty is removed.
func (t *lineRemover) removeHooks(w *originalEntry) {
	made := func(path ...string) bool {
		return w == nil || slices.ContainsFunc(w.Made, func(p []string) bool { return slices.Equal(p, path) })
	}
	var gone []string
	kept := false
	for name, list := range t.doc.Root().Member(hooksKey).Members() {
		path := []string{hooksKey, name.Text()}
		whole, ops := t.cutHooks(list, path)
		if len(whole) > 0 && len(whole) == len(list.Items()) && made(path...) {
			gone = append(gone, name.Text())
			continue
		}
		kept = true
		if len(whole) > 0 {
			ops = append(ops, edit.CutItems(path, whole...))
		}
		t.ops = append(t.ops, ops...)
	}
	switch {
	case len(gone) == 0:
	case !kept && made(hooksKey):
		t.ops = append(t.ops, edit.DropMembers(nil, hooksKey))
	default:
		t.ops = append(t.ops, edit.DropMembers([]string{hooksKey}, gone...))
	}
}

// cutHooks returns the indexes of the items of a list that are ours as a whole, and the
// operations that remove ours from groups that have others, too.
func (t *lineRemover) cutHooks(list edit.Node, path []string) (whole []int, ops []edit.Op) {
	for i, item := range list.Items() {
		var mine []int
		for j, n := range hooksIn(item) {
			l, ours := hookOwner(n)
			switch {
			case !ours:
			case t.session != "" && l.session != t.session:
				t.out.foreign = true
			default:
				mine = append(mine, j)
			}
		}
		t.out.lines += len(mine)
		switch {
		case len(mine) == 0:
		case len(mine) == len(hooksIn(item)):
			whole = append(whole, i)
		default:
			ops = append(ops, edit.CutItems(append(slices.Clone(path), fmt.Sprint(i), hooksKey), mine...))
		}
	}
	return whole, ops
}

// hooksOf returns the original of the hooks among entries, or nil if there is none.
func hooksOf(before []originalEntry) *originalEntry {
	for i := range before {
		if before[i].Hooks {
			return &before[i]
		}
	}
	return nil
}

// hooksByBackup returns the original of the hooks in doc as a backup has it: the lists that the
// backup lacks were made.
func hooksByBackup(doc, backup *edit.Document) []originalEntry {
	if len(hookLines(doc)) == 0 {
		return nil
	}
	w := originalEntry{Path: []string{hooksKey}, ID: agenthook.Server, Hooks: true}
	old := backup.Root().Member(hooksKey)
	if !old.Exists() {
		w.Made = append(w.Made, []string{hooksKey})
	}
	for name := range doc.Root().Member(hooksKey).Members() {
		if !old.Member(name.Text()).Exists() {
			w.Made = append(w.Made, []string{hooksKey, name.Text()})
		}
	}
	return []originalEntry{w}
}

// standsForNothing reports whether a configuration says nothing, and has no comment either.
func standsForNothing(text []byte) bool {
	bare := strings.Join(strings.Fields(string(text)), "")
	return bare == "{}" || bare == `{"version":1}` || string(text) == agenthook.Of((opencode{}).Name()).Empty()
}

// lookAtHooks returns how the own tools of an agent are governed, or nil if it is known to run no
// hooks.
func lookAtHooks(agent Agent, env Env) *Tools {
	c := HookContract(agent, env)
	if c == nil {
		return nil
	}
	t := &Tools{Path: kindOf(agent.Name()).hookFile(env), Proven: c.Proven, Unseen: c.Unseen}
	s, err := load(t.Path, syntaxOf(t.Path))
	if err != nil {
		t.Problem = err.Error()
	}
	if s == nil || err != nil {
		return t
	}
	t.Off, t.Canary = hooksOff(s.doc), judgingHooks(s.doc, c.Judging())
	for _, l := range hookLines(s.doc) {
		switch {
		case env.isProtected(&ourLine{shim: l.shim, session: l.session}, ""):
			t.Governed = ByProtect
		case isLocked(lockPath(s.file.path), t.Path) != nil:
			t.Governed = ByWrap
		default:
			t.Governed = ByStray
		}
	}
	return t
}

// hooksOff returns the setting in a file by which its agent runs no hooks, or "" if there is
// none.
func hooksOff(doc *edit.Document) string {
	switch {
	case doc.Root().Member("disableAllHooks").IsTrue():
		return "disableAllHooks"
	case doc.Root().Member("hooksDisabled").IsTrue():
		return "hooksDisabled"
	case doc.Root().Member("hooksConfig").Member("enabled").IsFalse():
		return "hooksConfig.enabled"
	}
	return ""
}

// hookSettings returns settings with the entries, for an agent that is told by a flag.
func (p *Plan) hookSettings() string {
	var lists []edit.Member
	for _, entry := range HookContract(p.agent, p.env).Entries(p.line.Shim, p.line.Socket, p.line.Session) {
		lists = append(lists, edit.Member{Name: entry.Event, Value: strict.List([]string{entry.Text})})
	}
	return strict.Table([]edit.Member{{Name: hooksKey, Value: strict.Table(lists)}})
}

// HooksTools reports whether the agent's own tools are governed.
func (p *Plan) HooksTools() bool {
	return p.hooked || p.hookFlag != "" || slices.ContainsFunc(p.files, func(f *planned) bool { return f.hooks != nil })
}

// driftOfHooks returns the files whose entries for hooks were removed or changed.
func (p *Plan) driftOfHooks() []Drift {
	var out []Drift
	for _, f := range p.files {
		if f.hooks == nil {
			continue
		}
		now, err := load(f.path, f.syntax())
		written, failed := f.syntax().Read(f.text)
		if err == nil && failed == nil && (now == nil || !hasEntries(now.doc, written)) {
			out = append(out, Drift{agenthook.Server, f.path, Changed})
		}
	}
	return out
}

// hasEntries reports whether doc has all our entries that written has.
func hasEntries(doc, written *edit.Document) bool {
	for name, list := range written.Root().Member(hooksKey).Members() {
		for _, item := range list.Items() {
			if _, ours := hookOwner(hooksIn(item)[0]); !ours {
				continue
			}
			there := doc.Root().Member(hooksKey).Member(name.Text()).Items()
			if !slices.ContainsFunc(there, func(n edit.Node) bool { return edit.Equal(n, item) }) {
				return false
			}
		}
	}
	return true
}

// sameHooks reports whether two texts of a file have the same hooks.
func sameHooks(a, b []byte, syntax edit.Syntax) bool {
	one, err := syntax.Read(a)
	two, failed := syntax.Read(b)
	return cmp.Or(err, failed) == nil && edit.Equal(one.Root().Member(hooksKey), two.Root().Member(hooksKey))
}
