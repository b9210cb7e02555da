package agentconf

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/uri"
)

// variables describes the references to variables in an agent's entries. The zero value is for
// an agent that has none.
//
// Expanded text is only compared and shown, never written to a file: the agent expands it when
// it starts the server, and secrets don't belong in a file.
type variables struct {
	pattern *regexp.Regexp    // groups: name, whether there is a default, default, and again the name where it can be without braces
	own     map[string]string // values of complete references that the agent resolves itself
	unset   whenUnset         // what becomes of a reference to a variable that is not set, and has no default
	tilde   bool              // ~ at the start of a command or an argument is the home folder
}

// whenUnset says what an agent makes of a reference to a variable that is not set.
type whenUnset byte

const (
	keepUnset  whenUnset = iota // it stays as text
	emptyUnset                  // it becomes empty
)

// reference is one reference to a variable.
type reference struct {
	name, fallback string
	hasDefault     bool
}

// shellVariables are ${NAME} and ${NAME:-default}. The default ends at the first closing brace,
// which can't be escaped.
var shellVariables = variables{pattern: regexp.MustCompile(`\$\{([A-Za-z_]\w*)(:-([^}]*))?\}`)}

// editorPattern matches ${env:NAME} and the variables of the editor itself. Others, such as
// ${input:id}, are unknown to us.
var editorPattern = regexp.MustCompile(`\$\{(?:env:([^}]+)|(?:userHome|workspaceFolder|workspaceFolderBasename|pathSeparator|/))()()\}`)

// dollarVariables are shellVariables and $NAME.
var dollarVariables = variables{pattern: regexp.MustCompile(`\$(?:\{([A-Za-z_]\w*)(:-([^}]*))?\}|([A-Za-z_]\w*))`)}

// braceVariables are {env:NAME}.
var braceVariables = variables{pattern: regexp.MustCompile(`\{env:([^}]+)()()\}`)}

func (v variables) references(text string) []reference {
	if v.pattern == nil {
		return nil
	}
	var refs []reference
	for _, m := range v.pattern.FindAllStringSubmatch(text, -1) {
		name := m[1]
		if len(m) > 4 {
			name += m[4]
		}
		if name != "" {
			refs = append(refs, reference{name, m[3], m[2] != ""})
		}
	}
	return refs
}

// expand expands a value as the agent will. An empty variable counts as set. What becomes of one that is
// not set and has no default, see whenUnset.
func (v variables) expand(text string, env Env) string { return v.expandWith(text, env.LookupEnv) }

// expandWith is expand with a function that looks up variables.
func (v variables) expandWith(text string, lookup func(string) (string, bool)) string {
	if v.pattern == nil || !strings.ContainsAny(text, "{$") {
		return text
	}
	return v.pattern.ReplaceAllStringFunc(text, func(match string) string {
		refs := v.references(match)
		if len(refs) == 0 {
			if value, is := v.own[match]; is {
				return value
			}
			return match
		}
		if value, set := lookup(refs[0].name); set {
			return value
		}
		if refs[0].hasDefault || v.unset == emptyUnset {
			return refs[0].fallback
		}
		return match
	})
}

// word is expand for a command, an argument or a folder.
func (v variables) word(text string, env Env) string {
	text = v.expand(text, env)
	if rest, ok := strings.CutPrefix(text, "~"); v.tilde && ok && (rest == "" || rest[0] == '/') {
		return env.Home + rest
	}
	return text
}

// laterPattern matches references that an editor resolves when it starts a server, by asking
// the person or by its settings.
var laterPattern = regexp.MustCompile(`\$\{(?:input|command|config):[^}]*\}`)

// later returns the first such reference in words, or "" if there is none.
func (v variables) later(words []string) string {
	for _, word := range words {
		if ref := laterPattern.FindString(word); v.own != nil && ref != "" {
			return ref
		}
	}
	return ""
}

// unset returns the variables that the entry refers to and that have neither a value nor a
// default.
func (e *Entry) unset(env Env) []string {
	texts := append([]string{e.Command}, e.Args...)
	if e.Remote != nil {
		texts = e.Remote.templates()
	}
	for _, value := range e.form.of(e.node()).env().Members() {
		texts = append(texts, value.Text())
	}
	var names []string
	for _, text := range texts {
		for _, ref := range e.vars.references(text) {
			if _, set := env.LookupEnv(ref.name); !set && !ref.hasDefault && !slices.Contains(names, ref.name) {
				names = append(names, ref.name)
			}
		}
	}
	return names
}

// maxExpanded is the maximum length of an expanded header in bytes.
const maxExpanded = 64 << 10

// Endpoint is where a server behind an address is, and what is sent with each request.
type Endpoint struct {
	Address string   // http, https or unix
	Headers []Header // Template is the value
}

// Expand expands the references in an address and in headers as the agent would. lookup looks up the
// environment of the agent's own process, and is called only for the names that [Remote.Variables]
// returns. No error quotes a value.
//
// A reference that the agent would leave in a header as text stays. In an address it is an error, as
// requests would go to an address that nobody has written.
func (r *Remote) Expand(lookup func(string) (string, bool)) (*Endpoint, error) {
	for _, text := range r.templates() {
		if ref := onlyAgent.FindString(text); ref != "" {
			return nil, fmt.Errorf("server %q: only the agent can resolve %s", r.Server, ref)
		}
	}
	v := remoteVariables[r.Syntax]
	v.own = r.Own
	for _, ref := range v.references(r.Address) {
		if _, set := lookup(ref.name); !set && !ref.hasDefault {
			return nil, fmt.Errorf("server %q: its address refers to %s, which is not set in the environment of the agent", r.Server, ref.name)
		}
	}
	out := &Endpoint{Address: v.expandWith(r.Address, lookup)}
	if _, err := uri.ParseServer(out.Address); err != nil {
		return nil, fmt.Errorf("server %q: with its variables, %w", r.Server, err)
	}
	for _, h := range r.Headers {
		value := h.Template
		if h.Variable == "" {
			value = v.expandWith(value, lookup)
		} else {
			more, set := lookup(h.Variable)
			switch {
			case !set && h.Optional:
				continue
			case !set || more == "":
				return nil, fmt.Errorf("server %q: its header %s needs the variable %s, which is not set in the environment of the agent", r.Server, h.Name, h.Variable)
			}
			value += more
		}
		// A line break would begin another header.
		if len(value) > maxExpanded || strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
			return nil, fmt.Errorf("server %q: with its variables, its header %s can't be sent: it has a control character, or more than %d bytes", r.Server, h.Name, maxExpanded)
		}
		out.Headers = append(out.Headers, Header{Name: h.Name, Template: value})
	}
	return out, nil
}
