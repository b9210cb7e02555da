package effects

import (
	"path"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/shell"
)

// A word names a path in two ways: by its text without . and .., as many programs read it, and as
// the system reads it, which follows links first. Links are on the disk or made by the line itself,
// which also gives files new names. What they lead to is found by where it was before the line.

// An alias is what the line makes of a path.
type alias struct {
	to    string // absolute; "" if it is not known
	moved bool   // what was at to has this name now; otherwise this is a link
	maybe bool   // or the name is a folder, and the new one is in it
}

// A Move is a file or folder that the line gives another name.
type Move struct {
	From Path
	To   string // absolute and clean; a pattern if From is one; "" if it is not known

	word  shell.Word // that names it
	below string     // how it begins, if that is all that is known
}

const (
	maxFollowed = 40
	maxAliases  = 4000
	maxCompared = 32 << 20 // bytes of paths that are compared with aliases and moves
)

// costs says as how many bytes a path counts that is compared with a move.
var costs = [...]int{Exact: 8, Pattern: 256, Below: 8, Unknown: 8}

// compare reports whether n more bytes of paths may be compared.
func (a *analysis) compare(n int) bool {
	a.compared += n
	a.effects.Truncated = a.effects.Truncated || a.compared > maxCompared
	return a.compared <= maxCompared
}

// through returns what the line made of the first part of a path of which it made something, and
// what follows that part.
func (a *analysis) through(name string) (made alias, rest string, ok bool) {
	if len(a.aliases) == 0 || !a.compare(len(name)*strings.Count(name, "/")) {
		return alias{}, "", false
	}
	for i := 1; i <= len(name) && (!ok || made.maybe); i++ {
		if i == len(name) || name[i] == '/' {
			if next, found := a.aliases[path.Clean(name[:i])]; found {
				made, rest, ok = next, name[i:], true
			}
		}
	}
	return made, rest, ok
}

// onDisk returns where a path led before the line, and whether a folder was there.
func (a *analysis) onDisk(name string) (end string, isFolder bool) {
	if a.line.Follow == nil {
		return path.Clean(name), false
	}
	return a.line.Follow(name)
}

// isFolder reports whether a folder was there before the line.
func (a *analysis) isFolder(p Path) bool {
	if p.Kind != Exact || p.Remote != "" {
		return false
	}
	_, is := a.onDisk(p.Name)
	return is
}

// follow returns where a path leads. It reports false for a link whose target is not known, and
// returns what follows that.
func (a *analysis) follow(name string) (end string, known bool) {
	for range maxFollowed {
		made, rest, ok := a.through(name)
		if ok && made.to == "" {
			return rest, false
		}
		if ok {
			name = made.to + rest
		}
		end, _ := a.onDisk(name)
		if ok && made.moved || !ok && (end == name || len(a.aliases) == 0) {
			return end, true
		}
		if !ok {
			name = end
		}
	}
	return path.Clean(name), true
}

// lead returns p with the name to which its name leads. A link that it names itself is only followed
// if its file is opened, and not if p is an entry of a folder.
func (a *analysis) lead(p Path, entry bool) Path {
	n := len(p.Name)
	if i := strings.IndexAny(p.Name, `*?[\`); p.Kind == Pattern && i >= 0 {
		n = i
	}
	if last := p.Name[strings.LastIndexByte(p.Name, '/')+1:]; p.Kind == Below || n < len(p.Name) || entry && last != "" && last != "." && last != ".." {
		n = strings.LastIndexByte(p.Name[:n], '/') + 1
	}
	rest := p.Name[n:]
	if i := strings.LastIndex(rest, "/../"); p.Kind == Pattern && i >= 0 {
		return Path{Kind: Unknown, Tail: rest[i+len("/../"):]} // what the pattern matches may be links
	}
	end, known := a.follow(p.Name[:n])
	if !known {
		return Path{Kind: Unknown, Tail: path.Join(end, rest)}
	}
	p.Name = path.Join(end, rest)
	return p
}

// entries returns the paths that a word of command i names as entries of folders: they are deleted
// or renamed, and not what links in them lead to. Of what the line has moved there that is what it
// was before.
func (a *analysis) entries(i int, w shell.Word) []Path {
	paths := a.named(i, w, true)
	for _, m := range a.effects.Moves {
		from := m.From
		from.Command, from.Text = i, w.Text
		isDeleted := slices.ContainsFunc(paths, func(p Path) bool { return a.compare(costs[p.Kind]) && m.isIn(p) }) || w.Kind == shell.Unknown &&
			(w.Text == m.word.Text || slices.ContainsFunc(m.word.From, func(n int) bool { return slices.Contains(w.From, n) }))
		if isDeleted && !slices.Contains(paths, from) && !a.isReplaced(&m) {
			paths = append(paths, from)
		}
	}
	return paths
}

// isReplaced reports whether the line has written a file again after it moved it: that is as if it
// had overwritten it.
func (a *analysis) isReplaced(m *Move) bool {
	writes := func(name string, after func(p Path) bool) bool {
		return a.compare(costs[Exact]*len(a.effects.Writes)) && slices.ContainsFunc(a.effects.Writes, func(p Path) bool { return p.Name == name && after(p) })
	}
	return !a.isFolder(m.From) && writes(m.From.Name, func(p Path) bool {
		byNewName := writes(m.To, func(q Path) bool { return q.Command == p.Command })
		return p.Command > m.From.Command && !byNewName
	})
}

// isIn reports whether a path that is deleted holds what was moved, or part of it where that is not
// the same as part of what it was before.
func (m *Move) isIn(p Path) bool {
	to := m.To
	if to == "" {
		to = m.below
	}
	switch {
	case to == "" || p.Kind == Unknown || p.Kind == Below || p.Remote != "":
		return false
	case m.From.Kind != Pattern && p.Kind == Exact:
		rest, is := strings.CutPrefix(to, p.Name)
		return is && (rest == "" || rest[0] == '/')
	case m.From.Kind != Pattern || m.To == "":
		return p.In(to) == Whole
	}
	matched, _ := path.Match(m.To, p.Name)
	return matched || m.To == p.Name || p.In(path.Dir(m.To)) == Whole
}

// renames notes that sources get another name, or links that lead to them: to, or one in the folder
// that to is. A name that is a folder for sure is none of the new ones.
func (k *call) renames(sources []shell.Word, to shell.Word, isFolder, isName bool, note func(source, to shell.Word, dest Path, maybe bool)) {
	for _, dest := range k.named(k.index, to, false) {
		for _, source := range sources {
			switch {
			case len(k.aliases)+len(k.effects.Moves) > maxAliases:
				k.effects.Truncated = true
				return
			case dest.Kind != Exact || dest.Remote != "":
				note(source, to, dest, false)
				continue
			case !isFolder:
				note(source, to, dest, !isName)
			}
			if base := path.Base(source.Value); !isName && base != "." && base != ".." {
				inFolder := dest
				inFolder.Name = path.Clean(baseOf(source, dest.Name).Value)
				note(source, to, inFolder, false)
			}
		}
	}
}

// moved notes what is moved.
func (k *call) moved(source, to shell.Word, dest Path, maybe bool) {
	m := Move{word: to}
	switch {
	case dest.Remote != "":
	case dest.Kind == Exact:
		m.To = dest.Name
	case dest.Kind == Below:
		m.below = dest.Name
	}
	for _, m.From = range k.entries(k.index, source) {
		k.effects.Moves = append(k.effects.Moves, m)
		from := m.From
		if from.Kind != Exact || m.To == "" {
			continue
		}
		made, ok := k.aliases[from.Name]
		if !ok || made.moved {
			made = alias{to: from.Name, moved: true}
		}
		made.maybe = maybe
		k.aliases[m.To] = made
	}
}

// linked notes a link.
func (k *call) linked(source, _ shell.Word, at Path, maybe bool) {
	if at.Kind != Exact || at.Remote != "" {
		return
	}
	made := alias{maybe: maybe}
	_, symbolic := k.flag("s")
	target, known := source.Literal()
	switch {
	case known && symbolic && !strings.HasPrefix(target, "/"):
		made.to = path.Dir(at.Name) + "/" + target
	case known && symbolic:
		made.to = target
	default:
		for _, from := range k.named(k.index, source, false) {
			if from.Kind == Exact {
				made.to = from.Name
			}
		}
	}
	k.aliases[at.Name] = made
}
