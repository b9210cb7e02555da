package agentconf

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// How agents find and read their files, including those that are never rewritten.

// readSettings reads a settings file of any owner. If there is no file, the node does not exist.
func readSettings(path string, syntax edit.Syntax) (edit.Node, error) {
	doc, err := readSettingsFile(path, syntax)
	if doc == nil || err != nil {
		return edit.Node{}, err
	}
	return doc.Root(), nil
}

// readSettingsFile is readSettings for the whole file. It returns nil if there is none.
func readSettingsFile(path string, syntax edit.Syntax) (*edit.Document, error) {
	f, err := readFileOfAnyOwner(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	doc, err := parseSettled(f, syntax, shortSettleTimeout)
	if err == nil {
		doc, err = edit.RequireNoDoubts(doc, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return doc, nil
}

// scoped is the path of a file and its scope in the agent's terms.
type scoped struct{ path, scope string }

func pathsOf(files []scoped) []string {
	var paths []string
	for _, f := range files {
		paths = append(paths, f.path)
	}
	return paths
}

// format is an agent's format of a file that names servers.
type format struct {
	syntax edit.Syntax
	vars   variables
	lists  [][]string // paths of the lists of servers
	types  []string   // the agent's names for local servers, besides stdio
	remote []string   // members that only remote servers have
}

var mcpServers = [][]string{{"mcpServers"}}

// add adds a file, if it exists, and returns its servers. [Found.result] returns any error.
func (f *Found) add(path, scope string, how format) []*Entry {
	s := f.load(path, how.syntax, how.vars)
	if s == nil {
		return nil
	}
	return how.read(s, scope)
}

// read adds the servers of a file to s.
func (how format) read(s *Source, scope string) []*Entry {
	for _, list := range how.lists {
		s.addServers(scope, list, how.types...)
	}
	for _, e := range s.Entries {
		if slices.ContainsFunc(how.remote, func(name string) bool { return e.node().Member(name).Exists() }) {
			e.leaveAddress("") // even if it has a command
		}
		if e.node().Member("tcp").Exists() {
			e.stays = "its transport is not supported"
		}
	}
	return s.Entries
}

// load is add without the servers. It returns nil if the file does not exist or can't be read.
func (f *Found) load(path string, syntax edit.Syntax, vars variables) *Source {
	s, err := load(path, syntax)
	f.setError(err)
	if s == nil || err != nil {
		return nil
	}
	s.vars = vars
	f.Sources = append(f.Sources, s)
	return s
}

// setError keeps the first error.
func (f *Found) setError(err error) {
	f.err = cmp.Or(f.err, err)
}

// result returns the results of Find.
func (f *Found) result() (*Found, error) {
	if f.err != nil {
		return nil, f.err
	}
	return f, nil
}

// switchable adds files, the weakest first, of which the first count ones are the user's and the
// others come with a project, and returns the results of Find. An entry with disabled is off.
func (f *Found) switchable(files []string, count int, how format) (*Found, error) {
	var order []*Entry // strongest first
	for i, path := range slices.Backward(files) {
		scope := scopeUser
		if i >= count {
			scope = scopeProject
		}
		order = append(order, f.add(path, scope, how)...)
	}
	for _, e := range order {
		if e.node().Member("disabled").IsTrue() {
			e.Off = Disabled
		}
	}
	shadow(order)
	return f.result()
}

func (f *Found) warn(format string, args ...any) {
	f.Warnings = append(f.Warnings, fmt.Sprintf(format, args...))
}

// leave is warn about servers that are not governed and that no entry stands for.
func (f *Found) leave(format string, args ...any) {
	f.warn(format, args...)
	f.left = append(f.left, f.Warnings[len(f.Warnings)-1])
}

// leaveOf is leave with a list of names, unless there are none.
func (f *Found) leaveOf(what string, names []string) {
	if len(names) > 0 {
		f.leave("%s: %s", what, strings.Join(names, ", "))
	}
}

// addManaged adds a file that an administrator placed. Its servers count, but are not
// rewritten.
func (f *Found) addManaged(path, scope string, how format) []*Entry {
	s := f.lookAt(path, how.syntax)
	if s == nil {
		return nil
	}
	return f.leaveManaged(s, how.read(s, scope))
}

// lookAt returns a file that is not rewritten, or nil if it does not exist or can't be read.
func (f *Found) lookAt(path string, syntax edit.Syntax) *Source {
	doc, err := readSettingsFile(path, syntax)
	f.setError(err)
	if doc == nil || err != nil {
		return nil
	}
	return &Source{Path: path, file: &file{path: path}, doc: doc}
}

// leaveManaged adds an administrator's source with these entries, which become ungoverned.
func (f *Found) leaveManaged(s *Source, entries []*Entry) []*Entry {
	var names []string
	for _, e := range entries {
		e.stays = "an administrator set it in " + s.Path
		if e.Ungoverned == "" {
			e.Ungoverned = "set by an administrator in " + s.Path
			names = append(names, e.ID)
		}
	}
	if len(entries) > 0 {
		f.Sources = append(f.Sources, s)
	}
	if len(names) > 0 {
		f.warn("servers that an administrator set in %s are not governed: %s", s.Path, strings.Join(names, ", "))
	}
	return entries
}

// managed returns the folder of an administrator's settings.
func (env Env) managed(linux, darwin string) string {
	switch {
	case env.System != "":
		return env.System
	case env.system() == "darwin":
		return darwin
	}
	return linux
}

// variable returns the value of a variable, or "" if it is not set.
func (env Env) variable(name string) string {
	value, _ := env.LookupEnv(name)
	return value
}

// path returns the path in a variable, or other if it is not set.
func (env Env) path(variable, other string) string {
	if path := env.variable(variable); path != "" {
		return absolute(path, env.Cwd)
	}
	return other
}

// files returns paths, or the one file that replaces them.
func (env Env) files(paths ...string) []string {
	if env.Config != "" {
		return []string{env.Config}
	}
	return paths
}

// words returns the arguments of the command line up to `--`.
func (env Env) words() []string {
	words := env.Command[min(1, len(env.Command)):]
	if end := slices.Index(words, "--"); end >= 0 {
		words = words[:end]
	}
	return words
}

// flags returns the values of a flag in the command line, in order. It accepts `name value` and
// `name=value`, and stops at `--`.
func (env Env) flags(names ...string) []string {
	var values []string
	for i, word := range env.words() {
		name, value, direct := strings.Cut(word, "=")
		switch {
		case !slices.Contains(names, name):
		case direct:
			values = append(values, value)
		case i+2 < len(env.Command):
			values = append(values, env.Command[i+2])
		}
	}
	return values
}

// first returns the first word of the command line that is one of words, with or without a
// value after it, or "" if there is none. It stops at `--`.
func (env Env) first(words ...string) string {
	for _, word := range env.words() {
		if name, _, _ := strings.Cut(word, "="); slices.Contains(words, name) {
			return name
		}
	}
	return ""
}

// system returns the operating system, as runtime.GOOS.
func (env Env) system() string {
	if env.OS != "" {
		return env.OS
	}
	return runtime.GOOS
}

// appData returns the folder that contains the settings folders of desktop programs.
func (env Env) appData() string {
	if env.system() == "darwin" {
		return filepath.Join(env.Home, "Library", "Application Support")
	}
	return env.xdg("XDG_CONFIG_HOME", ".config")
}

// xdg returns the folder in a variable of the XDG base directory specification, or the folder
// below the home. The specification says to ignore relative paths.
func (env Env) xdg(name, below string) string {
	if dir, _ := env.LookupEnv(name); filepath.IsAbs(dir) {
		return filepath.Clean(dir)
	}
	return filepath.Join(env.Home, below)
}
