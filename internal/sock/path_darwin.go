package sock

import "path/filepath"

const (
	// maxSocketPath is the size of sun_path without its final zero byte.
	maxSocketPath = 103
	shorterPath   = "set HOME to a folder with a shorter path"

	// All users have the same first group here.
	ownGroups = false
)

// DefaultPaths determines the folders from the environment. It creates nothing. A relative HOME is
// an error: each program would use another folder. All three are in one folder, as programs for
// macOS do. The XDG variables are ignored: programs started from the desktop lack them and would
// find another daemon than those started from a terminal.
func DefaultPaths(getenv func(string) string) (Paths, error) {
	home, err := home(getenv)
	if err != nil {
		return Paths{}, err
	}
	base := filepath.Join(home, "Library", "Application Support", "thoughtgate")
	return Paths{Config: base, State: filepath.Join(base, "state"), Runtime: filepath.Join(base, "run")}, nil
}
