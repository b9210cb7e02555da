package agentconf

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

func (v vscode) Find(env Env) (*Found, error) {
	found := &Found{}
	if env.Config != "" {
		found.addVSCode(env, vscodeFile{path: env.Config, scope: scopeUser, folder: env.Cwd,
			lists: slices.Concat(vscodeList, mcpServers, settingsLists, workspaceLists)})
		return found.result()
	}
	in := invoked(env)
	if in.elsewhere {
		found.warn(elsewhereWarning)
	}
	workspace := v.workspace(env, in)
	opened := found.addVSCode(env, workspace...)
	for _, dir := range vscodeUserData(env, in) {
		files := v.user(env, in, dir)
		user := found.addVSCode(env, files...)
		found.heed(slices.Concat(workspace, files), slices.Concat(opened, user))
	}
	for _, dir := range v.folders(env, in) {
		found.warnOfContainer(dir)
	}
	return found.result()
}

// addVSCode adds the servers of files that are there and have any, and returns them
// in the order of these.
func (f *Found) addVSCode(env Env, files ...vscodeFile) (order []*Entry) {
	for _, file := range files {
		s, err := load(file.path, lenient)
		if err != nil && !(file.settings && !canHaveServers(file.path)) {
			f.fail(err)
		}
		if s == nil || err != nil {
			continue
		}
		s.vars = editorVariables(env, file.folder)
		s.vars.tilde = true
		format{lists: file.lists, types: []string{portableType}}.read(s, file.scope)
		if filepath.Base(file.path) == projectFile && !s.doc.Root().Member("mcpServers").Exists() {
			s.addFlat(file.scope)
		}
		if file.settings && len(s.Entries) == 0 && (len(s.doc.Doubts()) == 0 || !canHaveServers(file.path)) {
			continue
		}
		f.Sources = append(f.Sources, s)
		for _, e := range s.Entries {
			if file.inactive {
				e.Off = Inactive
			}
			f.warnOfVSCode(e, s.doc.At(e.Path))
		}
		order = append(order, s.Entries...)
	}
	return order
}

// addFlat adds the servers of a file that is the list of servers as a whole. What
// else stands in it is nobody's server.
func (s *Source) addFlat(scope string) {
	s.addServers(scope, nil, portableType)
	s.Entries = slices.DeleteFunc(s.Entries, func(e *Entry) bool {
		n := s.doc.At(e.Path)
		return !n.Member("command").Exists() && !n.Member("url").Exists()
	})
}

// canHaveServers reports whether a settings file that can't be relied on may
// have servers: the editor makes of such a file what it can. An empty one has
// none, and neither has one in which their name does not occur, however spelt.
func canHaveServers(path string) bool {
	f, err := readAnybodys(path)
	return err != nil || slices.ContainsFunc([]string{`"mcp"`, `"mcp.`, `\u`}, func(part string) bool { return strings.Contains(string(f.data), part) })
}

// warnOfVSCode tells of what will not work with an entry as it does without us.
func (f *Found) warnOfVSCode(e *Entry, n edit.Node) {
	if e.Ungoverned != "" {
		return
	}
	if n.Member("dev").Member("debug").Exists() {
		f.warn("the debugger that server %s asks for (dev.debug) would meet %s instead", e.ID, shimName)
	}
	if n.Member("sandboxEnabled").IsTrue() {
		f.warn("server %s runs in the editor's sandbox (sandboxEnabled), which may keep %s from the daemon", e.ID, shimName)
	}
}

// heed applies the settings that concern all servers. Files and entries come
// strongest first.
func (f *Found) heed(files []vscodeFile, order []*Entry) {
	setting := func(name string) edit.Node {
		for _, file := range files {
			if !file.settings || file.inactive {
				continue
			}
			// One that does not parse would have been an error if it mattered.
			root, _ := lookAt(file.path, lenient)
			if n := root.Member(name); n.Exists() {
				return n
			}
		}
		return edit.Node{}
	}
	access := setting("chat.mcp.access").Text()
	for _, e := range order {
		if access == "none" || access == "registry" && !f.node(e).Member("gallery").Exists() {
			e.Off, e.Because = Denied, "chat.mcp.access is "+access
		}
	}
	if setting("chat.mcp.collisionBehavior").Text() != "suffix" {
		shadowBy(strings.ToLower, order)
	}
	const discovery = "chat.mcp.discovery.enabled"
	others := setting(discovery) // true, or whether for each other agent
	on := others.IsTrue()
	for _, agent := range others.Members() {
		on = on || agent.IsTrue()
	}
	if on {
		f.warn("servers that the editor takes from the files of other agents (%s) are not governed", discovery)
	}
}

// devcontainers are the files that say what a container for development is made
// of, in the folder that is opened.
var devcontainers = []string{".devcontainer.json", ".devcontainer/devcontainer.json", ".devcontainer/*/devcontainer.json"}

// warnOfContainer tells of servers that are started in a container.
func (f *Found) warnOfContainer(dir string) {
	for _, pattern := range devcontainers {
		paths, _ := filepath.Glob(filepath.Join(escapeGlob(dir), pattern))
		for _, path := range paths {
			root, _ := lookAt(path, lenient) // a broken one is for whoever makes the container of it
			for name := range root.Member("customizations").Member("vscode").Member("mcp").Member("servers").Members() {
				f.warn("server %s of %s is started in the container, and is not governed", name.Text(), path)
			}
		}
	}
}
