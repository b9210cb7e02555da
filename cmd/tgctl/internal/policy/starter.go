package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
)

const starterHead = `# What agents may do. The daemon reads this file at its start and on reload, at no
# other time:
#
#   tgctl policy check        report errors in it
#   tgctl policy explain      explain how a call would be judged
#   tgctl policy backtest     test it on recorded calls
#   tgctl daemon reload       put it in force
#
# Written by tgctl policy init on %s. Unchanged, it equals the
# built-in default. For completion in an editor, use the output of
# tgctl policy schema.
schema: 1

# production enforces. development forwards everything and records what production
# would have done.
profile: production

governance:
  # Used if no rule matches. asks is for requests of servers to agents: sampling,
  # and opening a web page.
  defaults: {action: forward, asks: approve}   # forward | deny | approve | policy

  # The first rule that matches decides, so put yours before these.
  rules:
`

// starterRules has the rules of the built-in default; a test compares them.
const starterRules = `
    # By the facts of a call, whatever the name of its tool:
    - {when: secret, action: approve, description: "the call carries what looks like a key, token or password ({member})"}
    - {when: secret-place, action: approve, description: "it reaches for a place where credentials are kept"}
    - {when: planted, action: approve, description: "{place} was named by server {by}, not by you or your agent"}
    - {when: prompted, action: approve, description: "text from server {by} told the agent to use this tool"}
    - {when: unlisted, action: approve, description: "server {by} lists no tool of this name"}
    - {when: acts, action: approve, description: "it deletes, executes, pays, installs or grants"}
    - {when: destroys, action: approve, undo: true, description: "it destroys what can't be brought back: {detail}"}
    - {when: uploads, action: approve, description: "it sends files from outside of the project: {detail}"}
    - {when: installs, action: approve, description: "it changes what the machine runs by itself, or who gets in: {detail}"}
    - {when: network-code, action: approve, description: "it runs code that another machine sends: {detail}"}
    - {when: new-place, action: approve, description: "the first time anything is sent to {place}"}
`

const starterTail = `
# Who is asked, for how long, and which arguments are redacted. If there is only one
# workflow, rules need not name it.
# approval:
#   me:
#     destination: {type: local}
#     timeout: 10m
#     redact_fields: ["password", "headers.authorization"]

# Conditions on arguments, times and agents are written in Cedar, in files next to
# this one.
# cedar: {policies: ["policies/*.cedar"]}

# A tool is withheld if its definition differs from the accepted one.
pins: {mode: hold}   # hold | warn | off

# audit: {retention: 90d, max_size: 2GiB, values: redacted}   # none | redacted | full
`

// starter returns the text of a first configuration.
func (s *seen) starter(now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, starterHead, now.Format("2006-01-02"))
	for _, id := range slices.Sorted(maps.Keys(s.servers)) {
		s.servers[id].rules(&b, id)
	}
	b.WriteString(starterRules)
	b.WriteString(s.sources())
	b.WriteString(starterTail)
	return b.String()
}

// Starter returns the text of a configuration that equals the built-in default.
func Starter(now time.Time) string { return (&seen{}).starter(now) }

// rules writes comments with what is known of a server and with rules to consider. Names come
// from outside: comments show them escaped, and rules contain only names that need no escaping.
func (s *seenServer) rules(b *strings.Builder, id string) {
	what := "recorded"
	if len(s.from) > 0 {
		what = strings.Join(s.from, "; ")
	}
	if s.runs != "" {
		what += "; runs " + s.runs
	}
	fmt.Fprintf(b, "\n    # Server %s (%s)\n", display.Name(id), display.Text(what))
	for _, name := range byCalls(s.tools) {
		tool := s.tools[name]
		line := fmt.Sprintf("    #   %-24s %s", display.Name(name), ui.Plural(tool.calls, "call", "calls"))
		if len(tool.facts) > 0 {
			line += ", with " + string(display.Text(strings.Join(tool.facts, ", ")))
		}
		b.WriteString(line + "\n")
	}
	source, ok := pattern(id)
	if !ok {
		return
	}
	for _, name := range byCalls(s.tools) {
		if match, ok := pattern(name); ok && slices.ContainsFunc(s.tools[name].facts, isDeed) {
			fmt.Fprintf(b, "    # - {match: %s, source: %s, action: approve}\n", match, source)
		}
	}
	fmt.Fprintf(b, "    # - {match: \"*\", source: %s, action: approve}\n", source)
}

// isDeed reports whether a fact says that a tool does something.
func isDeed(fact string) bool { return fact == "acts" || fact == "sends" }

// sources returns comments that show how the servers could be restricted.
func (s *seen) sources() string {
	var b strings.Builder
	b.WriteString("\n# Servers. An allowlist exposes what it lists and nothing else.\n# sources:\n")
	n := 0
	for _, id := range slices.Sorted(maps.Keys(s.servers)) {
		quoted, ok := pattern(id)
		if !ok {
			continue
		}
		n++
		var tools []string
		for _, name := range byCalls(s.servers[id].tools) {
			if match, ok := pattern(name); ok {
				tools = append(tools, match)
			}
		}
		if len(tools) > 0 {
			fmt.Fprintf(&b, "#   - {id: %s, expose: {mode: allowlist, tools: [%s]}}\n", quoted, strings.Join(tools, ", "))
		} else {
			fmt.Fprintf(&b, "#   - {id: %s, enabled: false}\n", quoted)
		}
	}
	if n == 0 {
		b.WriteString("#   - {id: \"files\", command: \"*/mcp-server-filesystem *\", expose: {mode: allowlist, tools: [\"read_*\"]}}\n")
	}
	return b.String()
}

// pattern quotes a name as a pattern that matches only that name. It returns false if the name
// would have to be escaped or contains a pattern character.
func pattern(name string) (string, bool) {
	if name == "" || len(name) > 200 || string(display.Name(name)) != name || strings.ContainsAny(name, `*?[]{}\"$`) {
		return "", false
	}
	return `"` + name + `"`, true
}
