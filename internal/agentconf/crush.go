package agentconf

import (
	"os"
	"path/filepath"
	"strings"
)

// crush finds the servers of Crush, which merges its files server by server and member by member: those
// of the current folder and of each above it, the state that it writes itself, and the user's. A
// crushrc, a script that may define servers too, is not run.
type crush struct{}

var crushServers = []string{"mcp"}

func (crush) Name() string { return "crush" }

// userFile returns the path of the user's settings.
func (crush) userFile(env Env) string {
	return filepath.Join(env.path("CRUSH_GLOBAL_CONFIG", filepath.Join(env.xdg("XDG_CONFIG_HOME", ".config"), "crush")), "crush.json")
}

func (c crush) Files(env Env) []string {
	var files []string
	for _, dir := range upwards(env.Cwd) {
		files = append(files, filepath.Join(dir, ".crush.json"), filepath.Join(dir, "crush.json"))
	}
	state := env.path("CRUSH_GLOBAL_DATA", filepath.Join(env.xdg("XDG_DATA_HOME", filepath.Join(".local", "share")), "crush"))
	return env.files(append(files, filepath.Join(state, "crush.json"), c.userFile(env))...)
}

func (c crush) Find(env Env) (*Found, error) {
	found := &Found{}
	files := c.Files(env)
	var order []*Entry // strongest first
	var scripts []string
	for i, path := range files {
		script := strings.TrimSuffix(path, ".json") + "rc"
		if _, err := os.Stat(script); err == nil && i != len(files)-2 { // none is read beside its state
			scripts = append(scripts, script)
		}
		scope := scopeProject
		if i >= len(files)-2 {
			scope = scopeUser
		}
		order = append(order, found.add(path, scope, format{syntax: strict, vars: dollarVariables, lists: [][]string{crushServers}})...)
	}
	for _, e := range order {
		if e.node().Member("disabled").IsTrue() {
			e.Off = Disabled
		}
	}
	shadow(order)
	found.leaveOf("servers that scripts define are not governed", scripts)
	return found.result()
}
