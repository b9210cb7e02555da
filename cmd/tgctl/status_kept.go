package main

import (
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// keptKinds are the kinds as a person reads of them: what stands before the line,
// and one and many of them.
var keptKinds = map[string]struct {
	head      string
	one, many display.Safe
}{
	kindBackend:   {"shared", "server that sessions share", "servers that sessions share"},
	kindExtension: {"extension", "extension is installed", "extensions are installed"},
	kindAgent:     {"headless", "run of a headless agent", "runs of headless agents"},
}

// addKept says how many programs the daemon keeps, and whether they are well.
func addKept(s *sheet, counts []*pb.KindCount) {
	for _, c := range counts {
		kind, ok := keptKinds[c.GetKind()]
		if !ok {
			continue // of a newer daemon
		}
		line := plural(c.GetAll(), kind.one, kind.many)
		if n := c.GetUnwell(); n > 0 {
			line += ", " + display.Count(n) + " not well"
		}
		if n := c.GetFailed(); n > 0 {
			line += ", " + display.Count(n) + " FAILED"
		}
		if c.GetUnwell()+c.GetFailed() > 0 {
			line += "; see: tgctl ps"
		}
		s.add(kind.head, line)
	}
}
