package agentconf

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// Shipped is a server that a file of a project names: a clone of a repository
// brings along the file, and what it starts with it.
type Shipped struct {
	ID      string
	From    string            // absolute path of the file
	Cwd     string            // absolute, where the agent will start it, as far as that can be told
	Command []string          // and arguments, as the agent will expand them
	Sets    map[string]string // variables that the file sets for it, likewise
	Later   string            // what in Command only the agent knows, when it starts it; empty for nothing
}

// Shipped returns the governed servers that files of a project name and that the
// agent would start, or might.
func (p *Plan) Shipped() []Shipped {
	var out []Shipped
	for _, f := range p.files {
		for s, e := range each(f.sources) {
			if e.From == "" || e.Command == "" || e.Ungoverned != "" || e.Off != Starts && e.Off != Pending {
				continue
			}
			one := Shipped{ID: e.ID, From: e.From, Cwd: p.cwdOf(s, e), Sets: map[string]string{}}
			for _, word := range append([]string{e.Command}, e.Args...) {
				one.Command = append(one.Command, strings.ToValidUTF8(e.vars.word(word, p.env), "\ufffd"))
			}
			for name, value := range e.sets {
				one.Sets[strings.ToValidUTF8(name, "\ufffd")] = strings.ToValidUTF8(e.vars.expand(value, p.env), "\ufffd")
			}
			one.Later = e.vars.later(one.Command)
			out = append(out, one)
		}
	}
	return out
}

// cwdOf returns where the agent will start a server of a project: where the entry
// says, else in the project.
func (p *Plan) cwdOf(s *Source, e *Entry) string {
	project := projectOf(s.Path)
	if slices.Contains(upwards(p.env.Cwd), project) || e.From != s.Path {
		project = p.env.Cwd
	}
	said := e.vars.word(s.doc.At(e.Path).Member("cwd").Text(), p.env)
	if said == "" || p.agent.Name() == (claudeCode{}).Name() { // which does not heed it
		return project
	}
	return absolute(said, project)
}

// share notes that a project's file says something of a server, and sets these
// variables for it, over those that were set: both travel in the shim's own
// arguments.
func (e *Entry) share(from string, env edit.Node) {
	if e.From = cmp.Or(e.From, from); e.sets == nil {
		e.sets = map[string]string{}
	}
	for name, value := range env.Members() {
		e.sets[name.Text()] = value.Text()
	}
}

// merging are the agents that make one entry of all that have its name, member by
// member, and where these stand: in them a project can add to a server of the
// user's own.
var merging = []struct {
	agent          string
	servers        []string
	env            string // what a server's variables stand under
	strongestFirst bool   // are the sources
}{
	{codex{}.Name(), []string{codexKey}, "env", false},
	{opencode{}.Name(), opencodeServers, "environment", true},
}

// shareShipped makes what a project says of a server hold for every entry of that
// name, wherever the agent makes one of them.
func (p *Plan) shareShipped(sources []*Source) {
	for _, m := range merging {
		if m.agent != p.agent.Name() {
			continue
		}
		weakestFirst := slices.Clone(sources)
		if m.strongestFirst {
			slices.Reverse(weakestFirst)
		}
		for _, s := range weakestFirst {
			if !s.inProject(p.env) {
				continue
			}
			for name, said := range s.doc.At(m.servers).Members() {
				for _, e := range each(sources) {
					if e.ID == name.Text() {
						e.share(s.Path, said.Member(m.env))
					}
				}
			}
		}
	}
}

// inProject reports whether a source lies in the folder that the agent works in, or
// above it, and not in the user's home.
func (s *Source) inProject(env Env) bool {
	project := projectOf(s.Path)
	return slices.Contains(upwards(realPath(env.Cwd)), realPath(project)) && !slices.Contains(upwards(realPath(env.Home)), realPath(project))
}

// projectOf is the folder that a project's file is for.
func projectOf(path string) string {
	dir := filepath.Dir(path)
	if strings.HasPrefix(filepath.Base(dir), ".") { // as in .vscode/mcp.json
		return filepath.Dir(dir)
	}
	return dir
}

// isShipped reports whether what a source says in a scope comes with a project:
// since the agent reads it as the project's, or since the file lies in the
// repository that the agent is started in.
func (s *Source) isShipped(scope string, env Env) bool {
	if strings.HasPrefix(scope, scopeProject) || strings.HasPrefix(scope, scopeWorkspace) {
		return true
	}
	root, ok := repository(realPath(env.Cwd))
	if !ok || slices.Contains(upwards(realPath(env.Home)), root) { // what lies in the home is the user's own
		return false
	}
	return strings.HasPrefix(s.file.path, root+"/")
}

// repository returns the folder of the repository that dir lies in.
func repository(dir string) (string, bool) {
	for _, at := range upwards(dir) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return at, true
		}
	}
	return "", false
}

// of is line for one entry.
func (l Line) of(e *Entry) Line {
	l.From, l.Sets = e.From, slices.Sorted(maps.Keys(e.sets))
	return l
}

// A person can give an agent the tools of an extension by an entry that starts the
// shim itself, with --extension and no server behind it. What is asked of them is
// judged already, so such an entry is left as it is; it must be one beyond doubt,
// since whatever is left alone here nobody judges.

// offersTools is why such an entry is not rewritten.
const offersTools = "the tools of an extension: calls of them are judged all the same"

// offered reports whether an entry starts our own shim for an extension, and
// nothing else: another program of the name, or another daemon's socket, could be
// anything, and so could our shim with variables that change what a program does.
func (e *Entry) offered(n server, env Env) bool {
	if len(e.Args) != 2 || e.Args[0] != "--extension" || e.Args[1] == "" || !sameFile(e.vars.word(e.Command, env), env.Shim) {
		return false
	}
	for name, value := range n.env().Members() {
		if name.Text() != envSocket || env.Socket == "" || value.Text() != env.Socket {
			return false
		}
	}
	return true
}

// Offers reports whether the entry starts the tools of an extension: it is left as
// it is, and governed all the same.
func (e *Entry) Offers() bool { return e.offers }
