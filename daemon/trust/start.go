package trust

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"slices"
)

// Launch is what is about to be started.
type Launch struct {
	Server  string
	From    string   // absolute path of the project's file that names it; empty when no project does
	Cwd     string   // absolute
	Program string   // absolute path of what was found for the command; empty when nothing was
	Command []string // as given, the program first
	Sets    []string // names of the variables that From sets for it
	Env     []string // NAME=value, all that it will see
}

// Start is what a launch comes down to: what a person is shown, and agrees to.
type Start struct {
	Server  string   `json:"server"`
	Project string   `json:"project"` // absolute
	From    string   `json:"from,omitempty"`
	Command []string `json:"command"`
	Sets    []string `json:"sets,omitempty"`    // names of variables, sorted
	Loaders []Loader `json:"loaders,omitempty"` // that are set
	Files   []File   `json:"files,omitempty"`

	// What follows is for the person only; it follows from what is above.
	Alarms []string `json:"alarms,omitempty"` // why to look twice
	Gaps   []string `json:"gaps,omitempty"`   // what could not be looked at
}

// Loader is a variable that makes other code run inside a program, or decides
// which program that is.
type Loader struct {
	Name  string `json:"name"`
	Value string `json:"value"` // hex SHA-256 of it
}

// Role is what a file is to a launch.
type Role string

const (
	Program     Role = "program"
	Interpreter Role = "interpreter" // of the program, as its first line names it
	Script      Role = "script"      // that the program runs
	Argument    Role = "argument"    // some other file of code that an argument names
)

// File is a file that a command line leads to.
type File struct {
	Role   Role   `json:"role"`
	Path   string `json:"path"`   // absolute, as it was found
	Digest string `json:"digest"` // hex SHA-256 of what is in it; empty when it could not be read

	// Found says that the path is the agent's doing and not the project's: PATH leads
	// there from a bare name, out of the project, or from there an interpreter.
	Found bool `json:"found,omitempty"`

	at string // Path in the bytes that it has on disk, which need not be text
}

// digest is what stands for all that a person agrees to. Each part goes in behind
// its length, so that no two starts read alike.
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
	return [32]byte(h.Sum(nil))
}

// covers reports whether who agreed to s has agreed to what is now: all is the same
// but for programs that PATH leads to from a bare name, and that lie in no project.
// Agents change PATH (they are started by npx, by nvm, by pyenv), and which program
// bears a name there is for whoever set it up. One at the same path is the same only
// with the same content.
func (s *Start) covers(now *Start) bool {
	if !slices.Equal(s.Command, now.Command) || !slices.Equal(s.Sets, now.Sets) || !slices.Equal(s.Loaders, now.Loaders) ||
		slices.Contains(s.Sets, "PATH") {
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
