package agentconf

import (
	"errors"
	"path/filepath"
	"slices"
)

// amp finds the servers of Amp, in the settings of the user and in those of the current folder or of
// one above it, up to the repository. Amp asks its user before it starts a server of a folder.
type amp struct{}

// ampKey is the member of the settings that has the servers. The dot is part of its name.
const ampKey = "amp.mcpServers"

func (amp) Name() string { return "amp" }

func (amp) Files(env Env) []string {
	user := filepath.Join(env.xdg("XDG_CONFIG_HOME", ".config"), "amp", "settings.json")
	files := []string{user, user + "c"}
	if given := env.flags("--settings-file"); len(given) > 0 {
		files = []string{absolute(given[len(given)-1], env.Cwd)}
	}
	for _, dir := range slices.Backward(upwards(env.Cwd)) {
		path := filepath.Join(dir, ".amp", "settings.json")
		files = append(files, path, path+"c")
	}
	return env.files(files...)
}

func (a amp) Find(env Env) (*Found, error) {
	if len(env.flags("--mcp-config")) > 0 {
		return nil, errors.New("--mcp-config defines servers on the command line, where they can't be governed; put them into Amp's settings")
	}
	found, user := &Found{}, 2
	if len(env.flags("--settings-file")) > 0 {
		user = 1
	}
	how := format{syntax: lenient, lists: [][]string{{ampKey}}}
	if env.Config == "" {
		found.addManaged(filepath.Join(env.managed("/etc/ampcode", "/Library/Application Support/ampcode"), "managed-settings.json"), scopeSystem, how)
	}
	return found.switchable(a.Files(env), user, how)
}
