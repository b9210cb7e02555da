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

// ProjectServer is a server that a project's file names. A clone of a repository includes the file,
// and with it what it starts.
type ProjectServer struct {
	ID      string
	From    string            // absolute path of the file
	Cwd     string            // absolute path where the agent will start it, if known
	Command []string          // program and arguments, expanded as by the agent
	Sets    map[string]string // variables that the file sets for it, likewise
	Later   string            // reference in Command that only the agent can resolve; empty if there is none
	Remote  *Remote           // if it is behind an address, and Command is empty
}

// Shipped returns the governed servers that files of a project name and that the agent would
// start, or might start.
func (p *Plan) Shipped() []ProjectServer {
	var out []ProjectServer
	for _, f := range p.files {
		for _, e := range f.entries {
			if e.From == "" || e.Command == "" && e.Remote == nil || e.Ungoverned != "" || e.Off != Starts && e.Off != Pending {
				continue
			}
			one := ProjectServer{ID: e.ID, From: e.From, Cwd: p.cwdOf(e), Sets: map[string]string{}, Remote: e.Remote}
			for _, word := range e.launch() {
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

// launch returns the program and its arguments, or nil if there is none.
func (e *Entry) launch() []string {
	if e.Command == "" {
		return nil
	}
	return append([]string{e.Command}, e.Args...)
}

// cwdOf returns where the agent will start a server of a project: where the entry says,
// otherwise in the project.
func (p *Plan) cwdOf(e *Entry) string {
	project := projectOf(e.File)
	if slices.Contains(upwards(p.env.Cwd), project) || e.From != e.File {
		project = p.env.Cwd
	}
	said := e.vars.word(e.node().Member("cwd").Text(), p.env)
	if said == "" || p.agent.Name() == (claudeCode{}).Name() { // Claude Code ignores cwd
		return project
	}
	return absolute(said, project)
}

// recordProjectUse records that a project's file names a server and sets these variables for it, which
// override earlier ones. Both are passed in tg-shim's own arguments.
func (e *Entry) recordProjectUse(from string, env edit.Node) {
	if e.From = cmp.Or(e.From, from); e.sets == nil {
		e.sets = map[string]string{}
	}
	for name, value := range env.Members() {
		e.sets[name.Text()] = value.Text()
	}
}

// applyProjectSettings applies what a project says about a server to all entries of that name, if the
// agent merges them.
func (p *Plan) applyProjectSettings(sources []*Source) {
	m := kindOf(p.agent.Name()).merges
	if m.servers == nil {
		return
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
			for e := range each(sources) {
				if e.ID == name.Text() {
					e.recordProjectUse(s.Path, said.Member(m.env))
				}
			}
		}
	}
}

// inProject reports whether a source is in the agent's working folder or above it, and not
// directly in the user's home or above it.
func (s *Source) inProject(env Env) bool {
	project := projectOf(s.Path)
	return slices.Contains(upwards(realPath(env.Cwd)), realPath(project)) && !slices.Contains(upwards(realPath(env.Home)), realPath(project))
}

// projectOf returns the folder that a project's file is for.
func projectOf(path string) string {
	dir := filepath.Dir(path)
	if strings.HasPrefix(filepath.Base(dir), ".") { // as in .vscode/mcp.json
		return filepath.Dir(dir)
	}
	return dir
}

// comesWithProject reports whether a server comes with a project: either the agent says so, or the
// file is in the repository in which the agent is started.
func (e *Entry) comesWithProject(env Env) bool {
	if strings.HasPrefix(e.Scope, scopeProject) || strings.HasPrefix(e.Scope, scopeWorkspace) {
		return true
	}
	root, ok := repository(realPath(env.Cwd))
	if !ok || slices.Contains(upwards(realPath(env.Home)), root) { // files in the home are the user's own
		return false
	}
	return strings.HasPrefix(e.source.file.path, root+"/")
}

// repository returns the folder of the repository that contains dir.
func repository(dir string) (string, bool) {
	for _, at := range upwards(dir) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return at, true
		}
	}
	return "", false
}

// of returns l for one entry.
func (l Line) of(e *Entry) Line {
	l.From, l.Sets, l.Remote = e.From, slices.Sorted(maps.Keys(e.sets)), e.Remote != nil
	return l
}

// A person can give an agent the tools of an extension by an entry that starts tg-shim itself,
// with --extension and without a server. Calls of these tools are judged anyway, so the entry
// is not rewritten. But it must be certain that it is such an entry, because a server that is
// left alone is not judged.

// offersTools is why such an entry is not rewritten.
const offersTools = "the tools of an extension, whose calls are judged anyway"

// offered reports whether an entry starts our own tg-shim for an extension, and nothing else.
// Another program of that name, or another daemon's socket, could be anything, and so could
// tg-shim with variables that change what a program does.
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

// Offers reports whether the entry is for the tools of an extension: it is not rewritten, but
// governed.
func (e *Entry) Offers() bool { return e.offers }
