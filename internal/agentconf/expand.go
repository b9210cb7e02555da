package agentconf

import (
	"regexp"
	"slices"
	"strings"
)

// variables describes the references to variables in an agent's entries. The zero value is for
// an agent that has none.
//
// Expanded text is only compared and shown, never written to a file: the agent expands it when
// it starts the server, and secrets don't belong in a file.
type variables struct {
	pattern *regexp.Regexp    // groups: name, whether there is a default, default, and again the name where it can be without braces
	own     map[string]string // values of complete references that the agent resolves itself
	tilde   bool              // ~ at the start of a command or an argument is the home folder
}

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

// expand expands a value as the agent will. An empty variable counts as set. A variable that is
// not set and has no default stays as written.
func (v variables) expand(text string, env Env) string {
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
		if value, set := env.LookupEnv(refs[0].name); set {
			return value
		}
		if refs[0].hasDefault {
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
