package config

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// checker looks for what is well formed and yet can't be meant.
type checker struct {
	*Config
	file  string
	found []Diagnostic
}

// wrong reports an error at the value that field points to.
func (c *checker) wrong(field any, id, hint, format string, args ...any) {
	p := c.Place(field)
	if p.File == "" {
		p.File = c.file
	}
	c.found = append(c.found, p.Diagnostic(Error, id, hint, format, args...))
}

func (c *checker) all() {
	c.sources()
	for i := range c.Governance.Rules {
		c.rule(&c.Governance.Rules[i])
	}
	c.asking()
	c.workflows()
	c.paths()
	c.limits()
	c.sampling()
	c.metrics()
	c.telemetry()
}

func (c *checker) metrics() {
	if m := &c.Metrics; m.Textfile != "" && !strings.HasSuffix(m.Textfile, ".prom") {
		c.wrong(&m.Textfile, "", "node_exporter reads no others", "the name of the text file %q does not end in .prom", m.Textfile)
	}
}

func (c *checker) sources() {
	first := map[string]*Source{}
	for i := range c.Sources {
		s := &c.Sources[i]
		id := s.ID.String()
		if id == "" {
			continue
		}
		if before := first[id]; before != nil {
			c.wrong(&s.ID, "V-001", fmt.Sprintf("it stands in line %d already; only the first would count", before.Place.Line), "the source id %q is there twice", id)
		} else {
			first[id] = s
		}
		if strings.HasPrefix(id, "_") {
			c.wrong(&s.ID, "V-002", "", "the source id %q begins with _, which is reserved", id)
		}
		if i := strings.IndexFunc(id, func(r rune) bool { return !unicode.IsGraphic(r) || r != ' ' && unicode.IsSpace(r) }); i >= 0 || strings.TrimSpace(id) != id || len(id) > 256 {
			c.wrong(&s.ID, "V-016", "", "the source id %q must be at most 256 bytes without control characters or outer blanks", id)
		}
		c.expose(&s.Expose)
	}
}

func (c *checker) expose(e *Expose) {
	lists := len(e.Tools) + len(e.Resources) + len(e.Prompts)
	switch {
	case e.Mode == ExposeAll && lists > 0:
		c.wrong(e, "", "write mode: allowlist or mode: blocklist", "the lists have no meaning where everything is exposed")
	case e.Mode != ExposeAll && lists == 0:
		c.wrong(e, "", "list tools, resources or prompts; a server that is not wanted is switched off with enabled: false", "the %s is empty", e.Mode)
	}
}

func (c *checker) rule(r *Rule) {
	if r.Action == "" || r.Place.File == builtIn && c.file != builtIn {
		return
	}
	if r.Match.IsZero() && c.Place(&r.Match).Line == 0 {
		if len(r.When) == 0 {
			c.found = append(c.found, r.Place.Diagnostic(Error, "", `write match: "*" for a rule that looks at no name`, "the rule has neither match nor when"))
		}
		r.Match, _ = NewGlob("*")
	}
	if c.Place(&r.When).Line > 0 && len(r.When) == 0 {
		c.wrong(&r.When, "", "", "the list of facts is empty, so the rule would never match")
	}
	for _, l := range []*[]Glob{&r.Source, &r.Agent, &r.Method} {
		if c.Place(l).Line > 0 && len(*l) == 0 {
			c.wrong(l, "", "", "the list is empty, so the rule would never match")
		}
	}
	c.answerBy(r)
	if r.PolicyID != "" && r.Action != Policy {
		c.wrong(&r.PolicyID, "V-004", "", "policy_id is for rules with action: policy; this one says %s", r.Action)
	}
	switch {
	case r.Approval == "":
	case r.Action != Approve:
		c.wrong(&r.Approval, "", "", "a workflow is for rules with action: approve; this one says %s", r.Action)
		return
	default:
		c.named(&r.Approval, r.Approval)
		return
	}
	if r.Action == Approve && len(c.Approval) > 1 {
		c.wrong(&r.Action, "V-006b", "write approval: with one of "+strings.Join(keysOf(c.Approval), ", "), "there are %d workflows, and the rule doesn't say which one asks", len(c.Approval))
	}
}

// named checks that there is a workflow of this name.
func (c *checker) named(field any, name string) {
	if _, w := c.Workflow(name); w == nil || name == DefaultWorkflow && len(c.Approval) > 0 && c.Approval[name] == nil {
		c.wrong(field, "V-006", meant(name, keysOf(c.Approval)), "there is no workflow %q", name)
	}
}

// asking checks that somebody is asked where the defaults say approve. Defaults
// that nobody wrote use the workflow of the name default, which exists always.
func (c *checker) asking() {
	for _, a := range []*Action{&c.Governance.Defaults.Action, &c.Governance.Defaults.Asks} {
		if *a == Approve && c.Place(a).Line > 0 && len(c.Approval) > 1 && c.Approval[DefaultWorkflow] == nil {
			c.wrong(a, "V-006b", fmt.Sprintf("call one of them %q", DefaultWorkflow), "there are %d workflows, and the defaults don't say which one asks", len(c.Approval))
		}
	}
}

var workflowName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

func (c *checker) workflows() {
	for _, name := range keysOf(c.Approval) {
		w := c.Approval[name]
		if !workflowName.MatchString(name) {
			c.found = append(c.found, w.Place.Diagnostic(Error, "", "use letters, digits, -, _ and .", "the workflow can't be named %q", name))
		}
		c.slack(&w.Destination)
		w.complete()
		for i := range w.RedactFields {
			if f := w.RedactFields[i]; f == "" || strings.Contains("."+f+".", "..") {
				c.wrong(&w.RedactFields[i], "", "write it as auth.token or items.*.secret", "%q is not a path into arguments", f)
			}
		}
	}
}

func (c *checker) paths() {
	for i := range c.Cedar.Policies {
		if c.Cedar.Policies[i] == "" {
			c.wrong(&c.Cedar.Policies[i], "V-013", "", "an empty path")
		}
	}
	if c.Cedar.Schema == "" {
		c.wrong(&c.Cedar.Schema, "V-013", "write generated, or the path of a Cedar schema", "an empty path")
	}
}

func (c *checker) limits() {
	if l := &c.Limits; l.PendingPerServer > l.Pending {
		field := any(&l.PendingPerServer)
		if c.Place(field).Line == 0 {
			field = &l.Pending
		}
		c.wrong(field, "", "", "pending_per_server (%d) is greater than pending (%d)", l.PendingPerServer, l.Pending)
	}
}
