package shell

import (
	"path"
	"reflect"
	"slices"
	"strings"
)

// state is what commands of one shell change for those that follow. It is a
// value: a branch or a subshell works on a copy.
type state struct {
	vars     *binding
	dirs     []string // where it may be; "" is a directory that is not known
	previous []string // OLDPWD
	pushed   []string // the directory that popd goes back to
	params   [][]part // the positional parameters
	aliases  map[string]string
	known    bool // whether params are known
	errexit  bool
	physical bool // cd follows links before .., by set -P
	dead     bool // the shell has exited
}

// binding is a variable that was assigned; the newest comes first.
type binding struct {
	parent *binding
	depth  int
	name   string
	value  value
}

func (s state) bind(name string, v value) state {
	depth := 1
	if s.vars != nil {
		depth += s.vars.depth
	}
	s.vars = &binding{s.vars, depth, name, v}
	return s
}

func (s state) lookup(name string) (value, bool) {
	for b := s.vars; b != nil; b = b.parent {
		if b.name == name {
			return b.value, true
		}
	}
	return value{}, false
}

// join returns what holds after either of two ways. A variable that they left
// with different values is not known.
func join(a, b state) state {
	switch {
	case a.dead:
		return b
	case b.dead:
		return a
	}
	dirs := a.dirs
	for _, dir := range b.dirs {
		if !slices.Contains(dirs, dir) {
			dirs = append(slices.Clip(dirs), dir)
		}
	}
	if len(dirs) > 6 {
		dirs = []string{""}
	}
	joined := a
	joined.dirs = dirs
	joined.errexit = a.errexit && b.errexit
	joined.physical = a.physical || b.physical
	if !slices.EqualFunc(a.params, b.params, equalParts) {
		joined.params, joined.known = nil, false
	}
	if len(a.aliases) < len(b.aliases) {
		joined.aliases = b.aliases
	}
	if a.vars != b.vars {
		joined = joinVars(joined, a, b)
	}
	return joined
}

func joinVars(joined, a, b state) state {
	x, y := a.vars, b.vars
	names := map[string]bool{}
	step := func(p **binding) {
		names[(*p).name] = true
		*p = (*p).parent
	}
	for x != y {
		switch {
		case y == nil || x != nil && x.depth > y.depth:
			step(&x)
		case x == nil || y.depth > x.depth:
			step(&y)
		default:
			step(&x)
			step(&y)
		}
	}
	joined.vars = a.vars
	sorted := make([]string, 0, len(names))
	for name := range names {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	for _, name := range sorted {
		v, _ := a.lookup(name)
		w, _ := b.lookup(name)
		if !equalValues(v, w) {
			joined = joined.bind(name, unknownValue("$"+name, union(v.from(), w.from())))
		}
	}
	return joined
}

func (v value) from() []int {
	var from []int
	for _, p := range v.parts {
		from = union(from, p.from)
	}
	return from
}

func equalValues(v, w value) bool {
	return v.isArray == w.isArray && equalParts(v.parts, w.parts) && slices.EqualFunc(v.array, w.array, equalParts)
}

func equalParts(a, b []part) bool {
	return slices.EqualFunc(a, b, func(p, q part) bool { return reflect.DeepEqual(p, q) })
}

// home returns the value of $HOME.
func (s state) home() []part {
	if v, ok := s.lookup("HOME"); ok && !v.isArray {
		return v.parts
	}
	return []part{{kind: Unknown, text: "~", name: "HOME"}}
}

// cd returns the states after cd to the directory that w names, and after it
// failed. A shell removes .. from the text unless it is told otherwise, other
// programs leave it to the system: follow is nil, or tells where that comes to.
func (s state) cd(w Word, follow func(string) (string, bool)) (ok, fail state) {
	ok, fail = s, s
	ok.previous = s.dirs
	ok.dirs = nil
	for _, dir := range s.dirs {
		next := written(dir, w)
		if raw := Join(dir, w); raw != "" && follow != nil {
			next, _ = follow(raw)
		}
		if !slices.Contains(ok.dirs, next) {
			ok.dirs = append(ok.dirs, next)
		}
	}
	return ok, fail
}

// Join returns the absolute path that w names in dir, with . and .. as written,
// or "" if that is not known.
func Join(dir string, w Word) string {
	name, known := w.Literal()
	switch {
	case !known:
		return ""
	case strings.HasPrefix(name, "/"):
		return name
	case dir == "":
		return ""
	}
	return dir + "/" + name
}

// written returns what Join does without . and .. in the text.
func written(dir string, w Word) string {
	if name := Join(dir, w); name != "" {
		return path.Clean(name)
	}
	return ""
}
