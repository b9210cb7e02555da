package facts

import (
	"path"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/shell/effects"
)

// past notes what a line of long ago may have destroyed. What is not on this machine, and what is
// temporary, does not depend on the disk.
func (s *losses) past(gone []effects.Path, git []effects.Deed) {
	var unclear []string
	for _, p := range gone {
		switch {
		case p.Remote != "":
			s.files([]effects.Path{p})
		case p.Temp && !s.mayBeInProject(p):
		case p.Text == "":
			unclear = append(unclear, "deletes files that are known only when it runs")
		default:
			unclear = append(unclear, "deletes "+s.inspection.shown(p.Text))
		}
	}
	for _, d := range git {
		switch {
		case d.Remote != "" && d.Kind != effects.GitSwitch:
			s.git(&d)
		case d.Remote == "" && (d.Kind != effects.GitSwitch || s.looksLikeFile(&d)):
			unclear = append(unclear, s.inspection.shown(d.Detail))
		}
	}
	slices.Sort(unclear)
	s.inspection.call.Unclear = strings.Join(slices.Compact(unclear), "; ")
}

// mayBeInProject reports whether the text of a path may lead to the project, which may be in a folder
// for temporary files.
func (s *losses) mayBeInProject(p effects.Path) bool {
	project, folder := path.Clean(s.inspection.call.Project), certain(p)
	return p.Kind == effects.Unknown || folder == project || isBelow(folder, project) || isBelow(project, folder)
}

// looksLikeFile reports whether git checkout may be given the name of a file: one with a dot, or a
// pattern. Other words count as branches.
func (s *losses) looksLikeFile(d *effects.Deed) bool {
	c := s.gitCall(d.Command, "/")
	return c == nil || !c.all || slices.ContainsFunc(c.words, func(word string) bool { return isPathspec(word) || strings.Contains(word, ".") })
}
