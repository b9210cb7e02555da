package agentconf

import (
	"maps"
	"regexp"
	"slices"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// codexServers are the servers of Codex by their names, as they come out of all
// files that were added, the weakest first.
type codexServers map[string]*codexServer

// codexServer is one server, field by field from the highest file that has it.
type codexServer struct {
	command string
	args    []string
	off     bool
	limits  map[string]float64 // as they will be once files are rewritten
	entries []codexEntry       // that say how it is started, the weakest first
}

// codexEntry is what one file says of a server; whole when that is all that it
// takes to start it.
type codexEntry struct {
	*Entry
	whole bool
}

// codexNames are the names of servers that Codex starts.
var codexNames = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// of returns a server, which is made when there is none.
func (m codexServers) of(name string) *codexServer {
	if m[name] == nil {
		m[name] = &codexServer{limits: map[string]float64{}}
	}
	return m[name]
}

// below adds a file that is not rewritten, and whose entries were read.
func (m codexServers) below(s *Source) {
	for _, e := range s.Entries {
		server, n := m.of(e.ID), s.doc.At(e.Path)
		server.learn(n)
		server.entries = append(server.entries, codexEntry{e, isWhole(n)})
	}
}

func isWhole(n edit.Node) bool { return n.Member("command").Exists() && n.Member("args").Exists() }

// add adds a file. One that does not count yet is read as if it did, and changes
// nothing for the files above it.
func (m codexServers) add(s *Source, scope string, pending bool) {
	for name, value := range s.doc.At([]string{codexKey}).Members() {
		server := m.of(name.Text())
		if pending {
			server = server.copied()
		}
		server.learn(value)
		e := server.entry(value, name.Text())
		if e == nil {
			continue
		}
		e.ID, e.Scope, e.File, e.Path = name.Text(), scope, s.Path, []string{codexKey, name.Text()}
		if pending {
			e.Off, e.Because = Pending, "codex does not trust this project"
		}
		if pending && server.off {
			e.Off, e.Because = Disabled, ""
		}
		s.Entries = append(s.Entries, e)
		if !pending {
			server.entries = append(server.entries, codexEntry{e, isWhole(value)})
		}
	}
}

func (server *codexServer) copied() *codexServer {
	other := *server
	other.limits = maps.Clone(server.limits)
	return &other
}

// learn takes up the fields that a file has.
func (server *codexServer) learn(n edit.Node) {
	if command := n.Member("command"); command.Kind() == edit.String {
		server.command = command.Text()
	}
	if args := n.Member("args"); args.Kind() == edit.Array {
		server.args = texts(args)
	}
	if enabled := n.Member("enabled"); enabled.Exists() {
		server.off = enabled.IsFalse()
	}
}

// entry reads what a file says of how the server is started, nil when it says
// nothing of that, and sets no limit that has to be raised either.
func (server *codexServer) entry(n edit.Node, name string) *Entry {
	command, args := n.Member("command"), n.Member("args")
	says := n.Kind() != edit.Object || command.Exists() || args.Exists() || n.Member("url").Exists()
	if !says && (server.command == "" || !tooTight(n)) {
		return nil
	}
	e := readEntry(n)
	switch {
	case !codexNames.MatchString(name):
		e.Ungoverned = "not a server: codex starts none of such a name"
	case command.Exists() || args.Exists() && args.Kind() != edit.Array || n.Member("url").Exists():
	case server.command == "":
		e.Ungoverned = "only a part of a server, whose command no file names"
	default: // the command comes from a file below
		e.Command, e.Ungoverned = server.command, ""
	}
	if !args.Exists() {
		e.Args = server.args
	}
	e.limits = server.limited(n, e.Ungoverned == "")
	return e
}

// tooTight reports whether a file sets a limit lower than it should be.
func tooTight(n edit.Node) bool {
	return slices.ContainsFunc(limits[codex{}.Name()], func(l limit) bool {
		number, ok := numberOf(n.Member(l.key).Raw())
		return ok && number < float64(l.least)
	})
}

// limited returns what has to be raised in an entry. A setting that it lacks is
// that of a file below where there is one; that must not be lowered.
func (server *codexServer) limited(n edit.Node, governed bool) []limit {
	out := slices.Clone(limits[codex{}.Name()])
	for i, l := range out {
		number, ok := numberOf(n.Member(l.key).Raw())
		if !ok {
			number = server.limits[l.key]
			out[i].lax = number >= float64(l.least)
		}
		if governed {
			number = max(number, float64(l.least))
		}
		server.limits[l.key] = number
	}
	return out
}

// settle says of every entry whether it counts: not when the server is switched
// off, and not when one above it has all that it has.
func (m codexServers) settle() {
	for _, server := range m {
		whole := false
		for _, e := range slices.Backward(server.entries) {
			switch {
			case server.off:
				e.Off = Disabled
			case whole && e.Off == Starts:
				e.Off = Shadowed
			}
			whole = whole || e.whole
		}
	}
}

// order are the entries of all servers, of each the strongest first.
func (m codexServers) order() []*Entry {
	var all []*Entry
	for _, name := range slices.Sorted(maps.Keys(m)) {
		for _, e := range slices.Backward(m[name].entries) {
			all = append(all, e.Entry)
		}
	}
	return all
}
