package agentconf

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"
)

// yamlLayout draws a file of Goose.
type yamlLayout struct {
	remotes  bool // some servers are behind an address
	t        *rapid.T
	step     int  // indentation
	hang     bool // lists are not indented below their names
	comments bool
}

func (l *yamlLayout) pick(label string, from ...string) string {
	return rapid.SampledFrom(from).Draw(l.t, label)
}

func (l *yamlLayout) chance(label string) bool { return rapid.Bool().Draw(l.t, label) }

func (l *yamlLayout) comment() string {
	if !l.comments {
		return ""
	}
	return l.pick("comment", "", "", "  # it's \"a\" note, ] }: -")
}

func (l *yamlLayout) indent(depth int) string { return strings.Repeat(" ", l.step*depth) }

func (l *yamlLayout) scalar(flow bool) string {
	texts := []string{"npx", `"-y"`, `'it''s'`, `"tab\t\"q\" \\ \u00e9"`, "größer", `"😀"`, "''", `"--server-id"`, "/opt/a.b", "'1.5'", `"null"`}
	if !flow {
		texts = append(texts, "-y", "@scope/x"[1:], "a, b [c]", "https://example.test/x#y", "${HOME}/d", "--flag={a}")
	}
	return l.pick("scalar", texts...)
}

// list draws a list, as lines at a depth or in brackets.
func (l *yamlLayout) list(name string, depth int, items int) []string {
	at := l.indent(depth)
	if items == 0 || l.chance("flow") {
		var parts []string
		for range items {
			parts = append(parts, l.scalar(true))
		}
		joint := l.pick("joint", ", ", ",  ", ",\n"+at+"   ")
		return []string{at + name + ": " + l.pick("open", "[", "[ ") + strings.Join(parts, joint) + "]" + l.comment()}
	}
	lines := []string{at + name + ":" + l.comment()}
	if !l.hang {
		at = l.indent(depth + 1)
	}
	for range items {
		if l.comments && l.chance("a comment before") {
			lines = append(lines, at+"# before: [")
		}
		lines = append(lines, at+"-"+l.pick("dash", " ", "   ")+l.scalar(false)+l.comment())
	}
	return lines
}

func (l *yamlLayout) table(name string, depth, members int) []string {
	at := l.indent(depth)
	if members == 0 || l.chance("flow") {
		var parts []string
		for i := range members {
			parts = append(parts, fmt.Sprintf("K%d: %s", i, l.scalar(true)))
		}
		return []string{at + name + ": {" + strings.Join(parts, ", ") + "}" + l.comment()}
	}
	lines := []string{at + name + ":" + l.comment()}
	for i := range members {
		lines = append(lines, fmt.Sprintf("%s%s: %s%s", l.indent(depth+1), l.pick("name", fmt.Sprintf("K%d", i), fmt.Sprintf(`"K %d"`, i)), l.scalar(false), l.comment()))
	}
	return lines
}

// flowServer draws a server in braces, on one or several lines.
func (l *yamlLayout) flowServer(name string) []string {
	parts := []string{"type: stdio", `"cmd": ` + l.pick("command", "npx", "'x, y'", `"/opt/Ünï"`)}
	if l.remotes && l.chance("remote") {
		parts = []string{l.pick("type", "type: sse", `"type": "streamable_http"`), "uri: " + l.pick("uri", "https://x.test/#a", `"http://x.test"`), "headers: {A: b, 'C': ''}"}
	}
	for _, more := range [][]string{
		{"args", "args: []", "args: [-y, 'x, y', ]", "args: ", "args: null"}, {"envs", "envs: {}", "envs: {K: v}", `envs: {"K":"v"}`, "envs: ~"},
		{"timeout", "timeout: 300", "timeout: "}, {"enabled", "enabled: true"},
	} {
		if l.chance(more[0]) {
			parts = append(parts, l.pick(more[0], more[1:]...))
		}
	}
	joint := l.pick("joint", ", ", ",  ", ",\n"+l.indent(2)+" ")
	return []string{l.indent(1) + name + ": " + l.pick("open", "{", "{ ") + strings.Join(rapid.Permutation(parts).Draw(l.t, "order"), joint) + l.pick("close", "}", " }") + l.comment()}
}

func (l *yamlLayout) server(name string) []string {
	if l.chance("between braces") {
		return l.flowServer(name)
	}
	at := l.indent(2)
	members := [][]string{
		{at + "type: stdio" + l.comment()},
		{at + "cmd: " + l.pick("command", "npx", "'x y'", `"/opt/Ünï"`, "/usr/bin/größe", `"n\u0070x"`, "a, b") + l.comment()},
	}
	remote := l.remotes && l.chance("remote")
	if remote {
		members = [][]string{
			{at + l.pick("type", "type: sse", "type: streamable_http") + l.comment()},
			{at + "uri: " + l.pick("uri", "https://x.test/#a", `"http://x.test"`) + l.comment()},
			l.table("headers", 2, rapid.IntRange(0, 2).Draw(l.t, "headers")),
		}
	}
	null := []string{"", " ", " ~", " null"}
	switch args := rapid.IntRange(0, 3).Draw(l.t, "args"); {
	case remote:
	case args == 1:
		members = append(members, []string{at + "args:" + l.pick("null", null...) + l.comment()})
	case args > 1:
		members = append(members, l.list("args", 2, rapid.IntRange(0, 3).Draw(l.t, "items")))
	}
	switch rapid.IntRange(0, 3).Draw(l.t, "envs") {
	case 1:
		members = append(members, []string{at + "envs:" + l.pick("null", null...) + l.comment()})
	case 2, 3:
		members = append(members, l.table("envs", 2, rapid.IntRange(0, 2).Draw(l.t, "variables")))
	}
	for _, more := range [][]string{
		{"timeout", "timeout: 300", "timeout: 1000.5", "timeout: ~", "timeout:", "timeout: 0x10"}, {"enabled", "enabled: true", "enabled: false"},
		{"description", "description: ''", "description: |\n" + at + "   a block: of\n\n" + at + "     text", "description: plain\n" + at + "  over lines", "description: \"quoted\n" + at + "  over lines\""},
		{"available_tools", "available_tools: []"}, {"date", "date: 2026-11-20"},
	} {
		if l.chance(more[0]) {
			members = append(members, []string{at + l.pick(more[0], more[1:]...)})
		}
	}
	lines := []string{l.indent(1) + name + ":" + l.comment()}
	for _, m := range rapid.Permutation(members).Draw(l.t, "order") {
		lines = append(lines, m...)
	}
	return lines
}

func drawYAML(t *rapid.T) string { return drawYAMLOf(t, false) }

// drawYAMLOf is drawYAML. If remotes is set, some servers are behind an address.
func drawYAMLOf(t *rapid.T, remotes bool) string {
	l := &yamlLayout{t: t, remotes: remotes, step: rapid.IntRange(1, 4).Draw(t, "step"), hang: rapid.Bool().Draw(t, "hang"), comments: rapid.Bool().Draw(t, "comments")}
	lines := []string{"# the top", "GOOSE_MODEL: m" + l.comment(), "extensions:"}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"files", `"quo ted"`, "größe", "'12'", "a-b"}), 1, 4, rapid.ID).Draw(t, "servers") {
		lines = append(lines, l.server(name)...)
	}
	lines = append(lines, l.indent(1)+"developer: {type: builtin, enabled: true}", "other: &anchor", "  - 1.50", "  - *anchor2", "last: x")
	text := strings.Replace(strings.Join(lines, "\n"), "*anchor2", "{a: [b, c]}", 1) + l.pick("end", "", "\n", "\n\n# end")
	if l.chance("CRLF") {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	return l.pick("mark", "", "\ufeff") + text
}
