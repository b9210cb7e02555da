package agentconf

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// opencode takes a whole configuration from a variable, which it puts on top of
// all files, member by member. So the variable says no more than which command
// starts each server, and two words of its environment: the folder, the rest of
// the environment, and whether it is on stay where they are.

// elsewhere are the verbs and flags with which opencode serves any number of
// folders, or those of a process that runs already.
var elsewhere = []string{"serve", "web", "acp", "attach", "--attach"}

// fileReference is {file:path}, which is looked for beside the file that says it
// unless it is absolute.
var fileReference = regexp.MustCompile(`\{file:[^/~}]`)

func (o opencode) unfaithful(env Env, found *Found) string {
	if word := env.first(elsewhere); word != "" {
		return "with " + word + " it works in other folders than this one"
	}
	for s, e := range found.strongest {
		beside := filepath.Dir(s.Path) == realPath(o.cwd(env)) || e.Scope == scopeContent
		if !beside && fileReference.MatchString(s.doc.At(e.Path).Member("command").Raw()) {
			return "the command of " + e.ID + " names a file beside " + s.Path
		}
	}
	return ""
}

func (o opencode) point(env Env, found *Found, line Line, _ string) (*pointed, error) {
	text := env.variable(scopeContent)
	if text == "" {
		text = "{}"
	}
	doc, err := lenient.Parse([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("the variable %s: %w", scopeContent, err)
	}
	empty, err := lenient.Value("{}")
	if err != nil {
		return nil, err
	}
	var ops []edit.Op
	var fresh []edit.Member // servers that the variable says nothing of
	for s, e := range found.strongest {
		if e.Ungoverned != "" && e.Ungoverned != inVariable {
			continue
		}
		at := append(slices.Clip(opencodeServers), e.ID)
		n := doc.At(at)
		if !n.Exists() {
			n = empty
		}
		c := &changes{entry: n, path: at}
		opencodeOnto(c, opencodeCommand(s.doc.At(e.Path), e, line), line)
		for _, l := range tooLow(found.Sources, e.Path, e.limits) {
			if !n.Member(l.key).Exists() { // what the variable says of it itself stays
				c.put(l.key, strconv.Itoa(l.least))
			}
		}
		if n == empty {
			fresh = append(fresh, edit.Member{Name: e.ID, Value: lenient.Table(c.added)})
		} else {
			ops = append(ops, c.all()...)
		}
	}
	switch mcp := doc.At(opencodeServers); {
	case len(fresh) == 0:
	case mcp.Exists():
		ops = append(ops, edit.Add(opencodeServers, fresh...))
	default:
		ops = append(ops, edit.Add(nil, edit.Member{Name: opencodeServers[0], Value: lenient.Table(fresh)}))
	}
	value, err := doc.Edit(ops...)
	if err != nil {
		return nil, fmt.Errorf("the variable %s: %w", scopeContent, err)
	}
	return &pointed{name: scopeContent, value: string(value)}, nil
}

// opencodeCommand is the command of a server with the shim before it, its words
// as they are written.
func opencodeCommand(n edit.Node, e *Entry, line Line) string {
	items := n.Member("command").Items()
	words := append([]string{lenient.Quote(line.Shim)}, line.of(e).words(lenient.Quote(e.ID), items[0].Raw(), lenient)...)
	for _, item := range items[1:] {
		words = append(words, item.Raw())
	}
	return lenient.List(words)
}

// opencodeOnto puts a command onto what the variable says of a server already.
func opencodeOnto(c *changes, command string, line Line) {
	if !c.entry.Member("type").Exists() {
		c.put("type", lenient.Quote("local"))
	}
	c.put("command", command)
	if c.entry.Member("environment").Kind() == edit.Object {
		c.do(edit.Add(c.at("environment"), line.env(lenient)...))
	} else {
		c.put("environment", lenient.Table(line.env(lenient)))
	}
}
