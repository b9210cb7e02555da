package config

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// FileName is the name of the configuration in its folder.
const FileName = "thoughtgate.yaml"

// Variable names the variable of the environment that names the configuration.
const Variable = "THOUGHTGATE_CONFIG"

// builtIn stands where the path of a file would, in places and diagnostics.
const builtIn = "built-in default"

// maxFile is the longest configuration, in bytes.
const maxFile = 1 << 20

//go:embed default.yaml
var defaultYAML []byte

// Find returns the path of the configuration: that of the flag --config, else
// that of $THOUGHTGATE_CONFIG, else thoughtgate.yaml in configDir, the folder
// of ThoughtGate under $XDG_CONFIG_HOME. named reports whether somebody named
// it; then it must be there.
func Find(flag string, getenv func(string) string, configDir string) (path string, named bool) {
	if flag != "" {
		return flag, true
	}
	if path := getenv(Variable); path != "" {
		return path, true
	}
	return filepath.Join(configDir, FileName), false
}

// Open loads what Find found: a file that nobody named and that isn't there is
// the built-in default.
func Open(path string, named bool, getenv func(string) string) (*Config, []Diagnostic) {
	if !named {
		// Lstat, since a link that leads nowhere is a file that somebody meant.
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return Default(), nil
		}
	}
	return Load(path, getenv)
}

// Load reads the file at path and returns what it says together with all that
// is wrong with it, sorted by place. The Config is nil when any of that is an
// error, a missing file among them. getenv looks variables up, as os.Getenv.
func Load(path string, getenv func(string) string) (*Config, []Diagnostic) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, []Diagnostic{unreadable(path, err)}
	}
	text, err := ReadFile(abs, maxFile)
	if err != nil {
		return nil, []Diagnostic{unreadable(path, err)}
	}
	return Parse(abs, text, getenv)
}

func unreadable(path string, err error) Diagnostic {
	d := Diagnostic{File: path, Severity: Error, Message: fmt.Sprintf("the configuration can't be read: %v", err)}
	if errors.Is(err, fs.ErrNotExist) {
		d.Message, d.Hint = "there is no such file", "name an existing one with --config or $"+Variable
	}
	return d
}

// Default returns the configuration that holds where no file exists. It is
// written as a file is, and read by the same code.
func Default() *Config {
	c, problems := parse(builtIn, defaultYAML, func(string) string { return "" }, nil, whole)
	if c == nil {
		panic(fmt.Sprintf("config: the built-in default: %v", problems))
	}
	return c
}
