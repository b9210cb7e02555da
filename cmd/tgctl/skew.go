package main

import (
	"sync"

	"github.com/thoughtgate/thoughtgated/internal/display"
)

// skew detects a daemon of another release. After an update the programs on disk are new, but
// the old daemon runs until it is restarted. A skew is safe for concurrent use.
type skew struct {
	mu     sync.Mutex
	build  string // build of the daemon that replied last; empty before the first reply
	silent bool   // the user has been notified
}

// recordBuild records the build of the daemon that replied.
func (s *skew) recordBuild(build string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.build = build
}

// suppressNotice suppresses the notice.
func (s *skew) suppressNotice() { s.take() }

// take returns the recorded build the first time, and this program's own afterwards.
func (s *skew) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silent {
		return release
	}
	s.silent = s.build != ""
	return s.build
}

// versionSkew says that the daemon's version differs from this program's, and what to do. It
// returns "" if the versions are equal.
func versionSkew(build string) display.Safe {
	if build == "" || build == release {
		return ""
	}
	return "thoughtgated is " + display.Name(build) + ", tgctl " + display.Name(release) + ": tgctl daemon restart"
}

// reportSkew prints a notice, once, if the daemon has another version.
func (a *app) reportSkew() {
	if what := versionSkew(a.skew.take()); what != "" {
		a.PrintMessage("%s", what)
	}
}
