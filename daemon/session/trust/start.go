package trust

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"reflect"
	"slices"

	"github.com/thoughtgate/thoughtgated/internal/agentconf"
)

// Launch is what is about to be started.
type Launch struct {
	Server  string
	From    string   // absolute path of the project's file that names it; empty if none does
	Cwd     string   // absolute
	Program string   // absolute path of the program found for the command; empty if none was
	Command []string // as given, with the program first
	Sets    []string // names of the variables that From sets
	Env     []string // NAME=value; the complete environment

	// Remote describes the server if it is behind an address. Then Command and Program are those of the
	// command that prints headers for it, or empty.
	Remote *agentconf.Remote
}

// Start is what a launch would run: what a person sees and accepts.
type Start struct {
	Server  string   `json:"server"`
	Project string   `json:"project"` // absolute
	From    string   `json:"from,omitempty"`
	Command []string `json:"command"`
	Sets    []string `json:"sets,omitempty"`    // names of variables, sorted
	Loaders []Loader `json:"loaders,omitempty"` // loaders that are set
	Files   []File   `json:"files,omitempty"`
	Remote  *Remote  `json:"remote,omitempty"` // if it is behind an address

	// The fields below are only for the person. They follow from those above.
	Alarms []string `json:"alarms,omitempty"` // why to look carefully
	Gaps   []string `json:"gaps,omitempty"`   // what could not be examined
}

// Remote is what a person sees and accepts of a server behind an address. It has no values.
type Remote struct {
	Host      string   `json:"host"`                // perhaps with references to variables
	Headers   []string `json:"headers,omitempty"`   // names, in the order of the file
	Variables []string `json:"variables,omitempty"` // names of those that address and headers use, sorted
	Terms     string   `json:"terms"`               // hex SHA-256 of everything that the file says about it
}

// Loader is a variable that makes other code run inside a program, or decides which program runs.
type Loader struct {
	Name  string `json:"name"`
	Value string `json:"value"` // hex SHA-256 of the value
}

// Role is the role of a file in a launch.
type Role string

const (
	Program     Role = "program"
	Interpreter Role = "interpreter" // of the program, named by its first line
	Script      Role = "script"      // run by the program
	Argument    Role = "argument"    // another file of code that an argument names
)

// File is a file that a command line leads to.
type File struct {
	Role   Role   `json:"role"`
	Path   string `json:"path"`   // absolute, as it was found
	Digest string `json:"digest"` // hex SHA-256 of the content; empty if it could not be read

	// Found reports that the path was chosen by the agent's PATH and not by the project: PATH
	// resolves a bare name to it, outside the project, or it is the interpreter of such a file.
	Found bool `json:"found,omitempty"`

	at string // Path as on disk, which may not be valid UTF-8
}

// digest returns the digest of everything that a person accepts. Each part is preceded by its
// length, so that different starts have different encodings.
func (s *Start) digest() [32]byte {
	h := sha256.New()
	put(h, "start 1")
	puts(h, s.Command)
	puts(h, s.Sets)
	fmt.Fprintf(h, "%d:", len(s.Loaders))
	for _, l := range s.Loaders {
		puts(h, []string{l.Name, l.Value})
	}
	fmt.Fprintf(h, "%d:", len(s.Files))
	for _, f := range s.Files {
		puts(h, []string{string(f.Role), f.Path, f.Digest})
	}
	if r := s.Remote; r != nil {
		put(h, "remote")
		puts(h, r.Headers)
		puts(h, r.Variables)
		puts(h, []string{r.Host, r.Terms})
	}
	return [32]byte(h.Sum(nil))
}

// covers reports whether acceptance of s includes now: everything is equal except programs outside
// the project that PATH resolves from a bare name. Agents change PATH (they are started by npx, by
// nvm, by pyenv), and which program has a name in PATH is decided by the person who set it up. A
// program at the same path must have the same content.
func (s *Start) covers(now *Start) bool {
	if !slices.Equal(s.Command, now.Command) || !slices.Equal(s.Sets, now.Sets) || !slices.Equal(s.Loaders, now.Loaders) ||
		slices.Contains(s.Sets, "PATH") || !reflect.DeepEqual(s.Remote, now.Remote) {
		return false
	}
	var shown, files []string
	known := map[string]string{}
	for _, f := range s.Files {
		if f.Found {
			known[f.Path] = f.Digest
		} else {
			shown = append(shown, string(f.Role), f.Path, f.Digest)
		}
	}
	for _, f := range now.Files {
		digest, same := known[f.Path]
		switch {
		case !f.Found:
			files = append(files, string(f.Role), f.Path, f.Digest)
		case f.Digest == "" || same && digest != f.Digest:
			return false
		}
	}
	return slices.Equal(shown, files)
}

func put(h hash.Hash, part string) { fmt.Fprintf(h, "%d:%s", len(part), part) }

func puts(h hash.Hash, parts []string) {
	fmt.Fprintf(h, "%d:", len(parts))
	for _, part := range parts {
		put(h, part)
	}
}
