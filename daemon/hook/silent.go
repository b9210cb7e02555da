package hook

import (
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/beneath"
)

// An agent that runs no hook at all, since its entry is gone or a project turns hooks off, does not
// report that it runs either. All that is left of it is its transcript. So the daemon looks for
// transcripts of protected agents that were written to, and compares them with what any agent of
// that kind has reported.

const (
	// scanInterval is the interval at which the folders of transcripts are listed.
	scanInterval = 10 * time.Second
	// maxListed is how many files and folders are listed in a scan of the transcripts of one agent.
	maxListed = 1 << 16
)

// Protection is an agent of which every start is to run hooks.
type Protection struct {
	ID, Agent string
	Since     time.Time
	Covers    func(server string) bool // whether the calls of a server are judged at the gate
}

// silent holds what is known of the transcripts of one protected agent.
type silent struct {
	Protection
	ledger   *ledger
	compared map[string]time.Time // when a transcript had been written that was compared, by its path below the folder
}

// watchSilent compares transcripts until the registry is stopped.
func (r *Registry) watchSilent() {
	tick := time.NewTicker(r.scanning)
	defer tick.Stop()
	all := map[string]*silent{}
	for {
		select {
		case <-tick.C:
		case <-r.ctx.Done():
			return
		}
		protections := r.Protections()
		for _, p := range protections {
			c := agenthook.Of(p.Agent)
			if c == nil || c.Transcript == nil {
				continue
			}
			s := all[p.ID]
			if s == nil {
				since := slices.MaxFunc([]time.Time{p.Since, r.began}, time.Time.Compare)
				s = &silent{p, newLedger(c, r.folder(c, p.ID), since, r.kinds[c.Agent]), map[string]time.Time{}}
				all[p.ID] = s
			}
			r.scan(s)
		}
		for id := range all {
			if !slices.ContainsFunc(protections, func(p Protection) bool { return p.ID == id }) {
				delete(all, id)
			}
		}
	}
}

// scan compares the transcripts that were written to and are quiet now. Those of agents that run
// hooks are left to these: a call may be in them long before its hook is run.
func (r *Registry) scan(s *silent) {
	running, names := r.running(s.Agent)
	quiet := time.Now().Add(-r.scanning)
	found := map[string]bool{}
	var calls []agenthook.Use
	top, err := filepath.EvalSymlinks(s.ledger.folder)
	if err != nil {
		return // the agent has none yet
	}
	dir, err := beneath.Open(top)
	if err != nil {
		return
	}
	defer dir.Close()
	_ = walk(r.ctx, dir, ".", maxListed, func(name string, info beneath.Info) bool { // what can't be listed is not there
		if r.ctx.Err() != nil || len(calls) > maxJudged { // the next scan goes on
			return false
		}
		found[name] = true
		written := time.Unix(info.Mtime.Unix())
		if !info.IsRegular() || !s.ledger.contract.Transcript.Is(name) || slices.Contains(names, name) ||
			written.Before(s.ledger.since) || written.After(quiet) || written.Equal(s.compared[name]) {
			return true
		}
		s.compared[name] = written
		calls = append(calls, s.ledger.missed(r.ctx, top+"/"+name, s.Covers, running)...)
		return true
	})
	if len(calls) <= maxJudged {
		maps.DeleteFunc(s.compared, func(name string, _ time.Time) bool { return !found[name] })
	}
	if len(calls) == 0 {
		return
	}
	u := describe(calls, r.Redact)
	u.Since = time.Now()
	r.warn(&gate.Shim{Session: s.ID, Agent: s.Agent}, "", "unjudged", u)
}

// running reports whether an agent of a kind runs that has run hooks, and returns the paths of
// their transcripts below their folder.
func (r *Registry) running(kind string) (any bool, names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.agents {
		if a.contract.Agent == kind {
			any, names = true, append(names, a.ledger.names()...)
		}
	}
	return any, names
}
