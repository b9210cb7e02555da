package agentconf

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Agents have rules about which servers they start. Many compare them with the command of an
// entry, and would find tg-shim there after a rewrite: what they deny would start, and what
// they allow would not. So these rules are applied here to the original entry before it is
// rewritten, and entries that the agent would not have started stay as they are.

// candidate is a server as its owner wrote it.
type candidate struct {
	name     string
	commands [][]string // program and arguments: as written, and expanded; none for a remote server
	url      string     // of a remote server
}

// candidate returns e as its owner wrote it.
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

// serverRule is one item in a list of allowed or denied servers. It identifies servers in one
// of three ways.
type serverRule struct {
	name    string
	command []string // the program and all arguments
	url     string   // pattern in which * matches any text
	place   string   // list and file that contain the rule
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

// matchURL reports whether url matches pattern. A * matches any text, including none.
func matchURL(pattern, url string) bool {
	re, err := regexp.Compile("(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(strings.ToValidUTF8(pattern, "\ufffd")), `\*`, ".*") + "$")
	return err == nil && re.MatchString(url)
}

// serverLists are an agent's lists of servers.
type serverLists struct {
	denied  []serverRule
	allowed []serverRule
	listed  bool // there is a list of allowed servers, even if it is empty
}

// refuses says why the agent does not start a server. It is empty if the agent does.
//
// A denied server is not started even if it is also allowed. A list of allowed servers excludes
// all others. If such a list has commands, a server with a command must match one of them: its
// name is not enough. The same applies to URLs.
func (l serverLists) refuses(c candidate) string {
	for _, r := range l.denied {
		if r.matches(c) {
			return fmt.Sprintf("%s denies it", r.place)
		}
	}
	if !l.listed || slices.ContainsFunc(l.fitting(c), func(r serverRule) bool { return r.matches(c) }) {
		return ""
	}
	return "it is not on the list of allowed servers"
}

// deniesCommand reports whether a rule denies a server because of its command.
func (l serverLists) deniesCommand(c candidate) bool {
	return slices.ContainsFunc(l.denied, func(r serverRule) bool { return r.command != nil && r.matches(c) })
}

// fitting returns the rules for allowed servers that apply to c.
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

// exactly reports whether a server is allowed only because of its command. After a rewrite, the
// rule does not match it any more.
func (l serverLists) exactly(c candidate) bool {
	return l.listed && slices.ContainsFunc(l.fitting(c), func(r serverRule) bool { return r.command != nil && r.matches(c) })
}

// NotStarted returns why the agent would not start the server, or "" if it would.
func (e *Entry) NotStarted() string {
	if e.Because == "" {
		return string(e.Off)
	}
	return string(e.Off) + ": " + e.Because
}

// shadow marks entries whose name a stronger entry has. Entries come strongest first.
func shadow(strongestFirst []*Entry) {
	shadowBy(func(name string) string { return name }, strongestFirst)
}

// shadowBy is shadow for an agent that compares names by key.
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
