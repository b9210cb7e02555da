package facts

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
)

// mostNamed is the maximum number of paths to keep per call; a call with more may name anything.
const mostNamed = 256

// Paths returns what c names in the file system, and what it may do there. It looks for nothing
// else and does not update the memory.
func (f *Finder) Paths(ctx context.Context, c *gate.Call) gate.Paths {
	_, p := f.factsAndPaths(ctx, c, true)
	return p
}

// FactsAndPaths returns the results of Of and of Paths. It examines the arguments once.
func (f *Finder) FactsAndPaths(ctx context.Context, c *gate.Call) ([]gate.Fact, gate.Paths) {
	return f.factsAndPaths(ctx, c, false)
}

func (f *Finder) factsAndPaths(ctx context.Context, c *gate.Call, pathsOnly bool) ([]gate.Fact, gate.Paths) {
	in := f.inspect(ctx, c)
	defer f.finish(in)
	p := gate.Paths{Reads: true}
	if mcp.SubjectKind(c.Method) == mcp.Tool {
		p.Reads, p.Links, p.Wide = kindOfTool([]byte(c.Subject))
	}
	in.named, in.pathsOnly = &p, pathsOnly
	in.find()
	p.Wide = p.Wide || len(p.Named) >= mostNamed || ctx.Err() != nil
	return in.facts, p
}

// nameJoined keeps the paths of which one member holds the folder and another the name.
func (in *inspection) nameJoined() {
	for _, root := range in.roots[:min(len(in.roots), mostRoots)] {
		for _, part := range in.parts {
			if len(in.named.Named) < mostNamed {
				whole := filepath.Join(root, part)
				end, exists := whole, true
				if !in.finder.own.past {
					end, exists, _ = follow(in.ctx, "/", whole)
				}
				keepPath(in.named, whole, end, exists)
			}
		}
	}
}

// pathKind describes what a text may be to Paths, given its member and its form.
type pathKind uint8

const (
	noPath    pathKind = iota // text to be read, or the content of a file
	pathWords                 // may have paths among its words
	fileName                  // may be the name of a file
	wholePath                 // is a path
)

// kindOfText returns what a text may name. It marks the call as wide for commands and unknown
// text.
func (in *inspection) kindOfText(text, at string, prose bool) pathKind {
	member := lastMember(at)
	several := strings.ContainsAny(strings.TrimSpace(text), " \t\r\n")
	isPath := isPathName[member] || hasOneOf(member, pathMembers)
	switch {
	case prose:
		return noPath
	case isCommandName[member] || strings.HasSuffix(member, "command") || strings.HasSuffix(member, "cmd"):
		in.named.Wide = true
		return pathWords
	case isPath || !several && (strings.ContainsAny(text, `/\`) || strings.HasPrefix(text, ".") || strings.HasPrefix(text, "~")):
		in.named.Places++
		return wholePath
	case !several:
		return fileName
	case hasOneOf(member, contentWords):
		return noPath
	}
	in.named.Wide = true // the use of the words is unknown
	return pathWords
}

// keepNamed keeps the path p of a text that kindOfText has classified. to describes where it
// leads.
func (c *candidate) keepNamed(p, clean string, to resolvedPath) {
	paths := c.inspection.named
	switch {
	case paths == nil, c.kind == noPath, c.kind == pathWords && !strings.Contains(p, "/"):
	case c.kind == fileName && !strings.Contains(p, "/"):
		keepPath(paths, clean, to.end, true) // it is more often a word than a file name
	default:
		keepPath(paths, clean, to.end, to.exists)
	}
}

// keepPath adds a path in its written form, and where it leads.
func keepPath(p *gate.Paths, clean, end string, exists bool) {
	if len(p.Named) >= mostNamed { // the call counts as wide then
		return
	}
	for _, one := range slices.Compact([]string{foldPath(clean), foldPath(end)}) {
		p.Named = append(p.Named, one)
		if !exists {
			p.Missing = append(p.Missing, one)
		}
	}
}

// lastMember returns the name of the last member in the path of a text, in lower case.
func lastMember(at string) string {
	at = at[strings.LastIndexByte(at, '.')+1:]
	at, _, _ = strings.Cut(at, "[")
	return strings.ToLower(at)
}

func hasOneOf(member string, words []string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(member, word) })
}

var (
	pathMembers   = []string{"path", "file", "dir", "folder", "dest", "target", "src", "dst", "link", "output", "location", "root", "uri"}
	isPathName    = set("from", "to", "old", "new", "cwd")
	contentWords  = []string{"content", "text", "message", "description", "comment", "data", "value", "source", "title", "summary"}
	isCommandName = set("commands", "cmds", "command_line", "commandline", "args", "argv", "arguments", "script", "scripts", "code", "shell", "program")
)

// kindOfTool returns what the name of a tool says about files: whether it only reads, whether it
// creates, moves or removes links or whole trees, and whether it runs a program. Words after a
// verb that reads name what is read, as in deedsIn.
func kindOfTool(name []byte) (onlyReads, links, runs bool) {
	w := split(new(cleaner).clean(name))
	reading, read, writes := false, false, false
	for i := range w.n {
		word := w.word(i)
		links = links || removers[string(word)] || linkers[string(word)] && !reading
		if !reading {
			runs = runs || runners[string(word)]
			writes = writes || makers[string(word)] || savers[string(word)] || verbs[string(word)] > reads || verbIn(word) != ""
		}
		reading = (reading || verbs[string(word)] == reads && !savers[string(word)]) && !joins[string(word)]
		read = read || reading
	}
	return read && !links && !runs && !writes, links, runs
}

var (
	linkers = set("link", "links", "symlink", "symlinks", "hardlink", "hardlinks", "ln", "junction", "alias", "mount", "bind", "clone", "checkout", "switch",
		"pull", "merge", "stash", "rebase", "apply", "revert", "reset")
	runners = set("run", "exec", "execute", "eval", "evaluate", "shell", "bash", "sh", "zsh", "powershell", "terminal", "console", "command", "cmd", "script",
		"python", "perl", "ruby", "ssh", "docker", "install")
	savers = set("download", "save", "edit", "append", "generate", "build", "import", "init", "scaffold", "mkdir", "touch", "convert", "cache", "backup", "fetch")
)
