package agentconf

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

func (v vscode) Find(env Env) (*Found, error) {
	found := &Found{}
	if env.Config != "" {
		_, err := found.addVSCode(env, vscodeFile{path: env.Config, scope: scopeUser, folder: env.Cwd,
			lists: slices.Concat(vscodeList, portableList, settingsLists, workspaceLists)})
		return found, err
	}
	in := invoked(env)
	if in.elsewhere {
		found.Warnings = append(found.Warnings, elsewhereWarning)
	}
	workspace := v.workspace(env, in)
	opened, err := found.addAllVSCode(env, workspace)
	if err != nil {
		return nil, err
	}
	for _, dir := range vscodeUserData(env, in) {
		files := v.user(env, in, dir)
		user, err := found.addAllVSCode(env, files)
		if err != nil {
			return nil, err
		}
		found.heed(slices.Concat(workspace, files), slices.Concat(opened, user))
	}
	for _, dir := range v.folders(env, in) {
		found.warnOfContainer(dir)
	}
	return found, nil
}

// addAllVSCode adds the servers of files, and returns them in the order of these.
func (f *Found) addAllVSCode(env Env, files []vscodeFile) ([]*Entry, error) {
	var order []*Entry
	for _, file := range files {
		entries, err := f.addVSCode(env, file)
		if err != nil {
			return nil, err
		}
		order = append(order, entries...)
	}
	return order, nil
}

// addVSCode adds the servers of one file, if it is there and has any.
func (f *Found) addVSCode(env Env, file vscodeFile) ([]*Entry, error) {
	s, err := load(file.path, lenient)
	if err != nil && file.settings && !canHaveServers(file.path) {
		return nil, nil
	}
	if s == nil || err != nil {
		return nil, err
	}
	s.vars = editorVariables(env, file.folder)
	s.vars.tilde = true
	for _, list := range file.lists {
		s.addServers(file.scope, list, portableType)
	}
	if filepath.Base(file.path) == projectFile && !s.doc.Root().Member("mcpServers").Exists() {
		s.addFlat(file.scope)
	}
	if file.settings && len(s.Entries) == 0 && (len(s.doc.Doubts()) == 0 || !canHaveServers(file.path)) {
		return nil, nil
	}
	f.Sources = append(f.Sources, s)
	for _, e := range s.Entries {
		if file.inactive {
			e.Off = Inactive
		}
		f.warnOfVSCode(e, s.doc.At(e.Path))
	}
	return s.Entries, nil
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
		f.Warnings = append(f.Warnings, fmt.Sprintf("the debugger that server %s asks for (dev.debug) would meet %s instead", e.ID, shimName))
	}
	if n.Member("sandboxEnabled").IsTrue() {
		f.Warnings = append(f.Warnings, fmt.Sprintf("server %s runs in the editor's sandbox (sandboxEnabled), which may keep %s from the daemon", e.ID, shimName))
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
			root, err := readSettings(file.path)
			if n := root.Member(name); err == nil && n.Exists() {
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
		f.Warnings = append(f.Warnings, "servers that the editor takes from the files of other agents ("+discovery+") are not governed")
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
			root, err := readSettings(path)
			if err != nil {
				continue // for whoever makes the container of it
			}
			for name := range root.Member("customizations").Member("vscode").Member("mcp").Member("servers").Members() {
				f.Warnings = append(f.Warnings, fmt.Sprintf("server %s of %s is started in the container, and is not governed", name.Text(), path))
			}
		}
	}
}
