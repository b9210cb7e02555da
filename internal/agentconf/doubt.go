package agentconf

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// An agent may read text that is ambiguous or invalid in another way than this package, or not
// at all. If it is a part of one server's entry, it concerns only that server. Anywhere else it
// may decide which servers there are, what their names are or whether they are started, so
// nothing in the file can be relied on.

// markDoubtfulEntries marks entries with doubtful values as not rewritable. It returns an error for a file
// with doubts elsewhere.
func (f *Found) markDoubtfulEntries() error {
	for _, s := range f.Sources {
		for _, d := range s.doc.Doubts() {
			found := false
			for e := range each(f.Sources) {
				if e.source.file.path == s.file.path && e.holds(d.Path) && e.ours == nil && !mentionsUs(s.doc.At(e.Path)) {
					e.fixed, e.Ungoverned, found = cmp.Or(e.fixed, d.Err.Error()), "", true
				}
			}
			if !found {
				return fmt.Errorf("%s: %w", s.Path, d.Err)
			}
		}
	}
	return nil
}

// holds reports whether path is that of the entry or of something in it.
func (e *Entry) holds(path []string) bool {
	at := e.Path
	if e.inner {
		at = at[:len(at)-1]
	}
	return isBelow(path, at)
}

// isBelow reports whether path equals above or is below it.
func isBelow(path, above []string) bool {
	return len(path) >= len(above) && slices.Equal(path[:len(above)], above)
}

// checkDoubts returns an error if doubts in the document make it uncertain what of it is ours.
func (t *lineRemover) checkDoubts() error {
	for _, d := range t.doc.Doubts() {
		rewritten := slices.ContainsFunc(t.before, func(w originalEntry) bool { return isBelow(d.Path, w.Path) || isBelow(w.Path, d.Path) })
		if rewritten || mentionsUs(d.Node) {
			return d.Err
		}
	}
	return nil
}

// mentionsUs reports whether our variables or our program are named anywhere in n.
func mentionsUs(n edit.Node) bool {
	for step, kid := range n.Children() {
		if step == envSocket || step == envSession || mentionsUs(kid) {
			return true
		}
	}
	return n.Kind() == edit.String && filepath.Base(n.Text()) == shimName
}

// leaveFixed excludes the user's own entries that can't be rewritten, with a warning.
func (f *Found) leaveFixed() {
	for e := range each(f.Sources) {
		if e.fixed == "" || e.From != "" || e.Ungoverned != "" {
			continue
		}
		e.Ungoverned = "an entry that can't be rewritten: " + e.fixed
		f.Warnings = append(f.Warnings, fmt.Sprintf("server %s in %s is not governed: %s", e.ID, e.File, e.Ungoverned))
	}
}

// warnOurs warns of entries that set our variables, or have no name.
func (p *Plan) warnOurs() {
	for _, f := range p.files {
		for _, e := range f.governed() {
			if e.ours == nil && setsOurs(e.form.of(f.doc.At(e.Path))) {
				p.warnings = append(p.warnings, fmt.Sprintf("server %s in %s sets %s or %s, which ThoughtGate overrides", e.ID, f.path, envSocket, envSession))
			}
			switch {
			case e.ID == "":
				p.warnings = append(p.warnings, fmt.Sprintf("a server in %s has an empty name and is not started", f.path))
			case strings.Contains(e.ID, "\x00"):
				p.warnings = append(p.warnings, fmt.Sprintf("server %q in %s has a NUL in its name and is not started", e.ID, f.path))
			}
		}
	}
}

// warnUnset warns of references to variables that are not set. They stay as written: the
// program that expands them will report the same.
func (p *Plan) warnUnset() {
	for _, f := range p.files {
		for _, e := range f.entries {
			if names := e.unset(p.env); e.Ungoverned == "" && e.Off == Starts && len(names) > 0 {
				p.warnings = append(p.warnings, fmt.Sprintf("server %s in %s refers to %s, which is not set; the reference is kept", e.ID, e.File, strings.Join(names, ", ")))
			}
		}
	}
}
