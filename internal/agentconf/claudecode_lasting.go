package agentconf

import (
	"path/filepath"

	"github.com/thoughtgate/thoughtgated/internal/jsonc"
)

// Folders returns the folders for which the state file names servers of their
// own.
func (c claudeCode) Folders(env Env) ([]string, error) {
	path := c.stateFile(env)
	if env.Config != "" {
		path = env.Config
	}
	state, err := load(path, jsonc.Syntax{})
	if state == nil || err != nil {
		return nil, err
	}
	var folders []string
	for name, project := range state.doc.At([]string{"projects"}).Members() {
		for range project.Member("mcpServers").Members() {
			if filepath.IsAbs(name.Text()) {
				folders = append(folders, name.Text())
			}
			break
		}
	}
	return folders, nil
}
