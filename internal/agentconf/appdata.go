package agentconf

import (
	"path/filepath"
	"runtime"
)

// system is the operating system, as of runtime.GOOS.
func (env Env) system() string {
	if env.OS != "" {
		return env.OS
	}
	return runtime.GOOS
}

// appData is the folder in which desktop programs have one each for their
// settings.
func (env Env) appData() string {
	if env.system() == "darwin" {
		return filepath.Join(env.Home, "Library", "Application Support")
	}
	return env.xdg("XDG_CONFIG_HOME", ".config")
}

// xdg is the folder that a variable of the XDG base directory specification
// names, or the one below the home. A relative path counts for nothing there.
func (env Env) xdg(name, below string) string {
	if dir, _ := env.LookupEnv(name); filepath.IsAbs(dir) {
		return filepath.Clean(dir)
	}
	return filepath.Join(env.Home, below)
}
