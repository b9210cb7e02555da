package agentconf

import (
	"os"
	"path/filepath"
)

// claudeDesktop knows the one file of Claude Desktop, which is the application's
// own as well: it writes its preferences into it. It is read when the application
// starts, and only then.
//
// Servers that were installed as extensions lie in folders beside it, and are not
// governed.
type claudeDesktop struct{}

func (claudeDesktop) Name() string { return "claude-desktop" }

func (c claudeDesktop) Files(env Env) []string {
	return env.files(filepath.Join(c.folder(env), "claude_desktop_config.json"))
}

// folder is where Claude Desktop keeps its settings.
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
		found.warnOf("servers that are extensions of Claude Desktop are not governed", foldersIn(filepath.Join(c.folder(env), "Claude Extensions")))
	}
	return found.result()
}

// foldersIn returns the names of the folders in a folder, which need not be
// there.
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
