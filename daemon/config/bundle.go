package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// CedarText is a file of Cedar policies of a Bundle.
type CedarText struct {
	Name string
	Text []byte
}

// Bundle is the policy of a fleet for one group. Its settings are about calls only: what concerns
// the machine stays with its user. A Bundle is immutable.
type Bundle struct {
	cfg   *Config
	cedar []CedarText
	floor bool
}

// Config returns the rules as a configuration. That of a floor forwards whatever the rules do not
// mention.
func (b *Bundle) Config() *Config { return b.cfg }

// Cedar returns the Cedar policies.
func (b *Bundle) Cedar() []CedarText { return b.cedar }

// IsFloor reports whether the bundle is asked besides the user's own configuration, and not in its
// place.
func (b *Bundle) IsFloor() bool { return b.floor }

// keysOfBundle are the keys that both kinds of bundles may have.
var keysOfBundle = map[reflect.Type][]string{
	reflect.TypeFor[Config](): {"$schema", "schema", "sources", "governance", "approval"},
	reflect.TypeFor[Source](): {"id", "command", "enabled", "expose"},
	reflect.TypeFor[Rule]():   {"match", "when", "source", "agent", "method", "action", "approval", "undo", "policy_id", "description"},
}

// checkWorkflows refuses workflows on Slack: a workflow of the same name in the machine's own
// configuration would say who may answer.
func checkWorkflows(c *checker) {
	for _, name := range keysOf(c.Approval) {
		if w := c.Approval[name]; w.Destination.Type == DestinationSlack || slices.Contains(w.Surfaces, SurfaceSlack) {
			c.reportError(&w.Destination, "", "write surfaces: [colleague], and name the approvers in the policy", "the policy of a fleet can't ask on Slack")
		}
	}
}

// floorBundle is the form of the rules of a floor.
var floorBundle = form{
	keys:    keysOfBundle,
	why:     "the floor of a fleet is asked besides each machine's own configuration, and can only tighten it",
	instead: "leave it to the machines, or use a group of mode full",
	defaults: func(c *Config) {
		c.Governance.Defaults = Defaults{Action: Forward, Asks: Forward}
		c.Unknown = Unknown{Requests: "forward", Notifications: "forward", Revisions: "forward"}
		c.Cedar.Policies = nil
	},
	check: func(c *checker) {
		checkWorkflows(c)
		const hint = "narrow the rules that tighten, or use a group of mode full"
		for i := range c.Governance.Rules {
			if r := &c.Governance.Rules[i]; r.Action == Forward {
				c.reportError(&r.Action, "", hint, "the rule loosens: a floor can't forward what a machine's own configuration does not")
			}
		}
		for _, a := range []*Action{&c.Governance.Defaults.Action, &c.Governance.Defaults.Asks} {
			if *a == Forward && c.Place(a).Line > 0 {
				c.reportError(a, "", hint, "the default loosens: a floor can't forward what a machine's own configuration does not")
			}
		}
	},
}

// fullBundle is the form of the rules that replace the user's own.
var fullBundle = form{
	keys:     keysOfFull(),
	why:      "the policy of a fleet is about calls; what concerns a machine stays with its user",
	instead:  "leave it to the machines",
	defaults: func(c *Config) { c.Cedar.Policies = nil },
	check:    checkWorkflows,
}

func keysOfFull() map[reflect.Type][]string {
	keys, whole := maps.Clone(keysOfBundle), reflect.TypeFor[Config]()
	keys[whole] = append(slices.Clone(keys[whole]), "profile", "unknown")
	return keys
}

// ParseBundle parses the rules and Cedar policies of a group. file is the name that places have.
// The Bundle is nil if there is any error in the rules; package policy checks the Cedar policies.
func ParseBundle(file string, rules []byte, cedar []CedarText, floor bool) (*Bundle, []Diagnostic) {
	if len(rules) == 0 {
		rules = []byte("schema: 1\n")
	}
	if len(rules) > maxFile {
		return nil, []Diagnostic{{File: file, Severity: Error, Message: fmt.Sprintf("the rules are longer than %v", Size(maxFile))}}
	}
	form, base := fullBundle, Default()
	if floor {
		form, base = floorBundle, nil
	}
	c, ds := parse(file, rules, nil, base, form)
	if c == nil {
		return nil, ds
	}
	return &Bundle{c, cedar, floor}, ds
}
