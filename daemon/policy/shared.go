package policy

import (
	"strings"

	"github.com/thoughtgate/thoughtgated/daemon/config"
)

// Shared reports whether the server with this id and resolved command line is to
// be one process for all sessions. One that its source is tied to another command
// than, or that is switched off, is not.
func (s *Set) Shared(server string, command []string) bool {
	source := s.cfg.Source(server)
	return source != nil && source.Shared && source.Enabled &&
		(source.Command.IsZero() || source.Command.Match(strings.Join(command, " ")))
}

// unbound warns of shared servers that no command ties to a program.
func (l *loader) unbound() {
	for i := range l.cfg.Sources {
		if s := &l.cfg.Sources[i]; s.Shared && s.Command.IsZero() {
			l.report(s.Place, config.Warning, "", "add command: with a glob over its command line",
				"shared: true without command: the daemon starts whatever program an agent's entry names under this id")
		}
	}
}
