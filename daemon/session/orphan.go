package session

import (
	"context"
	"fmt"
	"time"
)

// A wrap that died left its files rewritten. Its locks were released with it, so anybody who gets a
// lock may restore the file.

// retry returns the delay before the next attempt to get a held lock: short while the lock is
// likely to be released soon, longer after that.
func retry(since time.Time) time.Duration {
	if time.Since(since) < 3*time.Second {
		return 50 * time.Millisecond
	}
	return time.Second
}

// reconnectGracePeriod is how long a wrap may look for the next daemon, with some margin.
const reconnectGracePeriod = 20 * time.Second

// leaveToWrap waits while the wrap of a recovered session runs and may come back. For a session
// with files to restore, the files' locks show the same. A session without files has no lock, and
// would be closed, with its questions and grants, before its wrap can reopen it. leaveToWrap
// returns false if the wrap came back or the registry is closing.
func (r *Registry) leaveToWrap(s *Session) bool {
	if !s.Spec.Keep && len(s.Spec.Files) > 0 {
		return true
	}
	for since := time.Now(); s.Wrap.Alive() && time.Since(since) < reconnectGracePeriod; {
		r.mu.Lock()
		taken := r.sessions[s.Spec.ID] != s
		r.mu.Unlock()
		if taken || !r.pause(retry(since)) {
			return false
		}
	}
	return true
}

// adopt restores the files of s as soon as their locks are free, and then forgets the session. It
// stops if the wrap comes back first.
func (r *Registry) adopt(s *Session) {
	since := time.Now()
	for {
		r.mu.Lock()
		taken := r.sessions[s.Spec.ID] != s || s.present
		r.mu.Unlock()
		if taken {
			return
		}
		done, problem := r.restore(s)
		r.mu.Lock()
		news := problem != "" && problem != s.problem
		s.problem = problem
		r.mu.Unlock()
		if news {
			r.log.Warn("a wrap has ended and a file is not restored yet", "session", s.Spec.ID, "problem", problem)
		}
		if done {
			r.forget(s)
			return
		}
		if !r.pause(retry(since)) {
			return
		}
	}
}

// restore restores every file of s and reports whether nothing is left to do.
func (r *Registry) restore(s *Session) (done bool, problem string) {
	if s.Spec.Keep {
		return true, ""
	}
	r.mu.Lock()
	files := s.files
	r.mu.Unlock()
	done = true
	for _, f := range files {
		report, free, err := r.restorer.Restore(f.Journal)
		switch {
		case err != nil:
			done, problem = false, fmt.Sprintf("restore %s: %v", f.Path, err)
		case !free:
			done = false // its wrap lives, or another has started: not a problem yet
		case report != "":
			r.log.Warn("restored after a wrap that ended early", "session", s.Spec.ID, "path", f.Path, "report", report)
			if err := r.recordSession(context.WithoutCancel(r.ctx), s, "restored", f.Path+": "+report); err != nil {
				r.log.Error("record the restore", "session", s.Spec.ID, "err", err)
			}
		}
	}
	return done, problem
}

// forget deletes a session whose files need no restoring any more.
func (r *Registry) forget(s *Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sessions[s.Spec.ID] != s || s.present {
		return
	}
	delete(r.sessions, s.Spec.ID)
	if _, known := r.gone[s.Spec.ID]; !known {
		r.rememberKilledWrap(s)
	}
	r.endRun(s.Spec.ID)
	for _, j := range r.drains(s.Spec.ID) { // of a previous daemon, which ended with the wrap
		j.leave(wrapEnded)
	}
	if err := r.store.DeleteSession(r.ctx, s.Spec.ID); err != nil {
		r.log.Error("delete session", "session", s.Spec.ID, "err", err)
	}
	if err := r.recordSession(context.WithoutCancel(r.ctx), s, "closed", ""); err != nil {
		r.log.Error("record the end of a session", "session", s.Spec.ID, "err", err)
	}
	r.forgetIfEnded(s.Spec.ID, "")
	r.changed.Broadcast()
}

// forgetIfEnded frees what is remembered of a session once it is closed and its last shim has left, in
// either order, or of a shim without a session. r.mu must be held.
func (r *Registry) forgetIfEnded(session, attachment string) {
	if session == "" || r.sessions[session] == nil && len(r.of(session)) == 0 {
		r.forgets(session, attachment)
	}
}
