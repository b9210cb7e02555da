package facts

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// own knows what is ThoughtGate's, and whether a text names some of it. Rules
// can't change that it asks: a call through the gate must not change the gate.
//
// A path is compared twice: as it is written, with . and .. taken out, which is
// how many servers read it, and as the system would follow it, links and all.
type own struct {
	given func() []string
	home  string

	mu    sync.Mutex
	last  []string  // what given returned when set was made
	until time.Time // links may have changed since
	set   []string  // given, clean, with and without links followed
	// The project asked for last, and where its links lead.
	folder, led string
	roots       map[string]bool // what / holds, and how long that is taken to be so
	read        time.Time
	most        int              // files of ours that are compared; see mostFiles
	files       map[inode]string // what own.inodes found last, and when it began to look
	filed       time.Time

	// slots bounds how many links are being followed at once: a file system
	// that doesn't answer (a dead network mount) holds up one call, which its
	// shim's deadline refuses, and never all of them.
	slots chan struct{}
}

const (
	mostFollowed  = 1 << 16         // paths of one call whose links are followed, each once; past that it asks
	mostFiles     = 1 << 16         // files of ours that may have other names; past that each file with several asks
	longestFollow = 4096            // a longer one is no path, and of longer text only the words are read
	ownFresh      = 2 * time.Second // how long links of ours are taken to stay
	mostLinks     = 40
	mostExpanded  = 16 << 20 // bytes of folders that are put into one text for ~ and variables; past that it asks
	slotPatience  = 100 * time.Millisecond
)

func newOwn(o Options) *own {
	if o.Ours == nil {
		o.Ours = func() []string { return nil }
	}
	return &own{given: o.Ours, home: o.Home, most: mostFiles, slots: make(chan struct{}, 8)}
}

// paths returns what is ours now, each path as it was given and as it is when
// links are followed, folded as the platform folds names. anew is for a call that waited
// for others, which may have changed links a moment ago.
func (o *own) paths(ctx context.Context, anew bool) []string {
	given := o.given()
	o.mu.Lock()
	defer o.mu.Unlock()
	if !anew && slices.Equal(given, o.last) && time.Now().Before(o.until) {
		return o.set
	}
	set := []string{}
	for _, p := range given {
		led, _, _ := follow(ctx, "/", p)
		if ctx.Err() != nil {
			return set // for a judgement that is over
		}
		for _, q := range []string{filepath.Clean(p), led} {
			if q = foldPath(q); q != "/" && q != "." && !slices.Contains(set, q) {
				set = append(set, q)
			}
		}
	}
	o.last, o.set, o.until = slices.Clone(given), set, time.Now().Add(ownFresh)
	return set
}

// ours looks for something of ours in a text, and for paths that lead out of the
// project. prose is not followed through links, only read.
func (l *look) ours(text []byte, prose bool, at where) {
	if l.recallOnly {
		return
	}
	if l.own == nil {
		l.own = l.finder.own.paths(l.ctx, l.call.Waited)
	}
	if len(l.own) == 0 && l.call.Project == "" || len(text) == 0 {
		return
	}
	t := string(text)
	c := candidate{look: l, own: l.finder.own, paths: l.own, prose: prose, removes: l.removes || !prose && commandsRemoval(t), stand: at}
	if !prose {
		c.collect(t)
	}
	if l.named != nil {
		c.kind = l.kindOfText(t, at(), prose)
	}
	named := c.reads(t)
	if decoded, ok := percentDecoded(text); ok && named == "" {
		named = c.reads(string(decoded))
	}
	if named == "" && bytes.IndexByte(text, '\\') >= 0 {
		named = c.reads(strings.ReplaceAll(t, `\`, "/"))
		if named == "" {
			named = c.reads(strings.ReplaceAll(t, `\ `, " "))
		}
	}
	if named != "" {
		l.add(Ours, "names "+named+", which is ThoughtGate's own or under its guard", at())
	}
}

// candidate is a text that may name something of ours.
type candidate struct {
	look  *look
	own   *own
	paths []string
	prose bool
	// What it names is taken away or written over: so is what lies below.
	removes bool
	loose   bool // the path at hand may be one on another machine
	stand   where

	kind pathKind // for Paths
}

// reads returns which of our paths the text names, "" for none.
func (c *candidate) reads(text string) string {
	text, all := c.expanded(text)
	if !all {
		return "one of more paths than can be written out"
	}
	if p := c.whole(text); p != "" {
		return p
	}
	trimmed := strings.Trim(text, " \t\r\n\"'`") // servers do
	if trimmed != text {
		if p := c.whole(trimmed); p != "" {
			return p
		}
	}
	if !strings.Contains(text, "/") && !strings.Contains(text, "..") {
		return ""
	}
	folded := foldPath(text)
	for _, p := range c.paths {
		if c.look.over() {
			return ""
		}
		if holds(folded, p) {
			return p
		}
	}
	return c.words(text, trimmed)
}

// whole looks at a text as one path, if it can be that.
func (c *candidate) whole(text string) string {
	if !isOnePath(text) || c.prose && strings.Contains(text, " ") {
		return ""
	}
	return c.path(text)
}

// words looks at each word of a text but for one that has been looked at.
func (c *candidate) words(text, seen string) string {
	for i := 0; i < len(text); {
		start, slash, odd := i, false, false
		for i < len(text) && !isPathEnd[text[i]] && text[i] != ':' {
			slash = slash || text[i] == '/'
			odd = odd || text[i] == '*' || text[i] == '?' || text[i] == '/' && i > start && (text[i-1] == '/' || text[i-1] == '.')
			i++
		}
		// In prose, a path that is written plainly has been found already.
		if (slash || text[start:i] == "..") && text[start:i] != seen && (odd || !c.prose) {
			if p := c.path(text[start:i]); p != "" {
				return p
			}
		}
		i++
	}
	return ""
}

// isOnePath reports whether text can be one path.
func isOnePath(text string) bool {
	return strings.IndexByte(text, '\n') < 0 && strings.IndexByte(text, 0) < 0
}

// holds reports whether path stands in text as a path of its own, or where it ends
// in *, as the begin of one.
func holds(text, path string) bool {
	path, begins := strings.CutSuffix(path, "*")
	for at := 0; ; {
		i := strings.Index(text[at:], path)
		if i < 0 {
			return false
		}
		start, end := at+i, at+i+len(path)
		if (start == 0 || !isRun[text[start-1]] && text[start-1] != '.' && text[start-1] < 0x80) &&
			(begins || end == len(text) || !isRun[text[end]] && text[end] != '.' && text[end] < 0x80) {
			return true
		}
		at = start + 1
	}
}

// expanded writes out what a shell, or a server, puts in place of ~ and of the
// variables that our folders are named by. It returns false where that comes to more
// than mostExpanded.
func (c *candidate) expanded(text string) (string, bool) {
	room := mostExpanded
	put := func(path string) string {
		if room -= len(path); room < 0 {
			return ""
		}
		return path
	}
	if strings.Contains(text, "$") {
		text = os.Expand(text, func(name string) string {
			bare := name
			if i := strings.IndexAny(name, ":-=?+#%/"); i > 0 { // ${HOME:-x}
				bare = name[:i]
			}
			switch name = bare; name {
			case "HOME":
				return put(c.own.home)
			case "PWD":
				return put(c.look.call.Project)
			case "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "THOUGHTGATE_CONFIG", "THOUGHTGATE_SOCKET", "THOUGHTGATE_CONTROL":
				return put(os.Getenv(name))
			}
			return "$" + name
		})
	}
	if c.own.home == "" || !strings.Contains(text, "~") {
		return text, room >= 0
	}
	var out strings.Builder
	user := filepath.Base(c.own.home)
	for i := 0; i < len(text); i++ {
		if text[i] == '~' && (i == 0 || isPathEnd[text[i-1]] || text[i-1] == ':' || text[i-1] == '/') {
			rest := strings.TrimPrefix(text[i+1:], user)
			if rest == "" || rest[0] == '/' || isPathEnd[rest[0]] {
				out.WriteString(put(c.own.home))
				i = len(text) - len(rest) - 1
				continue
			}
		}
		out.WriteByte(text[i])
	}
	return out.String(), room >= 0
}

func isBelow(p, folder string) bool {
	return len(p) > len(folder) && strings.HasPrefix(p, folder) && (p[len(folder)] == '/' || folder == "/")
}

// matches reports whether the pattern can mean path or something below it.
func matches(pattern, path string) bool {
	want, have := strings.Split(pattern, "/"), strings.Split(path, "/")
	for i, w := range want {
		if w == "**" || i >= len(have) {
			return true
		}
		if ok, err := filepath.Match(w, have[i]); err != nil || !ok {
			return false
		}
	}
	return len(want) >= len(have)
}

// begun is a path and the folder that it begins at.
type begun struct{ from, p string }

// leads is where a path leads when its links are followed.
type leads struct {
	end    string
	exists bool
	file   *inode // where it is one with several names
	named  string // why it is taken to be ours without a further look; empty for not
}
