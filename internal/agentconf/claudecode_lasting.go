package agentconf

import "path/filepath"

// Folders returns the folders for which the state file names servers of their
// own.
func (c claudeCode) Folders(env Env) ([]string, error) {
	state, err := load(c.stateFile(env), strict)
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
