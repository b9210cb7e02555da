package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"syscall"
)

// ProjectFileName is the name of the file in which a project specifies which calls made in it are
// asked about or denied.
const ProjectFileName = ".thoughtgate.yaml"

// maxProject is the maximum length of a project file, in bytes.
const maxProject = 64 << 10

// Project is the content of one .thoughtgate.yaml. The file comes with a repository and is
// untrusted: it can only tighten the user's own configuration, holds no text for a person or a
// model, names no workflow, and cannot read the environment. A Project is immutable.
type Project struct {
	cfg *Config
}

// Config returns the file as a configuration. It forwards whatever the file does not mention.
func (p *Project) Config() *Config { return p.cfg }

// project is the form of a project file.
var project = form{
	keys: map[reflect.Type][]string{
		reflect.TypeFor[Config](): {"$schema", "schema", "sources", "governance"},
		reflect.TypeFor[Source](): {"id", "command", "enabled", "expose"},
		reflect.TypeFor[Rule]():   {"match", "when", "source", "agent", "method", "action"},
	},
	words: map[reflect.Type][]string{
		reflect.TypeFor[Action](): {string(Forward), string(Deny), string(Approve)},
	},
	why:     "a project's file can only tighten the rules, and has no texts for people",
	instead: "write it into your own " + FileName,
	defaults: func(c *Config) {
		c.Governance.Defaults = Defaults{Action: Forward, Asks: Forward}
		c.Unknown = Unknown{Requests: "forward", Notifications: "forward", Revisions: "forward"}
		c.Cedar.Policies = nil
	},
	check: func(c *checker) {
		actions := []*Action{&c.Governance.Defaults.Action, &c.Governance.Defaults.Asks}
		for i := range c.Governance.Rules {
			actions = append(actions, &c.Governance.Rules[i].Action)
		}
		for _, a := range actions {
			if *a == Policy {
				c.reportError(a, "", "write deny or approve", "a project's file has no policies, so its action can't be policy")
			}
		}
	},
}

// ProjectFiles returns the paths at which project files apply to folder, nearest first: in folder
// and its parents up to root. See Root.
func ProjectFiles(folder, root string) []string {
	var all []string
	for at := folder; ; at = filepath.Dir(at) {
		all = append(all, filepath.Join(at, ProjectFileName))
		if at == root || at == filepath.Dir(at) {
			return all
		}
	}
}

// IsThere reports whether anything exists at path, one of ProjectFiles. If path cannot be
// examined, IsThere returns true, so that the file is not skipped.
func IsThere(path string) bool {
	for {
		var is syscall.Stat_t
		switch syscall.Lstat(path, &is) {
		case syscall.EINTR:
		case syscall.ENOENT, syscall.ENOTDIR:
			return false
		default:
			return true
		}
	}
}

// Root returns the root of the repository that contains folder: the nearest folder, from there
// upwards, that contains .git. If there is none it returns folder itself, since what lies above
// may belong to others.
func Root(folder string) string {
	for at := folder; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return at
		}
		if at == filepath.Dir(at) {
			return folder
		}
	}
}

// LoadProject loads the project file at path. The Project is nil if there is any error.
// LoadProject does not check who may write the file, since the file cannot loosen anything. It
// does not follow a link, since the target was not written to be read as a project file.
func LoadProject(path string) (*Project, []Diagnostic) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, []Diagnostic{unreadable(path, err)}
	}
	path = abs
	text, err := readProject(path)
	if err != nil {
		return nil, []Diagnostic{{File: path, Severity: Error, Message: fmt.Sprintf("the project's file can't be read: %v", err)}}
	}
	return ParseProject(path, text)
}

// ParseProject parses text as LoadProject does for the file at path, which need not exist.
func ParseProject(path string, text []byte) (*Project, []Diagnostic) {
	c, ds := parse(path, text, nil, nil, project)
	if c == nil {
		return nil, ds
	}
	c.Path = path
	return &Project{c}, ds
}

func readProject(path string) ([]byte, error) {
	b, err := readRegular(path, syscall.O_NOFOLLOW, maxProject, nil)
	if errors.Is(err, syscall.ELOOP) {
		return nil, errors.New("it is a symbolic link; a project's file must be a regular file")
	}
	return b, err
}
