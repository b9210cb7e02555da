package agentconf

import "path/filepath"

// kiro finds the servers of Kiro's terminal program, in a file of the user and one of the current
// folder, which counts. Servers of its agents' own files are not found.
type kiro struct{}

func (kiro) Name() string { return "kiro" }

func (kiro) Files(env Env) []string {
	files := []string{filepath.Join(env.Home, ".kiro", "settings", "mcp.json")}
	if realPath(env.Cwd) != realPath(env.Home) { // there it is the user's
		files = append(files, filepath.Join(env.Cwd, ".kiro", "settings", "mcp.json"))
	}
	return env.files(files...)
}

func (k kiro) Find(env Env) (*Found, error) {
	found := &Found{}
	agents, _ := filepath.Glob(filepath.Join(escapeGlob(env.Home), ".kiro", "agents", "*.json"))
	more, _ := filepath.Glob(filepath.Join(escapeGlob(env.Cwd), ".kiro", "agents", "*.json"))
	found.leaveOf("servers that an agent of Kiro has in its own file are not governed", append(agents, more...))
	return found.switchable(k.Files(env), 1, claudeFormat)
}
