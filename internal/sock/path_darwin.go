package sock

import "path/filepath"

const (
	// maxSocketPath is the size of sun_path without its final zero byte.
	maxSocketPath = 103
	shorterPath   = "set HOME to a folder with a shorter path"

	// All users have the same first group here.
	ownGroups = false
)

// defaultPaths puts all three in one folder, as programs for macOS do. It ignores the XDG
// variables: programs started from the desktop lack them and would find another daemon than
// those started from a terminal.
func defaultPaths(getenv func(string) string) (Paths, error) {
	home, err := home(getenv)
	if err != nil {
		return Paths{}, err
	}
	base := filepath.Join(home, "Library", "Application Support", "thoughtgate")
	return Paths{Config: base, State: filepath.Join(base, "state"), Runtime: filepath.Join(base, "run")}, nil
}
