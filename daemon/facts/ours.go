package facts

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/shell/effects"
)

// protectedPaths knows what belongs to ThoughtGate, and whether a text names any of it. Rules cannot disable
// this question: a call through the gate must not change the gate.
//
// A path is compared twice: in its written form with . and .. removed, which is how many servers
// read it, and as the system would follow it, including links.
type protectedPaths struct {
	given func() []string
	home  string
	past  bool // see Options

	mu    sync.Mutex
	last  []string  // what given returned when set was computed
	until time.Time // set may be outdated after this time
	set   []string  // the given paths, cleaned, with and without links followed
	// The last project, and where its links lead.
	folder, led string
	roots       map[string]bool // names of the entries of /; valid until read
	read        time.Time
	most        int              // maximum number of files of ours to compare; see mostFiles
	files       map[inode]string // last result of inodes, and when its computation began
	filed       time.Time

	// slots bounds how many links are followed at once. A file system that does not respond (such
	// as a dead network mount) then delays single calls, which the deadline of their shim ends,
	// and never all of them.
	slots chan struct{}
}

const (
	mostFollowed  = 1 << 16         // paths per call whose links are followed, each once; more count as ours
	mostFiles     = 1 << 16         // files of ours that may have other names; above that, any file with several names counts as ours
	longestFollow = 4096            // longer text is not a path, and only its words are examined
	ownFresh      = 2 * time.Second // how long links of ours are assumed not to change
	mostLinks     = 40
	mostExpanded  = 16 << 20 // bytes that ~ and variables may add to one text; above that, it counts as ours
	slotPatience  = 100 * time.Millisecond
)

func newOwn(o Options) *protectedPaths {
	if o.Ours == nil {
		o.Ours = func() []string { return nil }
	}
	return &protectedPaths{given: o.Ours, home: o.Home, past: o.Past, most: mostFiles, slots: make(chan struct{}, 8)}
}

// paths returns the current paths of ours, each as given and with links followed, folded as the
// platform folds names. anew bypasses the cache; it is set for a call that waited for others,
// which may have changed links just now.
func (o *protectedPaths) paths(ctx context.Context, anew bool) []string {
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
			return set // the judgement has ended
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

// ours looks for names of something of ours in a text, and for paths that lead out of the
// project. In prose, links are not followed.
func (in *inspection) ours(text []byte, prose bool, at where) {
	if in.own == nil {
		in.own = in.finder.own.paths(in.ctx, in.call.Waited)
	}
	if len(in.own) == 0 && in.call.Project == "" || len(text) == 0 {
		return
	}
	t := string(text)
	c := candidate{inspection: in, own: in.finder.own, paths: in.own, prose: prose, removes: in.removes || !prose && commandsRemoval(t), stand: at}
	if !prose {
		c.collect(t)
	}
	if in.named != nil {
		c.kind = in.kindOfText(t, at(), prose)
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
		if in.named != nil {
			in.named.Wide = true // the rest of the text was not examined
		}
		in.addOurs(named, at)
	}
}

func (in *inspection) addOurs(named string, at where) {
	in.add(gate.FactOurs, "names "+named+", which belongs to ThoughtGate or is protected by it", at())
}

// candidate is a text that may name something of ours.
type candidate struct {
	inspection *inspection
	own        *protectedPaths
	paths      []string
	prose      bool
	// The tool removes or overwrites what it names, including everything below.
	removes bool
	loose   bool // the current path may be on another machine
	single  bool // the current path is the whole text
	stand   where

	kind pathKind // for Paths
}

// reads returns the path of ours that the text names, or "".
func (c *candidate) reads(text string) string {
	text, all := c.expanded(text)
	if !all {
		return "one of too many paths to expand"
	}
	if p := c.whole(text); p != "" {
		return p
	}
	trimmed := strings.Trim(text, " \t\r\n\"'`") // servers trim it, too
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
		if c.inspection.isCanceled() {
			return ""
		}
		if holds(folded, p) {
			return p
		}
	}
	return c.words(text, trimmed)
}

// whole examines a text as a single path if it can be one.
func (c *candidate) whole(text string) string {
	if !isOnePath(text) || c.prose && strings.Contains(text, " ") {
		return ""
	}
	c.single = true
	named := ""
	if strings.IndexByte(text, '{') < 0 {
		named = c.path(text)
	} else {
		for _, alternative := range alternatives(text) {
			if named = c.path(alternative); named != "" {
				break
			}
		}
	}
	c.single = false
	return named
}

// words examines each word of a text except seen, which has been examined.
func (c *candidate) words(text, seen string) string {
	for i := 0; i < len(text); {
		start, slash, odd := i, false, false
		for i < len(text) && !isPathEnd[text[i]] && text[i] != ':' {
			slash = slash || text[i] == '/'
			odd = odd || text[i] == '*' || text[i] == '?' || text[i] == '/' && i > start && (text[i-1] == '/' || text[i-1] == '.')
			i++
		}
		// In prose, plainly written paths have been found already.
		if (slash || text[start:i] == "..") && text[start:i] != seen && (odd || !c.prose) {
			if p := c.path(text[start:i]); p != "" {
				return p
			}
		}
		i++
	}
	return ""
}

// isOnePath reports whether text can be a single path.
func isOnePath(text string) bool {
	return strings.IndexByte(text, '\n') < 0 && strings.IndexByte(text, 0) < 0
}

// holds reports whether path occurs in text as a path of its own. A path that ends in * is a
// prefix.
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

// expanded replaces ~ and the variables that name folders of ours by their values, as a shell or
// a server does. It returns false if the values exceed mostExpanded.
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
			if i := strings.IndexAny(name, ":-=?+#%/"); i > 0 { // ${HOME:-x}
				name = name[:i]
			}
			switch name {
			case "HOME":
				return put(c.own.home)
			case "PWD":
				return put(c.inspection.call.Project)
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

// matches reports whether pattern can match path or something below it.
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

// findsNoneOfOurs reports whether a search by a pattern that ends in **/NAME finds nothing of ours, because
// nothing that there is of it has such a name. NAME may be written in any case. It reports false in
// doubt.
func (in *inspection) findsNoneOfOurs(pattern string) bool {
	_, name, ok := strings.Cut(pattern, "**/")
	if !ok || simpleName.FindString(name) != name || strings.Contains(pattern, "..") {
		return false
	}
	if in.own == nil {
		in.own = in.finder.own.paths(in.ctx, in.call.Waited)
	}
	name = strings.ToLower(name)
	fits := func(base string) bool {
		ok, err := path.Match(name, strings.ToLower(base))
		return ok || err != nil
	}
	if slices.ContainsFunc(ourNames, fits) {
		return false
	}
	left := in.finder.own.most
	look := func(p string, _ os.DirEntry, err error) error {
		left--
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil || left < 0 || in.isCanceled() || fits(filepath.Base(p)):
			return cmp.Or(err, errFound)
		}
		return nil
	}
	for _, own := range in.own {
		own, begins := strings.CutSuffix(own, "*")
		if slices.ContainsFunc(strings.Split(own, "/"), fits) { // or a folder that it is in
			return false
		}
		all := []string{own}
		if dir, base := filepath.Split(own); begins {
			entries, err := os.ReadDir(dir)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return false
			}
			for _, e := range entries {
				if strings.HasPrefix(foldPath(e.Name()), base) {
					all = append(all, dir+e.Name())
				}
			}
		}
		for _, p := range all {
			if filepath.WalkDir(p, look) != nil {
				return false
			}
		}
	}
	return true
}

var (
	// simpleName is a name whose special characters are * and ? alone.
	simpleName = regexp.MustCompile(`^[A-Za-z0-9._+*?-]+$`)
	errFound   = errors.New("found")
	// ourNames are names that files of ours may get at any time.
	ourNames = []string{"thoughtgate.yaml", ".thoughtgate.yaml", "extension.yaml", "rules.cedar", "0.jsonl", "state.db", "state.db-wal", "control.sock", "shim.sock"}
)

// relativePath is a path and the folder to which it is relative.
type relativePath struct{ from, p string }

// resolvedPath describes where a path leads when its links are followed.
type resolvedPath struct {
	end    string
	exists bool
	file   *inode // nil unless it is a file with several names
	named  string // why it is taken to be ours without further examination; empty if it is not

	isFolder bool // only for the agent's own tools
}

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
	for _, from := range []string{c.inspection.call.Project, c.inspection.call.Cwd} {
		if from != "" {
			if named := c.at(from, p); named != "" {
				return named
			}
		}
		if c.inspection.call.Cwd == c.inspection.call.Project {
			break
		}
	}
	return ""
}

// at returns the path of ours that p, relative to the folder from, names, or "".
func (c *candidate) at(from, p string) string {
	if c.inspection.isCanceled() {
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
	if strings.ContainsAny(p, "*?[(") && len(p) <= longestFollow {
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

var (
	extended  = regexp.MustCompile(`[@+?!*]\([^()/]*\)`)
	innermost = regexp.MustCompile(`\{[^{}]*\}`)
)

// mostAlternatives bounds how many paths are examined for one with braces.
const mostAlternatives = 256

// plainPattern replaces pattern syntax that only some programs support by *, which matches more,
// never less.
func plainPattern(p string) string {
	return strings.ReplaceAll(extended.ReplaceAllString(p, "*"), "[!", "[^")
}

// alternatives returns the paths that text stands for to programs that know braces: {a,b} is a or b,
// within others and with slashes, too. If there are too many, it returns one pattern that matches more.
// A JSON text has none that could name a file of ours: its strings keep their quotes.
func alternatives(text string) []string {
	if !innermost.MatchString(text) || len(text) > longestFollow || json.Valid([]byte(text)) {
		return []string{text}
	}
	var all []string
	for left := []string{text}; len(left) > 0; {
		if len(all)+len(left) > mostAlternatives {
			return []string{asPattern(text)}
		}
		next := left[len(left)-1]
		left = left[:len(left)-1]
		at := innermost.FindStringIndex(next)
		if at == nil {
			all = append(all, literalBraces.Replace(next))
			continue
		}
		before, group, after := next[:at[0]], next[at[0]+1:at[1]-1], next[at[1]:]
		switch {
		case strings.Contains(group, ","):
			for choice := range strings.SplitSeq(group, ",") {
				left = append(left, before+choice+after)
			}
		case strings.Contains(group, ".."):
			left = append(left, before+"*"+after)
		default: // not replaced
			left = append(left, before+"\x01"+group+"\x02"+after)
		}
	}
	return all
}

var literalBraces = strings.NewReplacer("\x01", "{", "\x02", "}")

// asPattern replaces the outermost pairs of braces.
func asPattern(text string) string {
	for {
		at := innermost.FindStringIndex(text)
		if at == nil {
			return text
		}
		any := "*"
		if group := text[at[0]:at[1]]; strings.Contains(group, "/") || strings.Contains(group, "**") {
			any = "**"
		}
		text = text[:at[0]] + any + text[at[1]:]
	}
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
	in := c.inspection
	if len(text) > longestFollow || !isOnePath(text) || strings.Contains(text, "://") && !strings.HasPrefix(text, "file:") {
		return
	}
	text, _ = c.expanded(strings.TrimSpace(text)) // reads reports it if expansion was incomplete
	text = strings.TrimPrefix(text, "file://")
	switch i := strings.IndexAny(text, "*?[{"); {
	case strings.HasPrefix(text, "/"):
		if len(in.roots) < mostRoots {
			in.roots = append(in.roots, text)
		}
		return
	case i >= 0:
		text = text[:strings.LastIndexByte(text[:i], '/')+1] // up to the start of the pattern
	}
	if text != "" && text != "." && len(in.parts) < mostParts {
		in.parts = append(in.parts, text)
	}
}

// joined examines each name in each folder: the folders that the arguments name, and those in the
// command of the server.
func (in *inspection) joined() {
	if len(in.parts) == 0 || len(in.own) == 0 {
		return
	}
	c := candidate{inspection: in, own: in.finder.own, paths: in.own, removes: in.removes}
	for _, arg := range in.call.Command {
		if _, value, ok := strings.Cut(arg, "="); ok && strings.HasPrefix(value, "/") {
			arg = value
		}
		if strings.HasPrefix(arg, "/") && len(arg) <= longestFollow && len(in.roots) < 2*mostRoots {
			in.roots = append(in.roots, arg)
		}
	}
	for _, root := range in.roots {
		for _, part := range in.parts {
			if in.isCanceled() {
				return
			}
			if named := c.compare(filepath.Join(root, part)); named != "" {
				in.addOurs(named, atTop)
				return
			}
		}
	}
}

// followed returns the path of ours that p reaches from the folder from when links are followed,
// or "". The caller must have compared the written form, clean, already.
func (c *candidate) followed(from, p, clean string) string {
	known := from == "/" || from == c.inspection.call.Project
	to := c.resolve(from, p)
	if to.named != "" {
		return to.named
	}
	c.keepNamed(p, clean, to)
	c.runsByItself(to.end)
	if known {
		c.outside(p, to.end)
	}
	if to.end != clean && !c.inspection.entries { // of these, effects has said where they are
		if named := c.compare(to.end); named != "" {
			return named
		}
		_, was := placeOf([]byte(clean))
		if what, is := placeOf([]byte(to.end)); is && !was && !c.removes && !c.loose {
			c.inspection.add(gate.FactSecretPlace, "leads to "+what+", where credentials are kept", c.stand())
		}
	}
	return c.linked(to.file)
}

// resolve is follow, once for each path of a call.
func (c *candidate) resolve(from, p string) resolvedPath {
	to, ok := c.inspection.led[relativePath{from, p}]
	if !ok {
		to = c.follow(from, p)
		if c.inspection.led == nil {
			c.inspection.led = map[relativePath]resolvedPath{}
		}
		c.inspection.led[relativePath{from, p}] = to
	}
	return to
}

// follow resolves the links of p and counts against the limit of the call.
func (c *candidate) follow(from, p string) resolvedPath {
	if c.inspection.follow++; c.inspection.follow > mostFollowed {
		return resolvedPath{named: "one of too many paths to resolve"}
	}
	if c.own.past {
		return resolvedPath{end: under(from, p), exists: true}
	}
	if !c.own.takeSlot(c.inspection.ctx) {
		if c.inspection.isCanceled() {
			return resolvedPath{}
		}
		return resolvedPath{named: "a path whose links could not be resolved in time"}
	}
	defer c.own.releaseSlot()
	if from != "/" {
		from = c.own.project(c.inspection.ctx, from, c.inspection.call.Waited)
	}
	end, exists, file := follow(c.inspection.ctx, from, p)
	if throughSelf(end) {
		return resolvedPath{named: "a path through /proc/self, which only the server can resolve"}
	}
	to := resolvedPath{end: end, exists: exists, file: file}
	if exists && isOwnTool(c.inspection.call) { // others don't ask for it
		var is unix.Stat_t
		to.isFolder = unix.Lstat(end, &is) == nil && is.Mode&unix.S_IFMT == unix.S_IFDIR
	}
	return to
}

// takeSlot waits until the file system may be looked at. It reports false if that takes too long;
// otherwise releaseSlot must be called.
func (o *protectedPaths) takeSlot(ctx context.Context) bool {
	select {
	case o.slots <- struct{}{}:
		return true
	default:
	}
	patience := time.NewTimer(slotPatience)
	defer patience.Stop()
	select {
	case o.slots <- struct{}{}:
		return true
	case <-ctx.Done():
	case <-patience.C:
	}
	return false
}

func (o *protectedPaths) releaseSlot() { <-o.slots }

// outside adds a fact for a path that leads out of the session's project. p is its written form,
// end is where it leads.
func (c *candidate) outside(p, end string) {
	project := c.inspection.call.Project
	if project == "" || c.loose {
		return
	}
	end, within := foldPath(end), foldPath(c.own.project(c.inspection.ctx, project, c.inspection.call.Waited))
	if end == within || isBelow(end, within) || end == "/dev/null" || strings.HasPrefix(p, "/") && !c.own.isRoot(p) {
		return
	}
	c.inspection.add(gate.FactOutside, "it leads outside the project", c.stand())
}

// runsByItself adds a fact for a path whose content runs by itself or lets somebody in, if a server's
// tool may write there. What the agent's own tools do is known better; see deed.
func (c *candidate) runsByItself(end string) {
	in := c.inspection
	if !c.single || c.prose || c.loose || in.pathsOnly || in.tool == "" || isOwnTool(in.call) {
		return
	}
	kind := effects.KindOfPlace(end, c.own.home)
	if kind == "" {
		return
	}
	if onlyReads, _, _ := kindOfTool([]byte(in.tool)); !onlyReads {
		in.installs(kind, in.shown(end), c.stand)
	}
}

// project returns the folder of a project with its links followed. anew bypasses the cache, as in
// paths.
func (o *protectedPaths) project(ctx context.Context, folder string, anew bool) string {
	if o.past {
		return filepath.Clean(folder)
	}
	o.mu.Lock()
	known, led := !anew && o.folder == folder && time.Now().Before(o.until), o.led
	o.mu.Unlock()
	if known {
		return led
	}
	if led, _, _ = follow(ctx, "/", folder); ctx.Err() != nil {
		return led // the judgement has ended
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.folder, o.led = folder, led
	return led
}

// isRoot reports whether an absolute path begins in an existing folder. Other text that begins
// with a slash is more often a part of a URL than a path.
func (o *protectedPaths) isRoot(p string) bool {
	first, _, _ := strings.Cut(strings.TrimLeft(p, "/"), "/")
	if first == "" || first == "." || first == ".." {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.roots == nil || time.Now().After(o.read) {
		o.roots, o.read = map[string]bool{}, time.Now().Add(ownFresh)
		entries, _ := os.ReadDir("/") // an unreadable root has no known folders
		for _, e := range entries {
			o.roots[e.Name()] = true
		}
	}
	return o.roots[first]
}
