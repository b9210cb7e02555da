package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/rawjson"
)

// suggestion is a rule that would have forwarded what a person approved.
type suggestion struct {
	Agent    string   `json:"agent"`
	Server   string   `json:"server"`
	Tool     string   `json:"tool"`
	Width    string   `json:"width"`    // exact, folder, tool
	Covers   int      `json:"covers"`   // approved questions
	Examples []uint64 `json:"examples"` // numbers of records of them
	YAML     string   `json:"yaml"`     // rules, to be put above the one that asks
	Cedar    string   `json:"cedar"`    // policies that they need; empty for none
	At       string   `json:"at"`       // the rule that asks
	Tried    tried    `json:"backtest"`

	of display.Safe // what it covers, in words
}

// Widths of a suggestion.
const (
	widthExact  = "exact"
	widthFolder = "folder"
	widthTool   = "tool"
)

// maxExamples is how many examples a suggestion has.
const maxExamples = 3

// unsuited says why nothing more is suggested for a tool.
type unsuited struct {
	Agent  string       `json:"agent"`
	Server string       `json:"server"`
	Tool   string       `json:"tool"`
	Reason display.Safe `json:"reason"`
}

// group is what was asked about a tool.
type group struct {
	tool   toolKey
	all    []*asked
	counts []*asked // those that a person approved unchanged
}

// groupsOf sorts questions by tool. Those that were approved most often come first.
func groupsOf(all []*asked) []*group {
	byTool := map[toolKey]*group{}
	for _, q := range all {
		g := byTool[q.tool]
		if g == nil {
			g = &group{tool: q.tool}
			byTool[q.tool] = g
		}
		g.all = append(g.all, q)
		if q.counts {
			g.counts = append(g.counts, q)
		}
	}
	return slices.SortedFunc(maps.Values(byTool), func(x, y *group) int {
		if n := len(y.counts) - len(x.counts); n != 0 {
			return n
		}
		return slices.Compare([]string{x.tool.server, x.tool.tool, x.tool.agent}, []string{y.tool.server, y.tool.tool, y.tool.agent})
	})
}

// unsuited returns why no rule is suggested for the tool; "" if one may be.
func (g *group) unsuited() display.Safe {
	launches := map[string]bool{}
	for _, q := range g.all {
		launches[q.launch] = true
	}
	for _, q := range g.counts {
		for _, fact := range q.facts {
			if !mayBeForwarded(fact) {
				return "calls have the fact " + display.Name(fact) + ui.AfterColon(suggestFacts[fact])
			}
		}
	}
	switch {
	case len(launches) > 1:
		return "different programs were started as this server"
	case g.tool.agent == "":
		return "the agent is not known"
	case ui.LiteralGlob(g.tool.agent) == "" || ui.LiteralGlob(g.tool.server) == "" || ui.LiteralGlob(g.tool.tool) == "":
		return "no pattern matches only this name"
	}
	return ""
}

// denied reports whether calls with a shape were ever denied; of an unknown shape, whether any were.
func (g *group) denied(shape string) bool {
	return slices.ContainsFunc(g.all, func(q *asked) bool {
		return q.verdict == "rejected" && (shape == "" || q.shape() == "" || q.shape() == shape)
	})
}

// suggestions returns rules of different width for the tool, the narrowest first, and why there are not more.
func (g *group) suggestions(times int, home string) (all []*suggestion, why display.Safe) {
	whole := ui.Filter(g.counts, func(q *asked) bool { return q.args != nil && !g.denied(q.shape()) })
	switch {
	case len(whole) < len(g.counts) && g.denied(""):
		why = "a question about it was denied"
	case len(whole) < len(g.counts):
		why = "arguments were not recorded, or not as they were, so only a rule for the whole tool can be suggested"
	}
	all = append(all, g.exact(whole, times)...)
	if g.tool.server == agentServer {
		return all, "what a tool of the agent itself does follows from its very arguments, so only exact ones are suggested"
	}
	all = append(all, g.folder(whole, times, home)...)
	if !g.denied("") && len(g.counts) >= times {
		all = append(all, g.whole())
	}
	return all, why
}

// agentServer is the server of the agent's own tools.
const agentServer = "agent"

// suggest returns a suggestion that covers questions.
func (g *group) suggest(width string, of display.Safe, covered []*asked) *suggestion {
	s := &suggestion{Agent: g.tool.agent, Server: g.tool.server, Tool: g.tool.tool, Width: width, Covers: len(covered), of: of}
	s.At = covered[len(covered)-1].rule
	for _, q := range covered[max(0, len(covered)-maxExamples):] {
		s.Examples = append(s.Examples, q.seq)
	}
	return s
}

// exact suggests to forward the calls with the arguments that were approved most often. Cedar compares members one by one, so
// those that other calls of the tool have had are left out by name.
func (g *group) exact(whole []*asked, times int) []*suggestion {
	byArgs := map[string][]*asked{}
	for _, q := range whole {
		byArgs[string(q.args)] = append(byArgs[string(q.args)], q)
	}
	most := ""
	for _, args := range slices.Sorted(maps.Keys(byArgs)) {
		if len(byArgs[args]) > len(byArgs[most]) {
			most = args
		}
	}
	conditions, names, ok := cedarMembers([]byte(most))
	if len(byArgs[most]) < times || !ok {
		return nil
	}
	for _, name := range g.otherMembers(names) {
		conditions = append(conditions, "!(context.arguments has "+cedarText(name)+")")
	}
	s := g.suggest(widthExact, "exactly these arguments", byArgs[most])
	g.withCedar(s, strings.Join(conditions, " &&\n  "))
	return []*suggestion{s}
}

// ownMembers are the arguments that tools of the agent itself may have.
var ownMembers = []string{"command", "cwd", "path", "patch", "url", "query", "prompt", "server", "tool", "name"}

// otherMembers returns the arguments that calls of the tool can have besides names, as far as the record tells.
func (g *group) otherMembers(names []string) []string {
	var all []string
	if g.tool.server == agentServer {
		all = slices.Clone(ownMembers)
	}
	for _, q := range g.all {
		members, _ := rawjson.Members(q.args) // nil, or it was read before
		for _, m := range members {
			all = append(all, m.Name)
		}
	}
	return ui.Filter(ui.Unique(all), func(name string) bool { return !slices.Contains(names, name) })
}

// folder suggests to forward the calls whose paths are below the folder that those of the approved calls share.
func (g *group) folder(whole []*asked, times int, home string) []*suggestion {
	if len(whole) < times {
		return nil
	}
	var members []string // those with a path in each call
	paths := map[string]bool{}
	for i, q := range whole {
		found := absolutePaths(q.args)
		if i == 0 {
			members = slices.Sorted(maps.Keys(found))
		}
		members = ui.Filter(members, func(name string) bool { return found[name] != "" })
		for _, name := range members {
			paths[found[name]] = true
		}
	}
	folder := commonFolder(slices.Sorted(maps.Keys(paths)))
	if len(members) == 0 || len(paths) < 2 || !isNarrow(folder, home) {
		return nil
	}
	var all []string
	for _, name := range members {
		argument := "context.arguments[" + cedarText(name) + "]"
		all = append(all, fmt.Sprintf("context.arguments has %s && %s like %s && !(%s like \"*/..*\")", cedarText(name), argument, cedarPattern(folder+"/"), argument))
	}
	s := g.suggest(widthFolder, "paths below "+display.Text(folder), whole)
	g.withCedar(s, strings.Join(all, " &&\n  "))
	return []*suggestion{s}
}

// whole suggests to forward all calls of the tool that have none of the facts that rule a suggestion out.
func (g *group) whole() *suggestion {
	s := g.suggest(widthTool, "any arguments, without a fact that asks", g.counts)
	s.YAML = g.yaml("    when: ["+strings.Join(factsThatAsk(), ", ")+"]", "approve\n    approval: "+workflowMark) + g.yaml("", "forward")
	return s
}

// factsThatAsk lists the facts that rules and policies can name and that rule a suggestion out.
func factsThatAsk() []string {
	return slices.Sorted(func(yield func(string) bool) {
		for fact := range suggestFacts {
			if !mayBeForwarded(fact) && fact != "undo" && fact != "no-undo" && !yield(fact) { // those two are found after a rule asks
				return
			}
		}
	})
}

// yaml returns a rule for the tool, with a further line of conditions.
func (g *group) yaml(condition, action string) string {
	lines := []string{
		"  - match: " + strconv.QuoteToASCII(ui.LiteralGlob(g.tool.tool)),
		"    source: " + strconv.QuoteToASCII(ui.LiteralGlob(g.tool.server)),
		"    agent: " + strconv.QuoteToASCII(ui.LiteralGlob(g.tool.agent)),
	}
	if condition != "" {
		lines = append(lines, condition)
	}
	return strings.Join(append(lines, "    action: "+action), "\n") + "\n"
}

// withCedar has s forward the calls for which a condition of Cedar holds and that have none of the facts that rule a
// suggestion out, and ask about all others, as before.
func (g *group) withCedar(s *suggestion, condition string) {
	s.YAML = g.yaml("", "policy")
	scope := fmt.Sprintf("principal == ThoughtGate::Agent::%s, action == ThoughtGate::Action::%s, resource",
		cedarText(g.tool.agent), cedarText(strings.NewReplacer("%", "%25", "/", "%2F").Replace(g.tool.server)+"/"+g.tool.tool))
	condition = "!context.facts.containsAny([" + strings.Join(ui.Map(factsThatAsk(), cedarText), ", ") + "]) &&\n  " + condition
	s.Cedar = fmt.Sprintf("permit (%s) when {\n  %s\n};\n@approval(%s) permit (%s) unless {\n  %s\n};\n", scope, condition, workflowMark, scope, condition)
}

// workflowMark stands for the workflow that asks, which is filled in once it is known.
const workflowMark = "WORKFLOW"

// asksIn has s ask a workflow about what it does not forward.
func (s *suggestion) asksIn(workflow string) {
	s.YAML = strings.Replace(s.YAML, "approval: "+workflowMark, "approval: "+strconv.QuoteToASCII(workflow), 1)
	s.Cedar = strings.Replace(s.Cedar, "@approval("+workflowMark+")", "@approval("+cedarText(workflow)+")", 1)
}

// cedarText returns text as a literal of Cedar.
func cedarText(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		if r >= ' ' && r <= '~' && r != '"' && r != '\\' {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u{%x}`, r)
		}
	}
	return b.String() + `"`
}

// cedarPattern returns a pattern of Cedar that matches what begins with text.
func cedarPattern(text string) string {
	literal := cedarText(text)
	return strings.ReplaceAll(literal[:len(literal)-1], "*", `\*`) + `*"`
}

// cedarMembers returns conditions of Cedar that hold for a JSON object with the members of object, and their names. It reports
// whether Cedar has all of their values alike: texts, true, false and whole numbers of 64 bits.
func cedarMembers(object []byte) (conditions, names []string, ok bool) {
	members, err := rawjson.Members(object)
	if err != nil {
		return nil, nil, false
	}
	for _, m := range members {
		value := string(m.Value)
		switch {
		case slices.Contains(names, m.Name):
			return nil, nil, false
		case m.Value.Kind() == '"':
			text, err := rawjson.Text(m.Value)
			if err != nil || !utf8.ValidString(text) {
				return nil, nil, false
			}
			value = cedarText(text)
		case m.Value.Kind() == '0':
			if _, err := strconv.ParseInt(value, 10, 64); err != nil {
				return nil, nil, false
			}
		case value != "true" && value != "false":
			return nil, nil, false
		}
		names = append(names, m.Name)
		conditions = append(conditions, fmt.Sprintf("context.arguments has %s && context.arguments[%s] == %s", cedarText(m.Name), cedarText(m.Name), value))
	}
	return conditions, names, true
}

// absolutePaths returns the members of an object that are absolute paths, as they are written.
func absolutePaths(object json.RawMessage) map[string]string {
	found := map[string]string{}
	members, _ := rawjson.Members(object) // it was read before
	for _, m := range members {
		if m.Value.Kind() != '"' {
			continue
		}
		if text, err := rawjson.Text(m.Value); err == nil && path.IsAbs(text) && path.Clean(text) == text {
			found[m.Name] = text
		}
	}
	return found
}

// commonFolder returns the deepest folder that holds all of paths.
func commonFolder(paths []string) string {
	if len(paths) == 0 {
		return "/"
	}
	folder := path.Dir(paths[0])
	for _, p := range paths[1:] {
		for folder != "/" && !strings.HasPrefix(p, folder+"/") {
			folder = path.Dir(folder)
		}
	}
	return folder
}

// isNarrow reports whether a rule may be about all that is below a folder: it lies at least three deep, is not the home folder or
// above it, and no part of it is hidden, as folders of settings are.
func isNarrow(folder, home string) bool {
	parts := strings.Split(strings.TrimPrefix(folder, "/"), "/")
	hidden := slices.ContainsFunc(parts, func(part string) bool { return strings.HasPrefix(part, ".") })
	return len(parts) >= 3 && !hidden && folder != path.Clean(home) && !strings.HasPrefix(path.Clean(home), folder+"/")
}
