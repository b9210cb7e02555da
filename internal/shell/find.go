package shell

import (
	"slices"
	"strings"
)

// Search is what the words of find say.
type Search struct {
	Roots   []Word
	Tests   bool   // there are conditions
	Filters bool   // there are conditions that let only some files through: more than the type, and not negated
	Names   []Word // the names of which one has to fit, if there is no other way
	Empty   bool   // only what is empty
	Deletes bool
	Writes  []Word // files that it writes its findings to

	alternatives bool // there are, or the names do not decide what is done
	acts         bool // it has done something with what it found
	runs         []foundRun
}

// foundRun is a command that find runs for what it finds.
type foundRun struct {
	args []Word
}

// ParseFind reads the words after find.
func ParseFind(args []Word) Search {
	var s Search
	i := 0
	for ; i < len(args); i++ { // options before the roots
		v := args[i].Value
		if v == "-D" {
			i++
		} else if v != "-H" && v != "-L" && v != "-P" && !strings.HasPrefix(v, "-O") {
			break
		}
	}
	for ; i < len(args); i++ {
		v, known := args[i].Literal()
		if known && v != "" && (v[0] == '-' && len(v) > 1 || v == "(" || v == "!" || v == ")" || v == ",") {
			break
		}
		s.Roots = append(s.Roots, args[i])
	}
	if len(s.Roots) == 0 {
		s.Roots = []Word{literalWord(".")}
	}
	negated := false
	for i < len(args) {
		i = s.expression(args, i, &negated)
	}
	return s
}

// expression reads one test or action at i and returns the index after it.
func (s *Search) expression(args []Word, i int, negated *bool) int {
	v := args[i].Value
	was := *negated
	*negated = v == "!" || v == "-not" || v == "(" && was
	test := func(filters bool, words int) int {
		s.Tests = true
		s.Filters = s.Filters || filters && !was
		return i + words
	}
	s.alternatives = s.alternatives || v == "(" && was // what of it is negated is not followed
	s.acts = s.acts || findActions[v]
	switch v {
	case "-exec", "-execdir", "-ok", "-okdir":
		end := i + 1
		for end < len(args) && args[end].Value != ";" && (args[end].Value != "+" || args[end-1].Value != "{}") {
			end++
		}
		s.runs = append(s.runs, foundRun{args[i+1 : end]})
		return end + 1
	case "-delete":
		s.Deletes = true
	case "-o", "-or", ",":
		s.alternatives = true
	case "-name", "-iname":
		s.alternatives = s.alternatives || s.acts // it comes too late
		if i+1 < len(args) && !was {
			s.Names = append(s.Names, args[i+1])
			if args[i+1].Kind == Literal && strings.Trim(args[i+1].Value, "*") == "" {
				return test(false, 2)
			}
		}
		return test(true, 2)
	case "-empty":
		s.Empty = s.Empty || !was
		return test(true, 1)
	case "-type", "-xtype", "-fstype":
		return test(false, 2)
	case "-path", "-ipath", "-wholename", "-iwholename", "-regex", "-iregex", "-size", "-mtime", "-atime", "-ctime", "-mmin", "-amin", "-cmin", "-newer", "-perm",
		"-user", "-group", "-uid", "-gid", "-links", "-inum", "-samefile", "-newermt", "-newerct", "-newerat", "-lname", "-used", "-anewer", "-cnewer":
		return test(true, 2)
	case "-nouser", "-nogroup", "-executable", "-readable", "-writable":
		return test(true, 1)
	case "-mindepth":
		return test(false, 2)
	case "-maxdepth", "-printf", "-regextype":
		return i + 2
	case "-fprint", "-fprint0", "-fls", "-fprintf":
		if i+1 < len(args) {
			s.Writes = append(s.Writes, args[i+1])
		}
		if v == "-fprintf" {
			return i + 3
		}
		return i + 2
	}
	return i + 1
}

// findActions are what find does with what it has found so far.
var findActions = map[string]bool{
	"-exec": true, "-execdir": true, "-ok": true, "-okdir": true, "-delete": true, "-print": true, "-print0": true, "-printf": true,
	"-ls": true, "-fls": true, "-fprint": true, "-fprint0": true, "-fprintf": true,
}

// Found returns a word for what is found below each root.
func (s *Search) Found() []Word {
	var out []Word
	tail := "**"
	if len(s.Names) == 1 && !s.alternatives {
		w := s.Names[0]
		if name := w.Value; strings.Trim(name, "*") != "" && (w.Kind == Literal || w.Kind == Pattern) {
			tail += "/" + name
		}
	}
	for _, root := range s.Roots {
		parts := slices.Clip(root.parts)
		found := part{kind: Pattern, found: true, filtered: s.Filters}
		if s.Tests {
			if v, ok := root.Literal(); !ok || !strings.HasSuffix(v, "/") {
				parts = append(parts, part{text: "/"})
			}
			found.text = tail
		}
		out = append(out, newWord(root.Text+" …", append(parts, found)))
	}
	return out
}

// foundBy returns words for what the output of commands names, if it is what a
// search found: what it found is below where it began, whatever filters it.
func (e *evaluator) foundBy(from []int) []Word {
	all := from
	filtered := false
	for len(from) == 1 && from[0] >= 0 && from[0] < len(e.line.Commands) {
		c := e.line.Commands[from[0]]
		switch c.Program {
		case "grep", "egrep", "fgrep":
			filtered = filtered || !slices.ContainsFunc(c.Args, func(w Word) bool {
				return strings.HasPrefix(w.Value, "-") && !strings.HasPrefix(w.Value, "--") && strings.Contains(w.Value, "v")
			})
			from = c.Stdin
			continue
		case "sort", "head", "tail", "uniq", "shuf", "tac":
			from = c.Stdin
			continue
		case "find":
			s := ParseFind(c.Args)
			s.Filters = s.Filters || filtered
			s.Tests = s.Tests || filtered
			found := s.Found()
			for n, w := range found {
				parts := slices.Clone(w.parts)
				for i := range parts {
					parts[i].from = all
				}
				found[n] = newWord(w.Text, parts)
			}
			return found
		}
		return nil
	}
	return nil
}
