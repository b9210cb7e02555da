package facts

import (
	"path/filepath"
	"regexp"
	"strings"
)

// path returns which of our paths p names.
func (c *candidate) path(p string) string {
	if c.prose && !c.removes && strings.Trim(p, "/*") == "" {
		return "" // /** begins a comment of a program
	}
	scheme, rest, ok := strings.Cut(p, ":")
	c.loose = len(p) > 2 && p[:2] == "//" && p[2] != '/' // the rest of an URL
	switch {
	case ok && strings.EqualFold(scheme, "file"):
		p = rest
	case ok && strings.HasPrefix(rest, "//") && isScheme(scheme):
		if elsewhere[strings.ToLower(scheme)] {
			return ""
		}
		p, c.loose = rest, true
	}
	// Some readers of addresses take what stands between // and / for a host,
	// and leave it out whatever it is; others do not.
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

// at returns which of our paths p, begun at the folder from, names.
func (c *candidate) at(from, p string) string {
	if c.look.over() {
		return ""
	}
	clean := under(from, p)
	if named := c.compare(clean); named != "" || c.prose || len(clean) > longestFollow {
		return named
	}
	if len(p) > longestFollow { // the system would not take it, but for servers that tidy it up
		from, p = "/", clean
	}
	return c.followed(from, p, clean)
}

// elsewhere are schemes of addresses whose path is one on another machine.
var elsewhere = set("http", "https", "ws", "wss", "ftp", "ftps", "mailto", "data", "ssh", "git", "s3", "gs")

func isScheme(s string) bool {
	for i := range len(s) {
		if !isWord(s[i]) && s[i] != '+' && s[i] != '-' && s[i] != '.' {
			return false
		}
	}
	return s != ""
}

// compare returns which of our paths the clean path p is, is below, or, for a
// tool that takes away what it names, is above. p may be a pattern.
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

// plainPattern puts * in the place of what only some readers of patterns know:
// it means more then, and never less.
func plainPattern(p string) string {
	return strings.ReplaceAll(alternatives.ReplaceAllString(p, "*"), "[!", "[^")
}

// throughSelf reports whether a path goes through what /proc shows of whoever
// looks: to the server it is another one than to us.
func throughSelf(p string) bool {
	for _, self := range []string{"/proc/self/", "/proc/thread-self/"} {
		if rest, ok := strings.CutPrefix(p, self); ok {
			first, _, _ := strings.Cut(rest, "/")
			return first == "cwd" || first == "root" || first == "fd" || first == "task" || first == "map_files"
		}
	}
	return false
}

// commandsRemoval reports whether a text has a word of a shell that takes away
// what is named after it.
func commandsRemoval(text string) bool {
	if len(text) > longestFollow || !strings.Contains(text, " ") {
		return false
	}
	for _, w := range strings.FieldsFunc(text, func(r rune) bool { return r < 0x80 && isPathEnd[byte(r)] }) {
		switch filepath.Base(w) {
		case "rm", "mv", "rmdir", "unlink", "shred", "trash":
			return true
		}
	}
	return false
}

// A path may be in two members: a folder, and a name within it. What both say
// together is looked at once all of them are known.

const (
	mostRoots = 16
	mostParts = 512
)

// collect keeps what may be one half of a path.
func (c *candidate) collect(text string) {
	l := c.look
	if len(text) > longestFollow || !isOnePath(text) || strings.Contains(text, "://") && !strings.HasPrefix(text, "file:") {
		return
	}
	text, _ = c.expanded(strings.TrimSpace(text)) // reads asks where it was too much
	text = strings.TrimPrefix(text, "file://")
	switch i := strings.IndexAny(text, "*?[{"); {
	case strings.HasPrefix(text, "/"):
		if len(l.roots) < mostRoots {
			l.roots = append(l.roots, text)
		}
		return
	case i >= 0:
		text = text[:strings.LastIndexByte(text[:i], '/')+1] // up to where the pattern begins
	}
	if text != "" && text != "." && len(l.parts) < mostParts {
		l.parts = append(l.parts, text)
	}
}

// joined looks at each name in each folder: those that the arguments name, and
// those that the server was started with.
func (l *look) joined() {
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
			if l.over() {
				return
			}
			if named := c.compare(filepath.Join(root, part)); named != "" {
				l.add(Ours, "names "+named+", which is ThoughtGate's own or under its guard", "")
				return
			}
		}
	}
}
