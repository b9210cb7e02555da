package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// Detail lists the contents of a Set, for display.
type Detail struct {
	Sources   []Entry
	Rules     []Entry // the defaults last
	Policies  []Entry
	Workflows []Workflow
}

// Entry is a source, rule, default or policy of a Set. The name of a rule is its label without the
// place, so its pattern and facts are there, and its other conditions in fields of their own.
type Entry struct {
	gate.Cited
	Sources  []string // the servers to which a rule applies; empty means all
	Agents   []string // likewise
	Methods  []string // likewise
	Workflow string   // who is asked
	Undo     bool     // files that an approved call destroys are copied first
}

// Workflow is a workflow that is configured or that a rule or policy names. A built-in workflow
// has no Place.
type Workflow struct {
	Name string
	*config.Workflow
}

// Detail returns the contents of the set.
func (s *Set) Detail() Detail {
	if s.fleet != nil {
		return s.detailInFleet()
	}
	var d Detail
	for i := range s.cfg.Sources {
		d.Sources = append(d.Sources, sourceEntry(&s.cfg.Sources[i]))
	}
	for _, r := range slices.Concat(s.rules, []rule{s.defaults, s.forAsks}) {
		e := Entry{Cited: r.cited}
		if r.Rule != nil {
			e.Undo = r.Undo
			e.Sources, e.Agents, e.Methods = each(r.Source, config.Glob.String), each(r.Agent, config.Glob.String), each(r.Method, config.Glob.String)
		}
		if r.action == config.Approve {
			e.Workflow = r.ask.workflow
		}
		d.Rules = append(d.Rules, e)
	}
	for _, p := range s.policies {
		e := Entry{Cited: p.cited()}
		if p.ask != nil {
			e.Workflow = p.ask.workflow
		}
		d.Policies = append(d.Policies, e)
	}
	d.Workflows = s.workflows(&d)
	return d
}

// sourceEntry returns the entry of a source, with its command and what it exposes.
func sourceEntry(source *config.Source) Entry {
	var says []string
	if !source.Command.IsZero() {
		says = append(says, "only as "+source.Command.String())
	}
	does := "expose"
	switch e := &source.Expose; {
	case !source.Enabled:
		does = "hide"
	case e.Mode != config.ExposeAll:
		does = string(e.Mode)
		for _, part := range []struct {
			what  string
			globs []config.Glob
		}{{"tools", e.Tools}, {"resources", e.Resources}, {"prompts", e.Prompts}} {
			if len(part.globs) > 0 {
				says = append(says, fmt.Sprintf("%s %s", part.what, strings.Join(each(part.globs, config.Glob.String), " ")))
			}
		}
	}
	return Entry{Cited: citedAt("source", source.ID.String(), source.Place, does, strings.Join(says, "; "))}
}

// workflows lists the workflows that are configured and those that the entries name.
func (s *Set) workflows(d *Detail) []Workflow {
	var names []string
	for name := range s.cfg.Approval {
		names = append(names, name)
	}
	for _, e := range slices.Concat(d.Rules, d.Policies) {
		if e.Workflow != "" {
			names = append(names, e.Workflow)
		}
	}
	slices.Sort(names)
	var all []Workflow
	for _, name := range slices.Compact(names) {
		_, w := s.cfg.Workflow(name)
		all = append(all, Workflow{name, w})
	}
	return all
}
