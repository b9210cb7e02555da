package worktree

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/beneath"
)

const (
	maxRulesBytes = 1 << 20 // of a file of patterns; a longer one is not read
	maxPatterns   = 10_000  // in one file
	maxPattern    = 1000    // bytes of one; a longer one matches nothing
	// patternsBetween is how many patterns are tried until the end of the context is noticed.
	patternsBetween = 16
)

// A rule is one pattern of .gitignore or .gitattributes.
type rule struct {
	parts      []string // of the path below the folder of the file
	base       bool     // parts[0] is a pattern for the last part of a path
	text       string   // what parts[0] stands for or ends in, if it has no other wildcard
	suffix     bool
	negated    bool
	folderOnly bool
}

// rules are the patterns that hold in a folder: its own, and those of the folders above.
type rules struct {
	dir   string // of the files
	above *rules
	done  <-chan struct{} // of the context
	// The last pattern that matches decides.
	ignore, attributes []rule
}

// parsePattern reads a pattern in the syntax of .gitignore. ok is false for a comment.
func parsePattern(line string) (r rule, ok bool) {
	if line == "" || line[0] == '#' {
		return r, false
	}
	if line[0] == '!' {
		r.negated, line = true, line[1:]
	}
	if strings.HasSuffix(line, "/") {
		r.folderOnly, line = true, line[:len(line)-1]
	}
	if line == "" {
		return r, false
	}
	if r.base = !strings.Contains(line, "/"); r.base {
		if text, is := literal(line); is {
			r.text = text
		} else if text, is := literal(line[1:]); is && line[0] == '*' {
			r.text, r.suffix = text, true
		}
	}
	r.parts = strings.Split(strings.TrimPrefix(line, "/"), "/")
	return r, len(line) <= maxPattern
}

// matches reports whether the pattern is for a path below the folder of its file.
func (r *rule) matches(name string, isDir bool) bool {
	if r.folderOnly && !isDir {
		return false
	}
	if !r.base {
		return matchPath(r.parts, strings.Split(name, "/"))
	}
	base := path.Base(name)
	switch {
	case r.suffix:
		return strings.HasSuffix(base, r.text)
	case r.text != "":
		return base == r.text
	}
	return matchPart(r.parts[0], base)
}

// patternLines calls see for each line of a file of patterns, without its end.
func patternLines(text []byte, see func(line string)) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	n := 0
	for line := range bytes.Lines(text) {
		if n++; n > maxPatterns {
			return
		}
		see(strings.TrimSuffix(strings.TrimSuffix(string(line), "\n"), "\r"))
	}
}

func parseIgnore(text []byte) (list []rule) {
	patternLines(text, func(line string) {
		if r, ok := parsePattern(trimSpaces(line)); ok {
			list = append(list, r)
		}
	})
	return list
}

// trimSpaces removes spaces at the end, unless a backslash stands before them.
func trimSpaces(line string) string {
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	return line
}

// parseAttributes reads which files are stored in another form than that in the work tree.
// Line ends are not among it, since they can be seen in a file.
func parseAttributes(text []byte) (list []rule) {
	patternLines(text, func(line string) {
		fields := strings.Fields(line)
		if len(fields) < 2 || strings.HasPrefix(fields[0], "!") {
			return
		}
		converts := slices.ContainsFunc(fields[1:], func(set string) bool {
			name, _, _ := strings.Cut(set, "=")
			return name == "filter" || name == "ident" || name == "working-tree-encoding"
		})
		// One that is unset for some files again is still taken for set, which makes them unclear.
		pattern := strings.Trim(fields[0], `"`)
		if strings.HasPrefix(pattern, "[attr]") {
			pattern = "*" // a name for attributes, which any file may have
		}
		if r, ok := parsePattern(pattern); ok && converts {
			list = append(list, r)
		}
	})
	return list
}

// readRules reads the patterns of the folder dir, which is open as folder. has says which names
// are in it.
func readRules(folder *beneath.Dir, dir string, above *rules, has func(string) bool) (*rules, error) {
	r := &rules{dir: dir, above: above, done: above.done}
	var failed error
	read := func(name string, parse func([]byte) []rule) []rule {
		if !has(name) {
			return nil
		}
		text, err := readFile(folder, name, maxRulesBytes)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, beneath.ErrNotRegular) {
			failed = err
		}
		return parse(text)
	}
	r.ignore = read(".gitignore", parseIgnore)
	r.attributes = read(".gitattributes", parseAttributes)
	if r.ignore == nil && r.attributes == nil {
		return above, failed
	}
	return r, failed
}

// ignores reports whether a file or folder of the work tree is ignored by its own name. What is
// in an ignored folder is ignored as well.
func (r *rules) ignores(name string, isDir bool) bool {
	last := r.last(name, isDir, func(r *rules) []rule { return r.ignore })
	return last != nil && !last.negated
}

// converts reports whether git may store a file in another form than that in the work tree.
func (r *rules) converts(name string) bool {
	return r.last(name, false, func(r *rules) []rule { return r.attributes }) != nil
}

// last returns the pattern that decides about a path, or nil if there is none. It also returns nil
// at the end of the context.
func (r *rules) last(name string, isDir bool, list func(*rules) []rule) *rule {
	for ; r != nil; r = r.above {
		below := name
		if r.dir != "." {
			below = name[len(r.dir)+1:]
		}
		rules := list(r)
		for i := len(rules) - 1; i >= 0; i-- {
			if i%patternsBetween == 0 {
				select {
				case <-r.done:
					return nil
				default:
				}
			}
			if rules[i].matches(below, isDir) {
				return &rules[i]
			}
		}
	}
	return nil
}
