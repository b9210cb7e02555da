package agentconf

import "path/filepath"

// antigravity finds the servers of Antigravity's terminal program. Its versions have had the user's
// file in three folders; a file that yours does not read does no harm. That of the current folder
// counts.
type antigravity struct{}

func (antigravity) Name() string { return "antigravity" }

func (antigravity) Files(env Env) []string {
	var files []string
	for _, folder := range []string{"antigravity", "antigravity-cli", "config"} {
		files = append(files, filepath.Join(env.Home, ".gemini", folder, "mcp_config.json"))
	}
	return env.files(append(files, filepath.Join(env.Cwd, ".agents", "mcp_config.json"))...)
}

func (a antigravity) Find(env Env) (*Found, error) {
	return (&Found{}).switchable(a.Files(env), 3, format{syntax: strict, lists: mcpServers})
}
