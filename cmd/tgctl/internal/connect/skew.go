package connect

import (
	"sync"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
)

// Skew detects a daemon of another release. After an update the programs on disk are new, but
// the old daemon runs until it is restarted. A skew is safe for concurrent use.
type Skew struct {
	mu     sync.Mutex
	build  string // build of the daemon that replied last; empty before the first reply
	silent bool   // the user has been notified
}

// recordBuild records the build of the daemon that replied.
func (s *Skew) recordBuild(build string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.build = build
}

// SuppressNotice suppresses the notice.
func (s *Skew) SuppressNotice() { s.take() }

// take returns the recorded build the first time, and this program's own afterwards.
func (s *Skew) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silent {
		return ui.Release
	}
	s.silent = s.build != ""
	return s.build
}

// VersionSkew says that the daemon's version differs from this program's, and what to do. It
// returns "" if the versions are equal.
func VersionSkew(build string) display.Safe {
	if build == "" || build == ui.Release {
		return ""
	}
	return "The daemon is " + display.Name(build) + ", tgctl " + display.Name(ui.Release) + "; restart it: tgctl daemon restart"
}

// ReportSkew prints a notice, once, if the daemon has another version.
func (a *App) ReportSkew() {
	if what := VersionSkew(a.Skew.take()); what != "" {
		a.PrintMessage("%s", what)
	}
}
