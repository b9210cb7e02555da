package agentconf

import (
	"path/filepath"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/jsonc"
)

// windsurf knows the one file of the Windsurf editor; it has none for a project.
// It rereads it when the person says so, and writes it from its settings.
type windsurf struct{}

func (windsurf) Name() string { return "windsurf" }

func (windsurf) Files(env Env) []string {
	if env.Config != "" {
		return []string{env.Config}
	}
	folder := "windsurf"
	if name := launcher(env); filepath.Base(name) == "windsurf-next" || strings.Contains(name, "Windsurf - Next.app") {
		folder = "windsurf-next"
	}
	return []string{filepath.Join(env.Home, ".codeium", folder, "mcp_config.json")}
}

func (w windsurf) Find(env Env) (*Found, error) {
	found := &Found{}
	s, err := load(w.Files(env)[0], jsonc.Syntax{})
	if s == nil || err != nil {
		return found, err
	}
	s.vars = variables{pattern: editorPattern}
	found.Sources = append(found.Sources, s)
	for _, e := range s.addServers(scopeUser, []string{"mcpServers"}) {
		if s.doc.At(e.Path).Member("disabled").IsTrue() {
			e.Off = Disabled
		}
	}
	return found, nil
}
