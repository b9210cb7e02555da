package main

import (
	"sync"

	"github.com/thoughtgate/thoughtgated/internal/display"
)

// skew notices a daemon of another release: after an update the programs on disk
// are new, and the daemon that runs is the old one until it is restarted. It is
// safe for concurrent use.
type skew struct {
	mu     sync.Mutex
	build  string // of the daemon that answered last; empty until one has
	silent bool   // it has been told
}

// hear takes note of the build of the daemon that answers.
func (s *skew) hear(build string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.build = build
}

// told makes sure that nothing is said any more.
func (s *skew) told() { s.take() }

// take returns the build that was heard of, once.
func (s *skew) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silent {
		return release
	}
	s.silent = s.build != ""
	return s.build
}

// versionSkew says that the daemon is of another version than this program, and
// what to do about it; nothing when it is not.
func versionSkew(build string) display.Safe {
	if build == "" || build == release {
		return ""
	}
	return "thoughtgated is " + display.Name(build) + ", tgctl " + display.Name(release) + ": tgctl daemon restart"
}

// tellSkew says so when the daemon that answered is of another version, once.
func (a *app) tellSkew() {
	if what := versionSkew(a.skew.take()); what != "" {
		a.say("%s", what)
	}
}
