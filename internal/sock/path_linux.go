package sock

import "path/filepath"

const (
	// maxSocketPath is the size of sun_path without its final zero byte.
	maxSocketPath = 107
	shorterPath   = "set XDG_RUNTIME_DIR (or XDG_STATE_HOME, if that is not set) to a folder with a shorter path"

	// If each user has a group of their own, that group may have write access to the folders
	// above.
	ownGroups = true
)

// DefaultPaths determines the folders from the environment, as the XDG base directory specification
// says. It creates nothing. A variable with a relative path is an error: each program would use
// another folder.
func DefaultPaths(getenv func(string) string) (Paths, error) {
	var dirs [3]string
	for i, name := range []string{"XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"} {
		var err error
		if dirs[i], err = absolute(getenv, name); err != nil {
			return Paths{}, err
		}
	}
	config, state, runtime := dirs[0], dirs[1], dirs[2]
	if config == "" || state == "" {
		home, err := home(getenv)
		if err != nil {
			return Paths{}, err
		}
		if config == "" {
			config = filepath.Join(home, ".config")
		}
		if state == "" {
			state = filepath.Join(home, ".local", "state")
		}
	}
	p := Paths{Config: filepath.Join(config, "thoughtgate"), State: filepath.Join(state, "thoughtgate")}
	if runtime == "" {
		p.Runtime = filepath.Join(p.State, "run")
	} else {
		p.Runtime = filepath.Join(runtime, "thoughtgate")
	}
	return p, nil
}
