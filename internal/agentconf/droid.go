package agentconf

import (
	"path/filepath"
	"slices"
)

// droid finds the servers of Factory's Droid, in a file of the user and in one of the current folder
// and of each above it. The user's counts, then that of the outermost folder.
type droid struct{}

func (droid) Name() string { return "droid" }

func (droid) folder(env Env) string { return filepath.Join(env.Home, ".factory") }

func (d droid) Files(env Env) []string {
	files := []string{filepath.Join(d.folder(env), "mcp.json")}
	for _, dir := range slices.Backward(upwards(env.Cwd)) {
		if path := filepath.Join(dir, ".factory", "mcp.json"); !slices.Contains(files, path) {
			files = append(files, path)
		}
	}
	return env.files(files...)
}

func (d droid) Find(env Env) (*Found, error) {
	found := &Found{}
	var order []*Entry // strongest first
	for i, path := range d.Files(env) {
		scope := scopeUser
		if i > 0 {
			scope = scopeProject
		}
		order = append(order, found.add(path, scope, claudeFormat)...)
	}
	for _, e := range order {
		if e.node().Member("disabled").IsTrue() {
			e.Off = Disabled
		}
	}
	shadow(order)
	return found.result()
}
