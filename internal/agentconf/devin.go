package agentconf

import "path/filepath"

// devin finds the servers of Devin's terminal program, which the agent of Devin Desktop, once
// Windsurf, shares: in the user's settings, a file beside them, and two of the current folder. The
// last counts.
type devin struct{}

func (devin) Name() string { return "devin" }

// userFile returns the path of the user's settings, also on macOS.
func (devin) userFile(env Env) string {
	return filepath.Join(env.xdg("XDG_CONFIG_HOME", ".config"), "devin", "config.json")
}

func (d devin) Files(env Env) []string {
	user, folder := d.userFile(env), filepath.Join(env.Cwd, ".devin")
	return env.files(user, filepath.Join(filepath.Dir(user), "mcp_config.json"), filepath.Join(folder, "config.json"), filepath.Join(folder, "config.local.json"))
}

func (d devin) Find(env Env) (*Found, error) {
	return (&Found{}).switchable(d.Files(env), 2, format{syntax: lenient, lists: mcpServers})
}
