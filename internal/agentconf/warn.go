package agentconf

import (
	"fmt"
	"strings"
)

// leaveFixed leaves the user's own entries alone that are written in a way that
// cannot be rewritten, and names them.
func (f *Found) leaveFixed() {
	for s, e := range each(f.Sources) {
		if e.fixed == "" || e.From != "" || e.Ungoverned != "" {
			continue
		}
		e.Ungoverned = "written in a way that can't be changed: " + e.fixed
		f.Warnings = append(f.Warnings, fmt.Sprintf("server %s in %s is not governed: it is %s", e.ID, s.Path, e.Ungoverned))
	}
}

// warnOurs tells of entries that set variables of ours, or have no name.
func (p *Plan) warnOurs() {
	for _, f := range p.files {
		for _, e := range f.governed() {
			if e.ours == nil && setsOurs(e.form.of(f.doc().At(e.Path))) {
				p.warnings = append(p.warnings, fmt.Sprintf("server %s in %s sets %s or %s, which are ThoughtGate's own: others take their place", e.ID, f.path, envSocket, envSession))
			}
			switch {
			case e.ID == "":
				p.warnings = append(p.warnings, fmt.Sprintf("a server in %s has an empty name: it is left out, and not started", f.path))
			case strings.Contains(e.ID, "\x00"):
				p.warnings = append(p.warnings, fmt.Sprintf("server %q in %s has a NUL in its name: it is left out, and not started", e.ID, f.path))
			}
		}
	}
}

// warnUnset tells of references that nobody will be able to resolve. They stay
// as they are: whoever expands them is told the same by them.
func (p *Plan) warnUnset() {
	for _, f := range p.files {
		for s, e := range each(f.sources) {
			if names := e.unset(s.doc.At(e.Path), p.env); e.Ungoverned == "" && e.Off == Starts && len(names) > 0 {
				p.warnings = append(p.warnings, fmt.Sprintf("server %s in %s refers to %s, which is not set; left as written", e.ID, s.Path, strings.Join(names, ", ")))
			}
		}
	}
}
