// Package agentconf finds and rewrites the configuration files of AI agents so that each server
// they name is started through tg-shim.
//
// A file is never encoded from its parsed form. Where a file says how a server is started, a
// few words are inserted, so that the agent starts tg-shim and tg-shim starts the server. These
// words are called our line. Every other byte stays the same. So the line can be removed again
// whatever the agent or a person has written to the file in the meantime. If nobody has, the
// original bytes are restored.
//
// A [Plan] rewrites all files of one agent together. [NewPlan] finds and parses them, Lock
// keeps others out, Backup keeps a copy of each, Prepare makes the new texts, Journals returns
// how to undo them, Apply writes the files and Restore restores them. [Restore] needs nothing
// but a journal, so another process can restore a file if the one that rewrote it was killed.
// [Unwrap] does not even need that. Each of these can be interrupted at any point and repeated.
//
// A rewrite lasts until the agent has ended (wrap) or until a person undoes it, which is a
// [Protection]; or it is only displayed. All three use a Plan and the same journals. A
// [Pointing] needs no rewrite.
//
// Each [Agent] implements what is specific to one agent, in a file of its own, and has a row in
// the table kinds. They are in one package because all their formats, rules and ways of merging
// files result in the same entries, which are rewritten in one way.
//
// The package is long because there are many agents, a third of it. The rest is in three
// layers, of which each uses only those before it:
//
//   - files that others write too: file, backup, notes, lock
//   - lines of ours in a text: form, line, limit, rewrite, restore, unwrap
//   - all files of an agent together: plan, adopt, protect, point, survey
//
// The layers are not packages because what they promise is one thing, that nothing is lost
// wherever a process is killed, and its tests stop all three after each step.
package agentconf

import (
	"cmp"
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

// Env describes how an agent will be started. Paths are absolute.
type Env struct {
	Home, Cwd   string
	LookupEnv   func(string) (string, bool) // looks up a variable in the environment that the agent will get
	Command     []string                    // command line of the agent, program first
	Config      string                      // the only file to read; empty for those that the agent reads
	System      string                      // folder of an administrator's settings; empty for the platform's default
	OS          string                      // as runtime.GOOS; empty for the current platform
	Shim        string                      // absolute path of tg-shim, to recognize entries that start it for an extension; empty for none
	Socket      string                      // socket of the daemon, for tg-shim
	Protections []*Protection               // protections; entries with their lines are governed already
	Notes       string                      // folder of notes on files made beside configurations, in the state folder; empty: no such file is taken for ours
	OwnOnly     bool                        // leave out files of other agents that this agent reads as well
	Tools       bool                        // govern the agent's own tools, too, by entries for hooks
	NoServers   bool                        // don't govern servers
	InFile      bool                        // write the entries for hooks to a file even if the agent could be told for one start
	Renew       string                      // id of the protection that is made or renewed; empty for a wrap
}

// Agent finds the servers in the configuration of one agent.
type Agent interface {
	// Name returns the agent's type, as in `--agent-type`.
	Name() string
	// Files returns the paths at which the agent looks for files, whether they exist or not.
	Files(Env) []string
	// Find reads these files and returns the servers in them. It skips files that do not exist;
	// a file that can't be read or parsed is an error.
	Find(Env) (*Found, error)
}

// Found is the content of an agent's files.
type Found struct {
	Sources  []*Source
	Warnings []string // for the person: what is not governed, what looks wrong

	left      []string // those of the warnings that are about servers which are not governed and are no entries
	order     []*Entry // strongest first, for agents that support pointing
	unreached string   // servers that a rewrite of files would not govern; empty if there are none
	err       error    // the first error
}

// Source is one configuration file.
type Source struct {
	Path       string   // as the agent knows it
	AgentLocks []string // lock folders that the agent makes while it writes the file
	Entries    []*Entry

	file *file
	doc  *edit.Document
	vars variables // syntax of references to variables
}

// Entry is one server in a configuration file.
type Entry struct {
	ID      string   // the agent's name of the server, with invalid Unicode replaced, as agents do
	Scope   string   // user, local, project and so on, in the agent's terms; a prefix of scopeProject or scopeWorkspace means that it comes with the project
	File    string   // path of the file as the agent knows it
	Path    []string // path in the file
	Command string   // as written, with references to variables
	Args    []string // likewise; both may come from a weaker scope

	// Off says why the agent would not start the server at present. It is empty if the agent
	// would.
	Off Off
	// Because names the rule that causes Off, where Off is not enough.
	Because string
	// Ungoverned says why the entry is not rewritten. It is empty if it is.
	Ungoverned string
	// From is the project's file that names the server. It is empty if the user's own file
	// does.
	From string

	// Remote describes the server if its entry has an address and is governed. Command and Args are
	// empty then.
	Remote *Remote

	// Protected reports that the entry holds a line of a protection. Command and Args are those
	// of the server behind it.
	Protected bool

	source  *Source           // the file that holds it
	fixed   string            // why the entry can't be rewritten; empty if it can
	form    form              // names of its members
	limits  []limit           // limits to be raised
	vars    variables         // syntax of references to variables
	ours    *ourLine          // our line in the entry, nil if there is none
	sets    map[string]string // variables that files set for the server, as written; used if From is set
	offers  bool              // the entry is for the tools of an extension
	inner   bool              // Path leads to a member of the server's entry
	address bool              // it has an address
	local   string            // type of an entry with a command; default: stdio
	stays   string            // why an entry with an address is not rewritten
	inert   bool              // the agent starts no server for it: see Ungoverned
}

// Off is the reason why an agent does not start a server.
type Off string

const (
	Starts   Off = ""
	Disabled Off = "disabled"
	Pending  Off = "not approved yet"
	Shadowed Off = "another scope has the name too"
	Denied   Off = "denied by the agent's own rules"
	Inactive Off = "for another profile or system only"
)

// each yields the entries of all sources.
func each(sources []*Source) iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		for _, s := range sources {
			for _, e := range s.Entries {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// load reads the file at path. It returns nil if there is none.
func load(path string, syntax edit.Syntax) (*Source, error) {
	target, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(path); err == nil {
			return nil, fmt.Errorf("%s is a broken link", path)
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
	if s.doc, err = parseSettled(s.file, syntax, shortSettleTimeout); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if s.doc.Root().Kind() != edit.Object {
		return nil, fmt.Errorf("%s: line 1, column 1: expected an object", path)
	}
	return s, nil
}

// addServers adds the members of the object at path, or the items of the list at path, as
// servers. types are the agent's names for local servers, besides stdio.
func (s *Source) addServers(scope string, path []string, types ...string) []*Entry {
	from := len(s.Entries)
	add := func(value edit.Node, id, step string) {
		s.add(usualForm.read(value, types...), scope, strings.ToValidUTF8(id, "\ufffd"), append(slices.Clip(path), step)...)
	}
	for name, value := range s.doc.At(path).Members() {
		add(value, name.Text(), name.Text())
	}
	for i, item := range s.doc.At(path).Items() { // each item has its own name
		if name := item.Member("name"); name.Kind() == edit.String {
			add(item, name.Text(), strconv.Itoa(i))
		}
	}
	return s.Entries[from:]
}

// add adds a server that was read from the value at path.
func (s *Source) add(e *Entry, scope, id string, path ...string) {
	e.ID, e.Scope, e.File, e.Path, e.source, e.vars = id, scope, s.Path, path, s, s.vars
	s.Entries = append(s.Entries, e)
}

// node returns the value of e in its file.
func (e *Entry) node() edit.Node { return e.source.doc.At(e.Path) }

// useMember makes e the server in a member of its entry.
func (e *Entry) useMember(f form, member string, node edit.Node) {
	inner := f.read(node)
	e.form, e.Path, e.inner = f, append(e.Path, member), true
	e.Command, e.Args, e.Ungoverned, e.inert, e.address = inner.Command, inner.Args, inner.Ungoverned, inner.inert, inner.address
}

// refuse marks an entry as one of which the agent makes no server.
func (e *Entry) refuse(why string) { e.Ungoverned, e.inert = "not a server: "+why, true }

// read parses a server of this form: command, arguments and environment.
func (f form) read(node edit.Node, types ...string) *Entry {
	e := &Entry{form: f}
	n := f.of(node)
	command, args, env, kind := n.command(), n.args(), n.env(), n.Member("type")
	for _, part := range []edit.Node{node, command, args, env} {
		e.fixed = cmp.Or(e.fixed, part.Fixed())
	}
	switch {
	case n.Kind() != edit.Object && node.Fixed() == "":
		e.refuse("not an object")
	case kind.Exists() && kind.Text() != "stdio" && !slices.Contains(types, kind.Text()):
		e.leaveAddress(kind.Text())
	case command.Kind() != edit.String && (n.Member("url").Exists() || n.Member("serverUrl").Exists() || n.Member("httpUrl").Exists()):
		e.leaveAddress("")
	case e.fixed != "": // any other fault does not matter
	case command.Kind() != edit.String || command.Text() == "":
		e.refuse("no command")
	case args.Exists() && args.Kind() != edit.Array && args.Kind() != edit.Null:
		e.refuse("args is not a list")
	case env.Exists() && env.Kind() != edit.Object && env.Kind() != edit.Null:
		e.refuse("env is not an object")
	}
	if command.Kind() == edit.String {
		e.Command = command.Text()
	}
	for _, arg := range args.Items() {
		e.Args = append(e.Args, arg.Text())
	}
	e.unwrapCommand(n)
	return e
}
