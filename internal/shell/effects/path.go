package effects

import (
	"path"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/shell"
)

// PathKind says how much of a path is known.
type PathKind int

// The kinds of paths.
const (
	Exact   PathKind = iota // Name is the path, absolute and clean
	Pattern                 // Name is an absolute pattern, as path.Match has it; ** is any number of elements
	Below                   // Name is how it begins; what follows is not known
	Unknown                 // nothing is known but how it ends, which Tail has
)

// A Path is a file or a folder that a command touches.
type Path struct {
	Kind    PathKind
	Name    string
	Tail    string // of Below and Unknown: how it ends, or all of a path in a folder that is not known
	Text    string // the word
	Temp    bool   // it is in a folder for temporary files
	Some    bool   // of what a Pattern covers only what a search let through
	Remote  string // where, if not on this machine
	Command int    // index of Line.Commands: what names it
}

// paths returns the paths that a word of command i names, for each directory
// that it may run in.
func (a *analysis) paths(i int, w shell.Word) []Path { return a.named(i, w, false) }

// named is paths, or entries without what the line has moved there.
func (a *analysis) named(i int, w shell.Word, entry bool) []Path {
	c := &a.line.Commands[i]
	var out []Path
	if v, ok := w.Literal(); ok && v == "" {
		return nil
	}
	for _, dir := range c.Dirs {
		p := resolve(w, dir)
		readings := []Path{p}
		if p.Name != "" {
			written := p
			p.Name = path.Clean(p.Name)
			readings[0] = p
			if c.Remote == "" {
				readings = append(readings, a.lead(written, entry), a.lead(p, entry))
			}
		}
		for _, p := range readings {
			p.Text, p.Remote, p.Command = w.Text, c.Remote, i
			if p.Temp = a.isTemp(p, w); !slices.Contains(out, p) {
				out = append(out, p)
			}
		}
		if p.Kind != Unknown && absolute(w) {
			break // the same wherever it runs
		}
	}
	return out
}

func absolute(w shell.Word) bool {
	return strings.HasPrefix(w.Value, "/") || strings.HasPrefix(w.Prefix, "/")
}

// resolve returns the path of w in dir, with . and .. as written.
func resolve(w shell.Word, dir string) Path {
	switch {
	case w.Kind == shell.Unknown && w.Prefix == "":
		return Path{Kind: Unknown, Tail: w.Suffix}
	case w.Kind == shell.Unknown:
		if name := place(w.Prefix, dir); name != "" {
			return Path{Kind: Below, Name: name, Tail: w.Suffix}
		}
		return Path{Kind: Unknown, Tail: w.Suffix}
	}
	if w.Kind == shell.Pattern {
		dir = escaper.Replace(dir)
	}
	name := place(w.Value, dir)
	switch {
	case name == "":
		return Path{Kind: Unknown, Tail: w.Value}
	case w.Kind == shell.Pattern:
		return Path{Kind: Pattern, Name: name, Some: w.Filtered}
	}
	return Path{Name: name}
}

// isTemp reports whether the path of w is in a folder for temporary files.
func (a *analysis) isTemp(p Path, w shell.Word) bool {
	switch p.Kind {
	case Unknown:
		return w.Kind == shell.Unknown && w.Prefix == "" && !strings.Contains(p.Tail, "..") && a.temporary(w.From) // not $TMPDIR, which is often unset
	case Below:
		return strings.HasSuffix(w.Prefix, "/") && IsTemp(p.Name+"/x") && !strings.Contains(p.Tail, "..")
	}
	return IsTemp(p.Name)
}

// place returns the absolute path of name in dir, or "" if that is not known.
func place(name, dir string) string {
	switch {
	case strings.HasPrefix(name, "/"):
		return name
	case dir == "":
		return ""
	}
	return dir + "/" + name
}

// escaper quotes what a pattern would not take literally.
var escaper = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`)

var tempFolders = []string{"/tmp/", "/var/tmp/", "/private/tmp/", "/private/var/tmp/", "/var/folders/", "/private/var/folders/", "/dev/shm/"}

// IsTemp reports whether an absolute and clean path is in a folder for temporary files.
func IsTemp(name string) bool {
	return slices.ContainsFunc(tempFolders, func(dir string) bool { return strings.HasPrefix(name, dir) })
}

// temporary reports whether words come from mktemp alone.
func (a *analysis) temporary(from []int) bool {
	for _, i := range from {
		if i < 0 || i >= len(a.line.Commands) || a.line.Commands[i].Program != "mktemp" && a.line.Commands[i].Program != "gmktemp" {
			return false
		}
		for _, w := range a.line.Commands[i].Args {
			if v, ok := w.Literal(); !ok || strings.Contains(v, "/") && !IsTemp(path.Clean(v)) {
				return false
			}
		}
	}
	return len(from) > 0
}

// Relation says where a path is, as seen from a folder.
type Relation int

// The relations.
const (
	Outside Relation = iota
	Inside           // strictly below the folder
	Whole            // the folder itself, all that is in it, or what it is in
	Maybe            // not known
)

// In returns where p is as seen from dir, an absolute and clean path.
func (p Path) In(dir string) Relation {
	switch p.Kind {
	case Unknown:
		return Maybe
	case Exact, Below:
		r := Outside
		switch {
		case p.Name == dir || p.Name == "/" || strings.HasPrefix(dir, p.Name+"/"):
			r = Whole
		case strings.HasPrefix(p.Name, dir+"/"):
			r = Inside
		}
		if p.Kind == Below && (r == Whole || strings.Contains(p.Tail, "..")) {
			r = Maybe
		}
		return r
	}
	return relatePattern(strings.Split(p.Name[1:], "/"), strings.Split(strings.TrimPrefix(dir, "/"), "/"))
}

func relatePattern(pattern, dir []string) Relation {
	for len(dir) > 0 {
		if len(pattern) == 0 {
			return Whole
		}
		if pattern[0] == "**" {
			if len(pattern) == 1 {
				return Whole
			}
			return Maybe // something with that name, perhaps in dir
		}
		if ok, err := path.Match(pattern[0], dir[0]); err == nil && !ok {
			return Outside
		}
		pattern, dir = pattern[1:], dir[1:]
	}
	switch {
	case len(pattern) == 0:
		return Whole
	case len(pattern) == 1 && strings.Trim(pattern[0], "*.?") == "":
		return Whole
	}
	return Inside
}
