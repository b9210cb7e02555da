package hook

import (
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/beneath"
	"github.com/thoughtgate/thoughtgated/internal/transcript"
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
				since := later(p.Since, r.began)
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
// hooks are left to these: a call may be in them long before its hook is run. A database that all
// conversations share may never be quiet. So it is compared at once, but for uses that have not ended.
func (r *Registry) scan(s *silent) {
	ledgers := r.running(s.Agent)
	var names []string
	for _, l := range ledgers {
		names = append(names, l.names()...)
	}
	others := func(session digest) bool {
		return slices.ContainsFunc(ledgers, func(l *ledger) bool { return l.has(session) })
	}
	began := time.Now()
	quiet := began.Add(-r.scanning)
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
	t := s.ledger.contract.Transcript
	_ = transcript.Walk(r.ctx, dir, ".", maxListed, t.MayHave, func(name string, info beneath.Info) bool { // what can't be listed is not there
		if r.ctx.Err() != nil || len(calls) > maxJudged { // the next scan goes on
			return false
		}
		found[name] = true
		if !info.IsRegular() || !t.Is(name) || t.Table == nil && slices.Contains(names, name) {
			return true
		}
		written := time.Unix(info.Mtime.Unix())
		if log, err := dir.Lstat(name + logSuffix); err == nil && t.Table != nil {
			written = later(written, time.Unix(log.Mtime.Unix()))
		}
		isQuiet := !written.After(quiet)
		if written.Before(s.ledger.since) || !isQuiet && t.Table == nil || written.Equal(s.compared[name]) {
			return true
		}
		if isQuiet {
			s.compared[name] = written
		}
		calls = append(calls, s.ledger.missed(r.ctx, top+"/"+name, s.Covers, len(ledgers) > 0 || !isQuiet, others)...)
		if t.Table != nil {
			s.ledger.since = later(s.ledger.since, began.Add(-longestUse))
		}
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

func later(a, b time.Time) time.Time { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }

// running returns what the agents of a kind have reported that run hooks now.
func (r *Registry) running(kind string) (ledgers []*ledger) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.agents {
		if a.contract.Agent == kind {
			ledgers = append(ledgers, a.ledger)
		}
	}
	return ledgers
}
