package status

import (
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/programs"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// keptKinds maps the kinds to their labels, and to their names in singular and plural.
var keptKinds = map[string]struct {
	head      string
	one, many display.Safe
}{
	programs.KindBackend:   {"shared", "shared server", "shared servers"},
	programs.KindExtension: {"extension", "extension is installed", "extensions are installed"},
	programs.KindAgent:     {"headless", "headless agent", "headless agents"},
	programs.KindRemote:    {"remote", "server behind an address", "servers behind an address"},
}

// addKept adds how many programs the daemon keeps, and whether they are well.
func addKept(s *ui.Sheet, counts []*pb.KindCount) {
	for _, c := range counts {
		kind, ok := keptKinds[c.GetKind()]
		if !ok {
			continue // from a newer daemon
		}
		s.Add(kind.head, ui.Plural(c.GetAll(), kind.one, kind.many)+
			ui.Choose(c.GetUnwell() > 0, ", "+display.Count(c.GetUnwell())+" degraded", "")+
			ui.Choose(c.GetFailed() > 0, ", "+display.Count(c.GetFailed())+" FAILED", "")+
			ui.Choose(c.GetUnwell()+c.GetFailed() > 0, "; see: tgctl ps", ""))
	}
}
