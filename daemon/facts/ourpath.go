package facts

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// path returns the path of ours that p names, or "".
func (c *candidate) path(p string) string {
	if c.prose && !c.removes && strings.Trim(p, "/*") == "" {
		return "" // /** begins a comment in a program
	}
	scheme, rest, ok := strings.Cut(p, ":")
	c.loose = len(p) > 2 && p[:2] == "//" && p[2] != '/' // the rest of a URL
	switch {
	case ok && strings.EqualFold(scheme, "file"):
		p = rest
	case ok && strings.HasPrefix(rest, "//") && isScheme(scheme):
		if elsewhere[strings.ToLower(scheme)] {
			return ""
		}
		p, c.loose = rest, true
	}
	// Some parsers take the part between // and / for a host and ignore it; others do not.
	if after, ok := strings.CutPrefix(p, "//"); ok {
		if i := strings.IndexByte(after, '/'); i > 0 {
			if named := c.at("/", after[i:]); named != "" {
				return named
			}
		}
	}
	p = strings.TrimLeft(p, "@")
	if p == "" {
		return ""
	}
	if strings.HasPrefix(p, "/") {
		return c.at("/", p)
	}
	for _, from := range []string{c.look.call.Project, c.look.call.Cwd} {
		if from != "" {
			if named := c.at(from, p); named != "" {
				return named
			}
		}
		if c.look.call.Cwd == c.look.call.Project {
			break
		}
	}
	return ""
}

// at returns the path of ours that p, relative to the folder from, names, or "".
func (c *candidate) at(from, p string) string {
	if c.look.isCanceled() {
		return ""
	}
	clean := under(from, p)
	if named := c.compare(clean); named != "" || c.prose || len(clean) > longestFollow {
		return named
	}
	if len(p) > longestFollow { // the system rejects it, but servers may normalize it first
		from, p = "/", clean
	}
	return c.followed(from, p, clean)
}

// elsewhere are URL schemes whose paths are on another machine.
var elsewhere = set("http", "https", "ws", "wss", "ftp", "ftps", "mailto", "data", "ssh", "git", "s3", "gs")

func isScheme(s string) bool {
	for i := range len(s) {
		if !isWord(s[i]) && s[i] != '+' && s[i] != '-' && s[i] != '.' {
			return false
		}
	}
	return s != ""
}

// compare returns the path of ours that is p or contains p. For a tool that removes what it
// names, it may also be below p. p must be clean and may be a pattern.
func (c *candidate) compare(p string) string {
	p = foldPath(p)
	pattern := ""
	if strings.ContainsAny(p, "*?[{(") && len(p) <= longestFollow {
		pattern = plainPattern(p)
	}
	for _, q := range c.paths {
		if p == q || isBelow(p, q) || c.removes && isBelow(q, p) {
			return q
		}
		if begin, ok := strings.CutSuffix(q, "*"); ok && strings.HasPrefix(p, begin) {
			return q
		}
		if pattern != "" && matches(pattern, q) {
			return q
		}
	}
	return ""
}

var alternatives = regexp.MustCompile(`\{[^{}/]*,[^{}/]*\}|[@+?!*]\([^()/]*\)`)

// plainPattern replaces pattern syntax that only some programs support by *, which matches more,
// never less.
func plainPattern(p string) string {
	return strings.ReplaceAll(alternatives.ReplaceAllString(p, "*"), "[!", "[^")
}

// throughSelf reports whether a path goes through the entry of the current process in /proc: the
// server's process is a different one.
func throughSelf(p string) bool {
	for _, self := range []string{"/proc/self/", "/proc/thread-self/"} {
		if rest, ok := strings.CutPrefix(p, self); ok {
			first, _, _ := strings.Cut(rest, "/")
			return first == "cwd" || first == "root" || first == "fd" || first == "task" || first == "map_files"
		}
	}
	return false
}

// commandsRemoval reports whether a text contains a shell command that removes what follows it.
func commandsRemoval(text string) bool {
	if len(text) > longestFollow || !strings.Contains(text, " ") {
		return false
	}
	words := strings.FieldsFunc(text, func(r rune) bool { return r < 0x80 && isPathEnd[byte(r)] })
	return slices.ContainsFunc(words, func(w string) bool { return removalCommands[filepath.Base(w)] })
}

var removalCommands = set("rm", "mv", "rmdir", "unlink", "shred", "trash")

// A path may be split between two members: a folder, and a name in it. The combinations are
// examined when all members are known.

const (
	mostRoots = 16
	mostParts = 512
)

// collect keeps a text that may be one half of a path.
func (c *candidate) collect(text string) {
	l := c.look
	if len(text) > longestFollow || !isOnePath(text) || strings.Contains(text, "://") && !strings.HasPrefix(text, "file:") {
		return
	}
	text, _ = c.expanded(strings.TrimSpace(text)) // reads reports it if expansion was incomplete
	text = strings.TrimPrefix(text, "file://")
	switch i := strings.IndexAny(text, "*?[{"); {
	case strings.HasPrefix(text, "/"):
		if len(l.roots) < mostRoots {
			l.roots = append(l.roots, text)
		}
		return
	case i >= 0:
		text = text[:strings.LastIndexByte(text[:i], '/')+1] // up to the start of the pattern
	}
	if text != "" && text != "." && len(l.parts) < mostParts {
		l.parts = append(l.parts, text)
	}
}

// joined examines each name in each folder: the folders that the arguments name, and those in the
// command of the server.
func (l *inspection) joined() {
	if len(l.parts) == 0 || len(l.own) == 0 {
		return
	}
	c := candidate{look: l, own: l.finder.own, paths: l.own, removes: l.removes}
	for _, arg := range l.call.Command {
		if _, value, ok := strings.Cut(arg, "="); ok && strings.HasPrefix(value, "/") {
			arg = value
		}
		if strings.HasPrefix(arg, "/") && len(arg) <= longestFollow && len(l.roots) < 2*mostRoots {
			l.roots = append(l.roots, arg)
		}
	}
	for _, root := range l.roots {
		for _, part := range l.parts {
			if l.isCanceled() {
				return
			}
			if named := c.compare(filepath.Join(root, part)); named != "" {
				l.add(Ours, "names "+named+", which belongs to ThoughtGate or is protected by it", "")
				return
			}
		}
	}
}
