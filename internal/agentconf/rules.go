package agentconf

import (
	"fmt"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// Agents have rules of their own about which servers they start. Many hold them
// against the command of an entry, and would find ours there once it is rewritten:
// what they deny would pass, and what they allow would not. So these rules are held
// against the entry as its owner wrote it, here, before it is rewritten; and what
// the agent would not have started is left as it is.

// candidate is a server as its owner wrote it.
type candidate struct {
	name     string
	commands [][]string // program and arguments: as written, and as the agent expands them; none for a remote one
	url      string     // of a remote one
}

// candidate is e as its owner wrote it.
func (e *Entry) candidate(url string, env Env) candidate {
	c := candidate{name: e.ID, url: url}
	if e.Command == "" {
		return c
	}
	written := append([]string{e.Command}, e.Args...)
	var expanded []string
	for _, word := range written {
		expanded = append(expanded, e.vars.word(word, env))
	}
	c.commands = [][]string{written, expanded}
	return c
}

// serverRule is one line of a list of servers that are allowed or denied. It names
// them in one of three ways.
type serverRule struct {
	name    string
	command []string // the program and every argument
	url     string   // in which * stands for anything
	place   string   // the file that it stands in
}

func (r serverRule) matches(c candidate) bool {
	switch {
	case r.command != nil:
		return slices.ContainsFunc(c.commands, func(words []string) bool { return slices.Equal(words, r.command) })
	case r.url != "":
		return c.url != "" && matchURL(r.url, c.url)
	}
	return r.name != "" && r.name == c.name
}

// matchURL reports whether url is what pattern says. A * stands for any text, also
// for none.
func matchURL(pattern, url string) bool {
	parts := strings.Split(pattern, "*")
	rest, ok := strings.CutPrefix(url, parts[0])
	if !ok || len(parts) == 1 {
		return ok && rest == ""
	}
	last := len(parts) - 1
	for _, part := range parts[1:last] {
		_, after, found := strings.Cut(rest, part)
		if !found {
			return false
		}
		rest = after
	}
	return strings.HasSuffix(rest, parts[last])
}

// serverLists are an agent's lists of servers.
type serverLists struct {
	denied  []serverRule
	allowed []serverRule
	listed  bool // there is a list of what is allowed, if only an empty one
}

// refuses says why the agent does not start a server, and is empty when it does.
//
// What is denied is denied, whatever is allowed. A list of what is allowed leaves
// out all else; and where it names any server by its command, one that is started
// by a command must be named so: its name is not enough. The same holds for what is
// reached at a URL.
func (l serverLists) refuses(c candidate) string {
	for _, r := range l.denied {
		if r.matches(c) {
			return fmt.Sprintf("%s denies it", r.place)
		}
	}
	if !l.listed || slices.ContainsFunc(l.fitting(c), func(r serverRule) bool { return r.matches(c) }) {
		return ""
	}
	return "it is not on the list of servers that are allowed"
}

// deniesCommand reports whether a rule denies a server for its command.
func (l serverLists) deniesCommand(c candidate) bool {
	return slices.ContainsFunc(l.denied, func(r serverRule) bool { return r.command != nil && r.matches(c) })
}

// fitting are the rules of what is allowed that a server is held against.
func (l serverLists) fitting(c candidate) []serverRule {
	exact := func(r serverRule) bool { return r.command != nil }
	if c.url != "" {
		exact = func(r serverRule) bool { return r.url != "" }
	}
	if !slices.ContainsFunc(l.allowed, exact) {
		return l.allowed
	}
	return slices.DeleteFunc(slices.Clone(l.allowed), func(r serverRule) bool { return !exact(r) })
}

// exactly reports whether a server is allowed for its command alone: rewritten, it
// is not what the list names any more.
func (l serverLists) exactly(c candidate) bool {
	return l.listed && slices.ContainsFunc(l.fitting(c), func(r serverRule) bool { return r.command != nil && r.matches(c) })
}

// NotStarted says in words why the agent would not start the server, and is empty
// when it would.
func (e *Entry) NotStarted() string {
	if e.Because == "" {
		return string(e.Off)
	}
	return string(e.Off) + ": " + e.Because
}

// node is what a file says of e.
func (f *Found) node(e *Entry) edit.Node {
	for _, s := range f.Sources {
		if slices.Contains(s.Entries, e) {
			return s.doc.At(e.Path)
		}
	}
	return edit.Node{}
}

// asksAgain says for the agents that bind a person's trust to what an entry says
// what the person will see, since a rewritten entry is another one to them.
var asksAgain = map[string]string{
	"vscode": "VS Code trusts a server by what its entry says: it asks whether to trust each one anew when its entry is rewritten, and once more when it is put back",
	"cursor": "Cursor approves a server by what its entry says: it shows each one as new, or as switched off, until you approve it, when its entry is rewritten and once more when it is put back (cursor-agent: `mcp enable NAME`)",
}

// shadow marks the entries of the same name as one that counts for more.
// Entries come strongest first.
func shadow(strongestFirst []*Entry) {
	shadowBy(func(name string) string { return name }, strongestFirst)
}

// shadowBy is shadow for an agent that takes names for the same whose key is.
func shadowBy(key func(string) string, strongestFirst []*Entry) {
	seen := map[string]bool{}
	for _, e := range strongestFirst {
		if seen[key(e.ID)] && e.Off == Starts {
			e.Off = Shadowed
		}
		if e.Off != Inactive {
			seen[key(e.ID)] = true
		}
	}
}
