package agentconf

import (
	"path/filepath"
	"strings"
)

// windsurf finds the servers in the one file of the Windsurf editor; projects have none. The
// editor reloads it when the person says so, and writes it from its settings.
type windsurf struct{}

func (windsurf) Name() string { return "windsurf" }

func (windsurf) Files(env Env) []string {
	folder := "windsurf"
	if name := launcher(env); filepath.Base(name) == "windsurf-next" || strings.Contains(name, "Windsurf - Next.app") {
		folder = "windsurf-next"
	}
	return env.files(filepath.Join(env.Home, ".codeium", folder, "mcp_config.json"))
}

func (w windsurf) Find(env Env) (*Found, error) {
	found := &Found{}
	for _, e := range found.add(w.Files(env)[0], scopeUser, format{syntax: strict, vars: variables{pattern: editorPattern}, lists: mcpServers}) {
		if e.node().Member("disabled").IsTrue() {
			e.Off = Disabled
		}
	}
	return found.result()
}
