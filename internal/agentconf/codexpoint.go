package agentconf

import (
	"slices"
	"strconv"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/tomledit"
)

// Codex CLI takes single settings on its command line, on top of all files, and
// merges them member by member. So it is told no more than how each server is
// started, two words of its environment, and limits that are too low. All of that
// can be read by whoever lists processes: so can the command line of the server,
// for as long, and no environment of a server is in it.

// unsteady are the verbs and flags with which Codex CLI works in other folders
// than this one, or leaves out files that it would read here.
var unsteady = strings.Fields("app-server exec-server mcp-server remote-control cloud resume fork --remote --ignore-user-config")

func (c codex) unfaithful(env Env, found *Found) string {
	if word := env.first(unsteady); word != "" {
		return "with " + word + " other files may count than those here"
	}
	for _, e := range each(found.Sources) {
		if e.Off == Pending {
			return "this project is not trusted yet: a flag would start " + e.ID + " without being asked"
		}
	}
	return ""
}

func (codex) point(_ Env, found *Found, line Line, _ string) (*pointed, error) {
	syntax, out := tomledit.Syntax{}, &pointed{}
	strongestFirst := slices.Clone(found.Sources)
	slices.Reverse(strongestFirst)
	for _, e := range found.strongest {
		if e.Ungoverned != "" {
			continue
		}
		set := func(key, value string) {
			out.args = append(out.args, "-c", codexKey+"."+e.ID+"."+key+"="+value)
		}
		words := line.of(e).words(syntax.Quote(e.ID), syntax.Quote(e.Command), syntax)
		for _, arg := range e.Args {
			words = append(words, syntax.Quote(arg))
		}
		set("command", syntax.Quote(line.Shim))
		set("args", syntax.List(words))
		for _, member := range line.env(syntax) {
			set("env."+member.Name, member.Value)
		}
		// Not those of the entry, which reckon with files that are rewritten below it.
		for _, l := range tooLow(strongestFirst, e.Path, limits[codex{}.Name()]) {
			set(l.key, strconv.Itoa(l.least))
		}
	}
	return out, nil
}
