package agentconf

import (
	"path/filepath"
	"slices"
)

// cursor finds the servers of Cursor, in a file of the user and one in each opened folder,
// which overrides the user's. Its command line agent also reads the folders above.
//
// Cursor stores elsewhere whether a server is switched on or approved.
type cursor struct{}

func (cursor) Name() string { return "cursor" }

func (c cursor) Files(env Env) []string {
	files := []string{c.userFile(env)}
	for _, dir := range c.folders(env) {
		if path := filepath.Join(dir, ".cursor", "mcp.json"); !slices.Contains(files, path) {
			files = append(files, path)
		}
	}
	return env.files(files...)
}

func (cursor) userFile(env Env) string { return filepath.Join(env.Home, ".cursor", "mcp.json") }

// folders returns the folders whose file is read, strongest first.
func (cursor) folders(env Env) []string {
	in := invoked(env)
	if filepath.Base(launcher(env)) == "cursor-agent" {
		return upwards(absolute(in.options["workspace"], env.Cwd))
	}
	return in.folders
}

func (c cursor) Find(env Env) (*Found, error) {
	found := &Found{}
	if invoked(env).elsewhere {
		found.leave(elsewhereWarning)
	}
	var order, user []*Entry // order: strongest first
	for i, path := range c.Files(env) {
		how := format{syntax: strict, vars: editorVariables(env, filepath.Dir(filepath.Dir(path))), lists: mcpServers}
		if i == 0 {
			user = found.add(path, scopeUser, how)
		} else {
			order = append(order, found.add(path, scopeProject, how)...)
		}
	}
	shadow(append(order, user...))
	return found.result()
}

// elsewhereWarning is the warning for an editor that opens something remote.
const elsewhereWarning = "servers on the remote host or in the container that is opened are started there and not governed"

// editorVariables returns the variables of editors that derive from VS Code. folder is their
// workspace.
func editorVariables(env Env, folder string) variables {
	return variables{pattern: editorPattern, own: map[string]string{
		"${userHome}": env.Home, "${workspaceFolder}": folder, "${workspaceFolderBasename}": filepath.Base(folder),
		"${pathSeparator}": "/", "${/}": "/",
	}}
}
