package agentconf

import (
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"
)

// tomlLayout draws a TOML file that uses all notations for the same content.
type tomlLayout struct {
	remotes         bool // some servers are behind an address
	t               *rapid.T
	newline, indent string
	comments        bool
	tables          [][]string // tables with headers, which come after the keys of the file in any order
}

func (l *tomlLayout) pick(label string, from ...string) string {
	return rapid.SampledFrom(from).Draw(l.t, label)
}

func (l *tomlLayout) chance(label string) bool { return rapid.Bool().Draw(l.t, label) }

func (l *tomlLayout) comment() string {
	if !l.comments {
		return ""
	}
	return l.pick("comment", "", "", " # it's \"a\" note, ] }", "\t#")
}

func (l *tomlLayout) text() string {
	return l.pick("text", `"npx"`, `'C:\no\escape'`, `"\u00e9\t\"q\" \\"`, "\"\"\"\nover\n  lines\"\"\"", "'''x'y'''", `"größer 😀"`, `"--"`, `""`, `"--server-id"`, "'-y'", `"\U0001F600"`)
}

func (l *tomlLayout) command() string {
	return l.pick("command", `"npx"`, `'/opt/Ünï/x y'`, `"""uvx"""`, "'''\nclock'''", `"\u006epx"`)
}

// gap draws the text between the values of a list.
func (l *tomlLayout) gap() string {
	return l.pick("gap", "", " ", l.newline+l.indent, l.comment()+l.newline+"\t")
}

func (l *tomlLayout) list(items []string) string {
	text := "["
	for i, item := range items {
		if i > 0 {
			text += l.pick("before comma", "", " ") + ","
		}
		text += l.gap() + item
	}
	if len(items) > 0 && l.chance("trailing comma") {
		text += ","
	}
	return text + l.gap() + "]"
}

func (l *tomlLayout) assign(key, value string) string {
	return key + l.pick("assign", " = ", "=", " =\t", "  = ") + value
}

// members draws the members of a server, as keys and values; env is separate.
func (l *tomlLayout) members() (members [][2]string, env [][2]string, hasEnv bool) {
	if l.remotes && l.chance("remote") {
		members = append(members, [2]string{"url", l.pick("url", `"https://x.test/a?b"`, "'http://x.test'")})
		for _, more := range [][]string{{"http_headers", "{}", "{ A = 'b' }", "{A=\"\\u0062\", \"C.D\" = '', }"}, {"bearer_token_env_var", `"K"`}, {"env_http_headers", "{ A = 'B' }"}} {
			if l.chance(more[0]) {
				members = append(members, [2]string{more[0], l.pick(more[0], more[1:]...)})
			}
		}
	} else {
		members = append(members, [2]string{"command", l.command()})
	}
	if members[0][0] == "command" && l.chance("args") {
		var items []string
		for range rapid.IntRange(0, 3).Draw(l.t, "items") {
			items = append(items, l.text())
		}
		members = append(members, [2]string{"args", l.list(items)})
	}
	for _, more := range [][]string{
		{"tool_timeout_sec", "30", "90.5", "1_200", "6.0e2", "0x10", "1e9"}, {"startup_timeout_sec", "10", "60"},
		{"enabled", "true"}, {"since", "1979-05-27T07:32:00Z"}, {`"odd.key"`, "[{ a = 1 }, { a = 2 }]"},
	} {
		if l.chance(more[0]) {
			members = append(members, [2]string{more[0], l.pick(more[0], more[1:]...)})
		}
	}
	hasEnv = l.chance("env")
	for i := range rapid.IntRange(0, 2).Draw(l.t, "variables") {
		env = append(env, [2]string{l.pick("name", fmt.Sprintf("K%d", i), fmt.Sprintf(`"K.%d"`, i), fmt.Sprintf("'K%d'", i)), l.text()})
	}
	return rapid.Permutation(members).Draw(l.t, "order"), env, hasEnv
}

func (l *tomlLayout) inline(members [][2]string) string {
	var parts []string
	for _, m := range members {
		parts = append(parts, l.assign(m[0], m[1]))
	}
	return l.pick("inline", "{", "{ ") + strings.Join(parts, l.pick("comma", ", ", ",", " , ")) + l.pick("inline end", "}", " }")
}

// server draws a server in any form. If dotted is set, its keys may be in the table of servers.
func (l *tomlLayout) server(name string, dotted bool) (lines []string) {
	members, env, hasEnv := l.members()
	line := func(prefix, key, value string) {
		lines = append(lines, l.indent+l.assign(prefix+key, value)+l.comment())
	}
	form := l.pick("form", "header", "header", "dotted", "inline")
	if !dotted {
		form = "header"
	}
	prefix := ""
	switch form {
	case "inline":
		switch {
		case hasEnv && len(env) > 0 && l.chance("dotted between braces"):
			for _, m := range env {
				members = append(members, [2]string{"env." + m[0], m[1]})
			}
		case hasEnv:
			members = append(members, [2]string{"env", l.inline(env)})
		}
		line("", name, l.inline(members))
		return lines
	case "dotted":
		prefix = name + l.pick("dot", ".", " . ")
	}
	for _, m := range members {
		line(prefix, m[0], m[1])
	}
	header := func(path string) string {
		return l.indent + l.pick("header", "["+path+"]", "[ "+path+" ]") + l.comment()
	}
	how := l.pick("env", "inline", "dotted", "header")
	switch {
	case !hasEnv:
	case how == "inline" || how == "header" && form == "dotted":
		line(prefix, "env", l.inline(env))
	case how == "dotted" && len(env) > 0:
		for _, m := range env {
			line(prefix+"env.", m[0], m[1])
		}
	case how == "header":
		own := lines
		lines = []string{"", header("mcp_servers." + name + ".env")}
		for _, m := range env {
			line("", m[0], m[1])
		}
		l.tables, lines = append(l.tables, lines), own
	}
	if form == "header" {
		l.tables = append(l.tables, append([]string{"", header("mcp_servers." + name)}, lines...))
		return nil
	}
	return lines
}

func drawTOML(t *rapid.T) string { return drawTOMLOf(t, false) }

// drawTOMLOf is drawTOML. If remotes is set, some servers are behind an address.
func drawTOMLOf(t *rapid.T, remotes bool) string {
	l := &tomlLayout{t: t, remotes: remotes, newline: "\n", comments: rapid.Bool().Draw(t, "comments")}
	l.indent = l.pick("indent", "", "", "  ", "\t")
	lines := []string{"# the top", `model = "m" ` + l.comment(), "", "list = [1, 2.50, [ 'x' ]] # numbers"}
	names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"files", `"quo-ted"`, "12", "a_b"}), 1, 4, rapid.ID).Draw(t, "servers")
	table := []string{"[mcp_servers]" + l.comment()}
	own := l.chance("a table of all servers")
	for _, name := range names {
		table = append(table, l.server(name, own)...)
	}
	if own {
		lines = append(lines, table...)
	}
	lines = append(lines, slices.Concat(rapid.Permutation(l.tables).Draw(t, "tables")...)...)
	lines = append(lines, "", "[[projects]]", "path = '/p' # p", `  [projects."x y"]`, "trust_level = \"trusted\"")
	text := strings.Join(lines, "\n") + l.pick("end", "", "\n", "\n\n# end")
	if l.chance("CRLF") {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	return l.pick("mark", "", "\ufeff") + text
}
