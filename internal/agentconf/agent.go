// Package agentconf knows the configuration files of AI agents, and how to put
// ThoughtGate's shim in front of each server they name without harming them.
//
// A file is never written as a whole from what was read of it. Where the file of
// an agent says how a server is started, a few words are put before what is
// there, so that the shim is started in its place and starts the server; every
// other byte stays. Taking those words out again is therefore possible whatever
// the agent or a person has written into the file in the meantime, and gives
// back the very bytes that were there when nobody did.
//
// A [Plan] is such a rewrite of all files of one agent, as one unit: [NewPlan]
// finds and reads them, Lock keeps others out, Backup keeps a copy of each,
// Prepare works out the new text and Journals what undoes it, Apply writes,
// Restore takes back. A journal is all that [Restore] needs, so that another
// process can take a file back after the one that rewrote it was killed;
// [Unwrap] does without even that. All of them can be interrupted at any point
// and done again.
//
// A rewrite lasts until the agent has ended, as that of a wrap, or until somebody
// undoes it, which is a [Protection]; or it is only shown. All of them are made by a
// Plan and undone by the same journals. A [Pointing] does without a rewrite.
//
// What one agent does differently from another is an [Agent], one file each. They
// are one package because their formats, rules and ways of merging files all lead to
// the same entries, which are rewritten in one way.
package agentconf

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// Env is where an agent is about to be started. Paths are absolute.
type Env struct {
	Home, Cwd string
	LookupEnv func(string) (string, bool) // of the environment the agent will get
	Command   []string                    // of the agent, its program first
	Config    string                      // the only file to look at; empty for those that the agent reads
	System    string                      // folder of an administrator's settings; empty for the platform's own
	OS        string                      // as of runtime.GOOS; empty for the platform's own
	Shim      string                      // absolute path of the shim, for entries that start it by themselves; empty: none is taken for one
	Socket    string                      // of the daemon, for shims
	Lasting   []*Protection               // rewrites that last: entries with their lines are governed already
	Notes     string                      // folder of notes on what is made beside configurations, in the state folder; empty: nothing there is taken for ours
	OwnOnly   bool                        // leave out files that belong to another agent, which this one reads as well
	Renew     string                      // id of the one that is being made, or made again; empty for a wrap
}

// Agent is what is known of one agent's configuration.
type Agent interface {
	// Name is the agent's type, as in `--agent-type`.
	Name() string
	// Files returns the paths at which the agent would look, whether or not
	// there is anything.
	Files(Env) []string
	// Find reads those files and returns what they say of servers. A file that
	// is not there is left out; one that cannot be read or understood is an error.
	Find(Env) (*Found, error)
}

// Found is what an agent's files say.
type Found struct {
	Sources  []*Source
	Warnings []string // for the person: what is not governed, what looks wrong

	order     []*Entry // the strongest first, for agents that can be pointed elsewhere
	unreached string   // what a rewrite of files would not govern; empty when there is nothing
	err       error    // the first file that could not be read
}

// Source is one configuration file.
type Source struct {
	Path       string   // as the agent knows it
	AgentLocks []string // folders that the agent makes while it writes the file
	Entries    []*Entry

	file *file
	doc  *edit.Document
	vars variables // how the agent writes references to variables
}

// Entry is one server in a configuration file.
type Entry struct {
	ID      string   // the name that the agent knows the server by, made valid Unicode, as agents read it
	Scope   string   // user, local, project, ... as the agent calls it
	File    string   // as the agent knows it
	Path    []string // in the file
	Command string   // as written: references to variables are not expanded
	Args    []string // likewise; both also where they come from a weaker scope

	// Off says why the agent would not start the server as things stand, and is
	// empty when it would.
	Off Off
	// Because says which rule has it so, where Off does not tell.
	Because string
	// Ungoverned says why the entry is left as it is, and is empty when it is
	// rewritten.
	Ungoverned string
	// From is the file of a project that names the server, and empty where that is
	// the user's own.
	From string

	// Protected says that the entry holds the line of a rewrite that lasts.
	// Command and Args are those of the server behind it.
	Protected bool

	fixed  string            // why it cannot be rewritten, empty when it can
	form   form              // what its parts are called
	limits []limit           // what has to be raised in it
	vars   variables         // how its texts refer to variables
	ours   *ourLine          // what of ours stands in the entry, nil when nothing does
	sets   map[string]string // the variables that files set for it, as written, where From has a word in that
	offers bool              // it is the tools of an extension
	inner  bool              // Path leads into the server's entry, to what is started
}

// Off is why an agent does not start a server.
type Off string

const (
	Starts   Off = ""
	Disabled Off = "disabled"
	Pending  Off = "not approved yet"
	Shadowed Off = "another scope has the name too"
	Denied   Off = "denied by the agent's own rules"
	Inactive Off = "for another profile or system only"
)

// agents lists every agent that can be wrapped.
func agents() []Agent {
	return []Agent{
		claudeCode{}, claudeDesktop{}, cursor{}, vscode{}, windsurf{}, zed{},
		gemini{}, opencode{}, copilot{}, cline{}, codex{}, goose{}, custom{},
	}
}

// known are the agents that can be told by their command. Those that are
// applications with windows have the names of their programs as well: their
// commands are launchers, which return at once, and what they started, or an
// instance that ran before, starts the servers.
var known = []struct{ name, commands, programs string }{
	{"claude-code", "claude claude-code", ""},
	{"claude-desktop", "claude-desktop", "claude-desktop"},
	{"cursor", "cursor cursor-agent", "cursor"},
	{"vscode", "code code-insiders code-oss codium codium-insiders", "code code-insiders code-oss codium codium-insiders"},
	{"windsurf", "windsurf windsurf-next", "windsurf windsurf-next"},
	{"zed", "zed zeditor zed-editor zed-preview zed-nightly zed-dev", "zed-editor zed zeditor"},
	{"gemini", "gemini", ""},
	{"opencode", "opencode", ""},
	{"copilot-cli", "copilot", ""},
	{"cline", "cline", ""},
	{"codex", "codex", ""},
	{"goose", "goose", ""},
}

// Names returns the types that can be wrapped.
func Names() []string {
	var names []string
	for _, a := range agents() {
		names = append(names, a.Name())
	}
	return names
}

// each yields the entries of sources, each with its own.
func each(sources []*Source) iter.Seq2[*Source, *Entry] {
	return func(yield func(*Source, *Entry) bool) {
		for _, s := range sources {
			for _, e := range s.Entries {
				if !yield(s, e) {
					return
				}
			}
		}
	}
}

// AgentFor returns the agent of the given type; an empty one is told by the
// command.
func AgentFor(name string, command []string) (Agent, error) {
	if name == "" {
		var ok bool
		if name, ok = Detect(command); !ok {
			program := "nothing"
			if len(command) > 0 {
				program = fmt.Sprintf("%q", command[0])
			}
			return nil, fmt.Errorf("cannot tell which agent %s is; name it with --agent-type, one of %s (custom takes --config-path)",
				program, strings.Join(Names(), ", "))
		}
	}
	for _, a := range agents() {
		if a.Name() == name {
			return a, nil
		}
	}
	return nil, fmt.Errorf("the agent type %q cannot be wrapped yet; those that can: %s. "+
		"With --agent-type custom --config-path FILE any file that lists its servers under mcpServers can",
		name, strings.Join(Names(), ", "))
}

// Known returns the paths at which the agents that can be wrapped look, whether
// or not there is anything.
func Known(env Env) []string {
	var paths []string
	for _, a := range agents() {
		paths = append(paths, a.Files(env)...)
	}
	return paths
}

// load reads the file at path, nil when there is none.
func load(path string, syntax edit.Syntax) (*Source, error) {
	target, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(path); err == nil {
			return nil, fmt.Errorf("%s is a link to nothing", path)
		}
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := &Source{Path: path}
	if s.file, err = readFile(target); err != nil {
		return nil, err
	}
	if s.doc, err = parseSettled(s.file, syntax, settleShortly); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if s.doc.Root().Kind() != edit.Object {
		return nil, fmt.Errorf("%s: line 1, column 1: an object was expected", path)
	}
	return s, nil
}

// addServers adds the members of the object at path, or the items of the list
// there, which are servers.
// types are what the agent calls servers that it starts, besides stdio.
func (s *Source) addServers(scope string, path []string, types ...string) []*Entry {
	from := len(s.Entries)
	add := func(value edit.Node, id, step string) {
		e := usualForm.read(value, types...)
		e.ID, e.Scope, e.File, e.vars = strings.ToValidUTF8(id, "\ufffd"), scope, s.Path, s.vars
		e.Path = append(slices.Clip(path), step)
		s.Entries = append(s.Entries, e)
	}
	for name, value := range s.doc.At(path).Members() {
		add(value, name.Text(), name.Text())
	}
	for i, item := range s.doc.At(path).Items() { // each says its name itself
		if name := item.Member("name"); name.Kind() == edit.String {
			add(item, name.Text(), strconv.Itoa(i))
		}
	}
	return s.Entries[from:]
}

// enter makes e what stands in a member of its entry.
func (e *Entry) enter(f form, member string, node edit.Node) {
	inner := f.read(node)
	e.form, e.Path, e.inner = f, append(e.Path, member), true
	e.Command, e.Args, e.Ungoverned = inner.Command, inner.Args, inner.Ungoverned
}

// read reads a server of this form: a command, arguments, and an environment.
func (f form) read(node edit.Node, types ...string) *Entry {
	e := &Entry{form: f}
	n := f.of(node)
	command, args, env, kind := n.command(), n.args(), n.env(), n.Member("type")
	for _, part := range []edit.Node{node, command, args, env} {
		if e.fixed == "" {
			e.fixed = part.Fixed()
		}
	}
	switch {
	case n.Kind() != edit.Object && node.Fixed() == "":
		e.Ungoverned = "not a server: it is no object"
	case kind.Exists() && kind.Text() != "stdio" && !slices.Contains(types, kind.Text()):
		e.Ungoverned = "a remote server (" + kind.Text() + ")"
	case command.Kind() != edit.String && (n.Member("url").Exists() || n.Member("serverUrl").Exists() || n.Member("httpUrl").Exists()):
		e.Ungoverned = "a remote server"
	case e.fixed != "": // whatever else it is
	case command.Kind() != edit.String || command.Text() == "":
		e.Ungoverned = "not a server: it has no command"
	case args.Exists() && args.Kind() != edit.Array && args.Kind() != edit.Null:
		e.Ungoverned = "not a server: its args are not a list"
	case env.Exists() && env.Kind() != edit.Object && env.Kind() != edit.Null:
		e.Ungoverned = "not a server: its env is no object"
	}
	if command.Kind() == edit.String {
		e.Command = command.Text()
	}
	for _, arg := range args.Items() {
		e.Args = append(e.Args, arg.Text())
	}
	e.seeThrough(n)
	return e
}
