package approval

import (
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
)

// graveFacts are the facts that make a notification critical, so that it is shown even if others are
// held back: those of high risk (gate.HighRisk), and those of a tool that may do harm or is not what
// a person has accepted. docs/notifications.md lists them.
var graveFacts = []string{"ours", "secret", "secret-place", "planted", "prompted", "acts", "changed", "smelly", "destroys", "uploads", "installs", "network-code"}

// factWords says in words what each fact of docs/facts.md means.
var factWords = map[string]display.Safe{
	"secret":       "carries what looks like a key, token or password",
	"secret-place": "names a place where credentials are kept",
	"planted":      "a server named this place before your agent did",
	"prompted":     "text from another server told the agent to use this tool",
	"acts":         "deletes, executes, pays, installs or grants",
	"sends":        "sends something",
	"new-place":    "nothing was sent there before",
	"outside":      "leads out of the project",
	"unlisted":     "the server lists no tool of this name",
	"changed":      "the tool's definition is not the one you accepted",
	"smelly":       "the tool's definition gives orders to a model",
	"steered":      "a server said what is worded to steer a model",
	"destroys":     "destroys what nothing can bring back",
	"uploads":      "sends files from outside of the project",
	"installs":     "changes what the machine runs by itself, or who gets in",
	"network-code": "runs what another machine sends",
	"opaque":       "a part of it is known only when it runs",
	"remote":       "runs on another system",
	"ours":         "names ThoughtGate's own files",
	"undo":         "what it destroys is copied first",
	"no-undo":      "what it destroys can't all be copied",
}

// factName returns the name of a fact as a question has it: "name: detail (member)".
func factName(fact string) string {
	name, _, _ := strings.Cut(fact, ":")
	name, _, _ = strings.Cut(name, " ")
	return name
}

// FactText says what a fact means: its name, then its detail, or words for it if it has none.
func FactText(fact string) display.Safe {
	name := factName(fact)
	words, known := factWords[name]
	if rest := strings.TrimPrefix(fact, name); known && !strings.HasPrefix(rest, ":") {
		return display.Text(name) + ": " + words + display.Text(rest)
	}
	return display.Text(fact)
}

// FactWords says what a fact means, without the detail of this call.
func FactWords(fact string) display.Safe {
	name := factName(fact)
	return display.Text(name) + ui.AfterColon(factWords[name])
}

// Danger says in one line what makes a call dangerous: its facts in words, the grave ones first. It is
// empty if there are none.
func Danger(facts []string) display.Safe {
	grave := ui.Filter(facts, IsGrave)
	rest := ui.Filter(facts, func(fact string) bool { return !IsGrave(fact) })
	return ui.Join(ui.Map(slices.Concat(grave, rest), FactText), "; ")
}

// IsGrave reports whether a fact makes a notification urgent.
func IsGrave(fact string) bool { return slices.Contains(graveFacts, factName(fact)) }
