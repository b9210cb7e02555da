package agentconf

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// opencode finds the servers of opencode.
//
// It merges many files member by member, from the user's folder and the project to files named
// in variables. One file may have a server's command, another its environment, a third only
// that it is off. Since a list replaces a list, the effective command is the complete command
// of one of the files. So all of them are rewritten.
type opencode struct{}

// Scopes of opencode, the strongest first.
const (
	scopeManaged  = "managed"
	scopeContent  = "OPENCODE_CONFIG_CONTENT"
	scopeDir      = "OPENCODE_CONFIG_DIR"
	scopeFolder   = "project .opencode"
	scopeVariable = "OPENCODE_CONFIG"
)

var (
	opencodeServers = []string{"mcp"}
	opencodeNames   = []string{"opencode.jsonc", "opencode.json"} // file names, the strongest first
)

// inVariable is why an entry that is in no file is not rewritten.
const inVariable = "defined in a variable"

func (opencode) Name() string { return "opencode" }

func (o opencode) Files(env Env) []string { return pathsOf(o.places(env)) }

// places returns the paths at which opencode looks for files, strongest first.
func (o opencode) places(env Env) []scoped {
	if env.Config != "" {
		return []scoped{{env.Config, scopeUser}}
	}
	var all []scoped
	in := func(dir, scope string, more ...string) {
		for _, name := range append(slices.Clip(opencodeNames), more...) {
			all = append(all, scoped{filepath.Join(dir, name), scope})
		}
	}
	if dir := env.path("OPENCODE_CONFIG_DIR", ""); dir != "" {
		in(dir, scopeDir)
	}
	home := realPath(env.Home)
	in(filepath.Join(home, ".opencode"), scopeUser)
	if off := env.variable("OPENCODE_DISABLE_PROJECT_CONFIG"); off != "1" && !strings.EqualFold(off, "true") {
		dirs := o.projectDirs(env)
		for _, dir := range slices.Backward(dirs) { // unlike the files beside it, the farthest first
			if dir != home {
				in(filepath.Join(dir, ".opencode"), scopeFolder)
			}
		}
		for _, dir := range dirs {
			in(dir, scopeProject)
		}
	}
	if path := env.path("OPENCODE_CONFIG", ""); path != "" {
		all = append(all, scoped{path, scopeVariable})
	}
	in(o.folder(env), scopeUser, "config.json")
	return all
}

// folder returns the folder with the user's settings.
func (opencode) folder(env Env) string {
	return filepath.Join(env.xdg("XDG_CONFIG_HOME", ".config"), "opencode")
}

// cwd returns the folder in which opencode will work: the one that its first word or a flag
// names, or the current one.
func (opencode) cwd(env Env) string {
	for _, dir := range env.flags("--dir") {
		return absolute(dir, env.Cwd)
	}
	if len(env.Command) > 1 && !strings.HasPrefix(env.Command[1], "-") {
		if info, err := os.Stat(absolute(env.Command[1], env.Cwd)); err == nil && info.IsDir() {
			return absolute(env.Command[1], env.Cwd)
		}
	}
	return env.Cwd
}

// projectDirs returns the folders of the project, nearest first, up to the one with the
// repository.
func (o opencode) projectDirs(env Env) []string {
	all := upwards(realPath(o.cwd(env)))
	for i, dir := range all {
		git := filepath.Join(dir, ".git")
		_, head := os.Stat(filepath.Join(git, "HEAD"))
		if info, err := os.Lstat(git); err == nil && (head == nil || info.Mode().IsRegular()) {
			return all[:i+1]
		}
	}
	return all
}

func (o opencode) Find(env Env) (*Found, error) {
	found := &Found{}
	m := &opencodeMerge{enabled: map[string]bool{}, kind: map[string]string{}}
	dir := env.managed("/etc/opencode", "/Library/Application Support/opencode")
	for _, name := range opencodeNames {
		if s := found.lookAt(filepath.Join(dir, name), lenient); s != nil {
			s.vars = braceVariables
			found.Sources = append(found.Sources, s)
			m.add(s, scopeManaged)
		}
	}
	if text := env.variable(scopeContent); text != "" && env.Config == "" {
		doc, err := lenient.Parse([]byte(text))
		if err != nil {
			return nil, fmt.Errorf("the variable %s: %w", scopeContent, err)
		}
		s := &Source{Path: scopeContent, file: &file{path: scopeContent}, doc: doc, vars: braceVariables}
		found.Sources = append(found.Sources, s)
		m.add(s, scopeContent)
	}
	for _, at := range o.places(env) {
		if s := found.load(at.path, lenient, braceVariables); s != nil {
			m.add(s, at.scope)
		}
	}
	m.completeEntries(found)
	return found.result()
}

// opencodeMerge merges the files, added strongest first.
type opencodeMerge struct {
	order   []*Entry
	enabled map[string]bool   // from the strongest file that has it
	kind    map[string]string // likewise
}

func (m *opencodeMerge) add(s *Source, scope string) {
	for name, n := range s.doc.At(opencodeServers).Members() {
		id := name.Text()
		certain := n.Fixed() == ""
		if on := n.Member("enabled"); certain && (on.IsTrue() || on.IsFalse()) {
			if _, said := m.enabled[id]; !said {
				m.enabled[id] = on.IsTrue()
			}
		}
		if kind := n.Member("type"); certain && kind.Exists() && m.kind[id] == "" {
			m.kind[id] = kind.Text()
		}
		e := readArrayEntry(n)
		if e == nil {
			continue // it only adds to another file's entry
		}
		s.add(e, scope, id, append(slices.Clip(opencodeServers), id)...)
		if scope == scopeManaged || scope == scopeContent {
			e.stays = "it is in no file that could be rewritten"
		}
		switch {
		case e.Ungoverned != "":
		case scope == scopeManaged:
			e.Ungoverned = "set by an administrator in " + s.Path
		case scope == scopeContent:
			e.Ungoverned = inVariable
		}
		m.order = append(m.order, e)
	}
}

// completeEntries completes the entries after all files have been read.
func (m *opencodeMerge) completeEntries(found *Found) {
	var managed, spelt []string
	for _, e := range m.order {
		if on, said := m.enabled[e.ID]; said && !on {
			e.Off = Disabled
		}
		if kind := m.kind[e.ID]; kind != "" && kind != "local" && e.Ungoverned == "" {
			e.leaveAddress("")
			e.Ungoverned, e.stays = e.Ungoverned+", by another file", "several files describe it"
		}
		switch {
		case e.Scope == scopeManaged && e.Command != "":
			managed = append(managed, e.ID)
		case e.Ungoverned == inVariable:
			spelt = append(spelt, e.ID)
		}
	}
	if len(managed) > 0 {
		found.warn("servers set by an administrator are not governed: %s", strings.Join(managed, ", "))
	}
	if len(spelt) > 0 {
		found.unreached = fmt.Sprintf("the variable %s defines servers (%s)", scopeContent, strings.Join(spelt, ", "))
	}
	found.order = m.order
}

// readArrayEntry parses a server whose command is a list of the program and its arguments. It
// returns nil for an entry without a command or URL.
func readArrayEntry(n edit.Node) *Entry {
	e := &Entry{form: listForm}
	command, env := n.Member("command"), n.Member("environment")
	words := texts(command)
	switch {
	case n.Kind() != edit.Object:
		e.refuse("not an object")
	case n.Member("type").Text() == "remote":
		e.leaveAddress("")
	case !command.Exists() && n.Member("url").Exists():
		e.leaveAddress("")
	case !command.Exists():
		return nil
	case len(words) == 0 || words[0] == "" || len(words) != len(command.Items()):
		e.refuse("command is not a list of strings")
	case env.Exists() && env.Kind() != edit.Object && env.Kind() != edit.Null:
		e.refuse("environment is not an object")
	default:
		e.Command, e.Args = words[0], words[1:]
	}
	return e
}

// opencode accepts a whole configuration in a variable, which overrides the files member by
// member. So the variable has only the command of each server and two environment variables.
// The folder, the other environment variables and whether the server is on stay in the files.

// elsewhere are the verbs and flags with which opencode serves several folders, or those of a
// running process.
var elsewhere = []string{"serve", "web", "acp", "attach", "--attach"}

// fileReference matches {file:path} with a relative path, which is looked up beside the file
// that contains it.
var fileReference = regexp.MustCompile(`\{file:[^/~}]`)

func (o opencode) unfaithful(env Env, found *Found) string {
	if word := env.first(elsewhere...); word != "" {
		return "with " + word + " it works in other folders"
	}
	for e := range found.strongest {
		beside := filepath.Dir(e.File) == realPath(o.cwd(env)) || e.Scope == scopeContent
		if !beside && fileReference.MatchString(e.node().Member("command").Raw()) {
			return "the command of " + e.ID + " refers to a file beside " + e.File
		}
	}
	return ""
}

func (o opencode) point(env Env, found *Found, line Line, _ string) (*pointed, error) {
	text := cmp.Or(env.variable(scopeContent), "{}")
	doc, err := lenient.Parse([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("the variable %s: %w", scopeContent, err)
	}
	empty, err := lenient.Value("{}")
	if err != nil {
		return nil, err
	}
	var ops []edit.Op
	var fresh []edit.Member // servers that the variable does not have yet
	for e := range found.strongest {
		if e.Ungoverned != "" && e.Ungoverned != inVariable {
			continue
		}
		at := append(slices.Clip(opencodeServers), e.ID)
		n := doc.At(at)
		if !n.Exists() {
			n = empty
		}
		c := &changes{entry: n, path: at}
		opencodeOnto(c, opencodeCommand(e, line), line)
		for _, l := range tooLow(found.Sources, e.Path, e.limits) {
			if !n.Member(l.key).Exists() { // a value in the variable stays
				c.put(l.key, strconv.Itoa(l.min))
			}
		}
		if n == empty {
			fresh = append(fresh, edit.Member{Name: e.ID, Value: lenient.Table(c.added)})
		} else {
			ops = append(ops, c.all()...)
		}
	}
	switch mcp := doc.At(opencodeServers); {
	case len(fresh) == 0:
	case mcp.Exists():
		ops = append(ops, edit.Add(opencodeServers, fresh...))
	default:
		ops = append(ops, edit.Add(nil, edit.Member{Name: opencodeServers[0], Value: lenient.Table(fresh)}))
	}
	value, err := doc.Edit(ops...)
	if err != nil {
		return nil, fmt.Errorf("the variable %s: %w", scopeContent, err)
	}
	return &pointed{name: scopeContent, value: string(value)}, nil
}

// opencodeCommand returns the command of a server with tg-shim before it. The original words
// keep their text.
func opencodeCommand(e *Entry, line Line) string {
	items := e.node().Member("command").Items()
	words := append([]string{lenient.Quote(line.Shim)}, line.of(e).words(lenient.Quote(e.ID), items[0].Raw(), lenient)...)
	for _, item := range items[1:] {
		words = append(words, item.Raw())
	}
	return lenient.List(words)
}

// opencodeOnto changes the server's entry in the variable to use command.
func opencodeOnto(c *changes, command string, line Line) {
	if !c.entry.Member("type").Exists() {
		c.put("type", lenient.Quote("local"))
	}
	c.put("command", command)
	if c.entry.Member("environment").Kind() == edit.Object {
		c.do(edit.Add(c.at("environment"), line.env(lenient)...))
	} else {
		c.put("environment", lenient.Table(line.env(lenient)))
	}
}
