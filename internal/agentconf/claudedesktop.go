package agentconf

import (
	"os"
	"path/filepath"
)

// claudeDesktop finds the servers in the one file of Claude Desktop. The application also
// writes its preferences to it, and reads it only when it starts.
//
// Servers installed as extensions are in folders beside it and are not governed.
type claudeDesktop struct{}

func (claudeDesktop) Name() string { return "claude-desktop" }

func (c claudeDesktop) Files(env Env) []string {
	return env.files(filepath.Join(c.folder(env), "claude_desktop_config.json"))
}

// folder returns Claude Desktop's settings folder.
func (claudeDesktop) folder(env Env) string {
	if dir := invoked(env).options["user-data-dir"]; dir != "" {
		return absolute(dir, env.Cwd)
	}
	return filepath.Join(env.appData(), "Claude")
}

func (c claudeDesktop) Find(env Env) (*Found, error) {
	found := &Found{}
	found.add(c.Files(env)[0], scopeUser, format{syntax: strict, lists: mcpServers})
	if env.Config == "" {
		found.leaveOf("servers in extensions of Claude Desktop are not governed", foldersIn(filepath.Join(c.folder(env), "Claude Extensions")))
	}
	return found.result()
}

// foldersIn returns the names of the folders in dir, which need not exist.
func foldersIn(dir string) []string {
	entries, _ := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}
