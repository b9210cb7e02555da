package agentconf

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/jsonc"
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
	if env.Config != "" {
		return []string{env.Config}
	}
	return []string{filepath.Join(c.folder(env), "claude_desktop_config.json")}
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
	s, err := load(c.Files(env)[0], jsonc.Syntax{})
	if err != nil {
		return nil, err
	}
	if s != nil {
		s.vars = variables{}
		found.Sources = append(found.Sources, s)
		s.addServers(scopeUser, []string{"mcpServers"})
	}
	if names := foldersIn(filepath.Join(c.folder(env), "Claude Extensions")); env.Config == "" && len(names) > 0 {
		found.Warnings = append(found.Warnings, "servers that are extensions of Claude Desktop are not governed: "+strings.Join(names, ", "))
	}
	return found, nil
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
