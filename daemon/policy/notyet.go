package policy

import "github.com/thoughtgate/thoughtgated/daemon/config"

// notYet warns of settings that are understood and change nothing in this
// version, so that nobody relies on them.
func (l *loader) notYet() {
	warn := func(p config.Place, what string) {
		l.report(p, config.Warning, "", "", "%s has no effect in this version", what)
	}
	c := l.cfg
	for i := range c.Sources {
		s := &c.Sources[i]
		if s.TrustAnnotations {
			warn(s.Place, "trust_annotations: true")
		}
	}
	for _, w := range c.Approval {
		if w.RequireInteraction {
			warn(w.Place, "require_interaction: true")
		}
	}
}
