package status

import (
	"os"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/host"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// folderTroubles says which of ThoughtGate's directories cannot be written or are on a full
// disk, and how to fix that. auditDir is the daemon's, or "" if no daemon runs.
func (a *app) folderTroubles(auditDir string, writable func(dir string) error, space func(path string) (host.Space, error)) []string {
	paths, err := sock.DefaultPaths(a.Getenv)
	if err != nil {
		return nil // code that needs the paths reports the error
	}
	dirs := []string{paths.State, paths.Runtime}
	if _, err := os.Stat(auditDir); err == nil && auditDir != paths.AuditDir() {
		dirs = append(dirs, auditDir)
	}
	var all []string
	for _, dir := range dirs {
		if what := host.FolderTrouble(dir, writable, space); what != "" {
			all = append(all, what)
		}
	}
	return all
}
