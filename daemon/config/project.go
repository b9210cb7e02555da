package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"syscall"
)

// ProjectFileName is the name of the file in which a project says what is asked
// about or denied in it.
const ProjectFileName = ".thoughtgate.yaml"

// maxProject is the longest project file, in bytes.
const maxProject = 64 << 10

// Project is what one .thoughtgate.yaml says. It comes with a repository, and so
// from anybody: it can only make stricter what the user's own configuration says,
// it has no text that a person or a model would read, it names no workflow, and
// it can't look into the environment. It is not changed after it was loaded.
type Project struct {
	cfg *Config
}

// Config returns what the file says as a configuration. Where the file says
// nothing, that configuration forwards.
func (p *Project) Config() *Config { return p.cfg }

// project is the form of a project's file.
var project = form{
	keys: map[reflect.Type][]string{
		reflect.TypeFor[Config](): {"$schema", "schema", "sources", "governance"},
		reflect.TypeFor[Source](): {"id", "command", "enabled", "expose"},
		reflect.TypeFor[Rule]():   {"match", "when", "source", "agent", "method", "action"},
	},
	words: map[reflect.Type][]string{
		reflect.TypeFor[Action](): {string(Forward), string(Deny), string(Approve)},
	},
	why:     "a project's file can only tighten, and has no words for people",
	instead: "that belongs into your own " + FileName,
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
				c.wrong(a, "", "write deny or approve", "a project's file has no policies, so its action can't be policy")
			}
		}
	},
}

// ProjectFiles lists where project files count for a folder, the nearest first:
// in the folder and above it up to root, which is as Root says.
func ProjectFiles(folder, root string) []string {
	var all []string
	for at := folder; ; at = filepath.Dir(at) {
		all = append(all, filepath.Join(at, ProjectFileName))
		if at == root || at == filepath.Dir(at) {
			return all
		}
	}
}

// IsThere reports whether there is anything at path, one of ProjectFiles. What
// can't be looked at is there: it must not be passed over.
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

// Root returns the top of the repository that folder lies in: the nearest
// folder from there upwards that holds .git. Without one it is the folder
// itself: what lies above belongs to others.
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

// LoadProject reads the project file at path. The Project is nil when anything
// is wrong with it. Whoever may write the file is not looked at, since it can
// loosen nothing; but a link is not followed, since what it leads to was not
// written to be read so.
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

// ParseProject reads text as LoadProject reads the file at path, which need not
// exist.
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
		return nil, errors.New("it is a link, and a project's file must be a file")
	}
	return b, err
}
