package daemon

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/policy"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// ConfigError refuses a configuration and says everything that is wrong with it.
type ConfigError struct {
	Path     string
	Problems []config.Diagnostic
}

func (e *ConfigError) Error() string {
	n := 0
	for _, d := range e.Problems {
		if d.Severity == config.Error {
			n++
		}
	}
	what := "one error"
	if n != 1 {
		what = fmt.Sprintf("%d errors", n)
	}
	return fmt.Sprintf("the configuration %s has %s and nothing is judged under it; mend it and look at it with `tgctl policy check`", e.Path, what)
}

// loaded is a configuration and the set that was made of it.
type loaded struct {
	config *config.Config
	set    *policy.Set
}

// load reads the configuration that Find names and makes the set of it. The
// warnings are returned beside it; with an error nothing is.
func load(path string, named bool, getenv func(string) string, options ...policy.Option) (loaded, []config.Diagnostic, error) {
	cfg, problems := config.Open(path, named, getenv)
	if cfg == nil {
		return loaded{}, nil, &ConfigError{Path: path, Problems: problems}
	}
	set, more := policy.Load(cfg, options...)
	problems = append(problems, more...)
	if set == nil || config.HasErrors(problems) {
		return loaded{}, nil, &ConfigError{Path: path, Problems: problems}
	}
	return loaded{cfg, set}, problems, nil
}

// Check reads the configuration that the flag or the environment names and says
// everything that is wrong with it, as far as it can be said without what a
// daemon knows of servers. The path is empty for the built-in default.
func Check(flag string, getenv func(string) string) (path string, problems []config.Diagnostic, err error) {
	paths, err := sock.DefaultPaths(getenv)
	if err != nil {
		return "", nil, err
	}
	path, named := config.Find(flag, getenv, paths.Config)
	if isProject(path) {
		_, problems := config.LoadProject(path)
		return path, problems, nil
	}
	l, problems, err := load(path, named, getenv)
	var refused *ConfigError
	switch {
	case errors.As(err, &refused):
		return path, refused.Problems, nil
	case err != nil:
		return path, nil, err
	}
	return l.config.Path, problems, nil
}

// isProject reports whether a path names a project's own file, which says less
// than a configuration may.
func isProject(path string) bool { return filepath.Base(path) == config.ProjectFileName }

// tracesWarning says why traces are missing.
func (d *Daemon) tracesWarning() []string {
	if err := d.traces.Failure(); err != nil {
		return []string{fmt.Sprintf("traces are missing at the collector: %v", err)}
	}
	return nil
}

func (d *Daemon) keeperWarning() []string {
	if k := d.options.Keep; k != nil && k.KeeperLost() {
		return []string{"the keeper has ended: if this daemon dies no other is started, and agents lose their servers; `tgctl daemon restart` starts both anew"}
	}
	return nil
}
