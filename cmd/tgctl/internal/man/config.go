package man

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
)

// schemaNode is the part of the configuration's JSON Schema that thoughtgate.yaml(5)
// needs.
type schemaNode struct {
	Type        string                `json:"type"`
	Title       string                `json:"title"`
	Description string                `json:"description"`
	Default     any                   `json:"default"`
	Enum        []any                 `json:"enum"`
	Minimum     json.Number           `json:"minimum"`
	Maximum     json.Number           `json:"maximum"`
	AnyOf       []*schemaNode         `json:"anyOf"`
	Items       *schemaNode           `json:"items"`
	Properties  map[string]schemaNode `json:"properties"`
	Required    []string              `json:"required"`
	Additional  json.RawMessage       `json:"additionalProperties"` // a schemaNode, or false
}

// values returns the schema of values whose names the file chooses, nil if it chooses
// none.
func (n *schemaNode) values() *schemaNode {
	inner := &schemaNode{}
	if json.Unmarshal(n.Additional, inner) != nil {
		return nil
	}
	return inner
}

// kind describes the allowed values, empty if any text is allowed.
func (n *schemaNode) kind() string {
	switch {
	case n.Title != "":
		return n.Title
	case n.Enum != nil:
		return strings.Join(ui.Map(n.Enum, func(word any) string { return fmt.Sprint(word) }), " | ")
	case n.AnyOf != nil:
		return n.anyKind()
	case n.Type == "array":
		return strings.TrimSpace("a list " + n.Items.kind())
	case n.Minimum != "" && n.Minimum == n.Maximum:
		return n.Minimum.String()
	case n.Minimum != "":
		return fmt.Sprintf("%s to %s", n.Minimum, n.Maximum)
	case n.Type == "boolean":
		return "true | false"
	}
	return ""
}

// anyKind describes alternatives: a value or a variable of the environment is described
// as the value, and a value or a list as both.
func (n *schemaNode) anyKind() string {
	if last := n.AnyOf[len(n.AnyOf)-1]; last.Type == "array" {
		return cmp.Or(n.AnyOf[0].kind(), "one") + ", or a list"
	}
	return n.AnyOf[0].kind()
}

// configPage returns thoughtgate.yaml(5), generated from the schema.
func configPage(schema []byte, date string) (string, error) {
	var root schemaNode
	if err := json.Unmarshal(schema, &root); err != nil {
		return "", fmt.Errorf("read the schema: %w", err)
	}
	p := newRoff("thoughtgate.yaml", "5", date, "File Formats")
	p.section("NAME")
	p.line(plain("thoughtgate.yaml - what ThoughtGate allows agents to do, and whom it asks"))
	p.section("SYNOPSIS")
	p.line(slant("~/.config/thoughtgate/thoughtgate.yaml"))
	p.section("DESCRIPTION")
	p.prose(configAbout)
	p.section("KEYS")
	p.line(plain("Each key is given with its path, in which [] means each entry of a list and NAME a name that you choose."))
	p.keys("", &root)
	p.section("EXAMPLES")
	p.asItStands(strings.Split(configExample, "\n"))
	p.list("FILES", slant,
		"~/.config/thoughtgate/thoughtgate.yaml", "The configuration. $XDG_CONFIG_HOME is honoured; $THOUGHTGATE_CONFIG names another file.",
		"~/.config/thoughtgate/policies/*.cedar", "Cedar policies, unless cedar.policies says otherwise.",
		".thoughtgate.yaml", "A file of the same form in a project, which can only add restrictions.")
	p.seeAlso([]string{"tgctl-policy(1)", "tgctl-policy-check(1)", "tgctl-policy-explain(1)", "thoughtgated(8)"})
	return p.String(), nil
}

// nested reports whether n has keys below it.
func (n *schemaNode) nested() bool {
	return n.Properties != nil || n.Items != nil && n.Items.nested() || n.values() != nil && n.Type == "object"
}

// keys adds an entry for each key below path. Keys that have no keys below them come
// first. At the top level, where path is empty, each of the others gets a heading.
func (p *roff) keys(path string, n *schemaNode) {
	if n.Items != nil {
		p.keys(path+"[]", n.Items)
		return
	}
	below := maps.Clone(n.Properties)
	if below == nil {
		below = map[string]schemaNode{"NAME": *n.values()}
	}
	order := slices.Sorted(maps.Keys(below))
	for _, nested := range []bool{false, true} {
		for _, key := range order {
			inner := below[key]
			if inner.nested() != nested {
				continue
			}
			at := strings.TrimPrefix(path+"."+key, ".")
			if !nested {
				p.key(at, &inner, slices.Contains(n.Required, key))
				continue
			}
			if path == "" {
				p.subsection(key)
				p.line(plain(sentence(inner.Description)))
			}
			p.keys(at, &inner)
		}
	}
}

// key adds the entry of one key: its description and, in brackets, the allowed values
// unless the description names them, and the default.
func (p *roff) key(path string, n *schemaNode, required bool) {
	says := n.Description
	var notes []string
	kind := n.kind()
	said := strings.Contains(says, " | ") || strings.HasPrefix(says, "true:") || strings.HasPrefix(says, "false:") ||
		strings.HasSuffix(says, ": "+kind)
	if says == "" {
		says = cmp.Or(kind, "any text")
	} else if kind != "" && !said {
		notes = append(notes, kind)
	}
	switch {
	case required:
		notes = append(notes, "required")
	case n.Default != nil:
		notes = append(notes, "default "+strings.Trim(fmt.Sprint(n.Default), "[]"))
	}
	if len(notes) > 0 {
		says += " (" + strings.Join(notes, "; ") + ")"
	}
	p.item(bold(path), says)
}

const configAbout = `
The configuration of ThoughtGate, in YAML. The daemon reads it at its start and
on tgctl daemon reload, at no other time. It is read strictly: an unknown or
duplicate key or an invalid value is an error with line and column, and nothing
is put in force.

Without the file a built-in default is in force, which asks about secrets,
places where secrets are kept, and tools that delete, execute, pay, install or
grant. A governance without rules forwards what no condition names.

In values, ${NAME} is replaced by a variable of the daemon's environment, and
${NAME:-VALUE} by VALUE if that is not set. In many places a list of one entry
may be written as that entry alone; those are named below.

tgctl policy init writes a first file, tgctl policy check reports all errors in
one, and tgctl policy schema prints a JSON Schema for editors.
`

const configExample = `  schema: 1
  governance:
    rules:                  # the first that matches decides
      - when: [secret, secret-place]
        action: approve
        description: "it contains or accesses credentials"
      - match: "delete_*"
        action: deny
        description: "deleting is not allowed"
  approval:
    default:
      timeout: 5m`
