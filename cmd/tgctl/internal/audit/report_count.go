package audit

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/record/calls"
)

// counter collects the numbers of a report in one pass over the records. Its memory does not
// grow with their number: names past maxNames are counted together. Only the waiting times of
// answered questions are kept individually.
type counter struct {
	records    uint64
	reader     *calls.Reader
	verdict    string // only calls that have it; empty: all
	calls      calls.Tally
	approved   uint64 // forwarded calls that a person or a grant approved
	parked     uint64 // held calls whose agent was told to repeat them
	withheld   uint64 // results that an extension withheld
	first      record.Record
	last       record.Record
	hours      map[int64]*calls.Tally // by Unix hour in which a call began
	servers    tallies
	tools      tallies
	reasons    map[string]uint64 // of denials: the policy, rule or gate
	outcomes   map[string]uint64
	deciders   tallies         // by surface and person: questions approved (Forwarded) and denied
	waits      []time.Duration // for questions that a person answered
	questions  map[string]uint64
	unattended uint64
	changes    []record.Record // the newest maxChanges
	unseen     uint64          // changes before these
}

const (
	maxNames   = 10_000
	maxChanges = 200
)

// others is the name under which the remaining names are counted.
const others = "(others)"

// tallies counts calls by name.
type tallies map[string]*calls.Tally

func (n tallies) of(name string) *calls.Tally {
	if n[name] == nil && len(n) >= maxNames {
		name = others
	}
	if n[name] == nil {
		n[name] = &calls.Tally{}
	}
	return n[name]
}

func newCounter() *counter {
	c := &counter{
		hours: map[int64]*calls.Tally{}, servers: tallies{}, tools: tallies{}, reasons: map[string]uint64{}, outcomes: map[string]uint64{},
		deciders: tallies{}, questions: map[string]uint64{},
	}
	c.reader = calls.NewReader(c.call)
	return c
}

// add counts the next record.
func (c *counter) add(r *record.Record) {
	if c.records == 0 {
		c.first = *r
	}
	c.records++
	c.last = *r
	c.reader.Add(r)
	switch r.Kind {
	case record.KindDecision:
		c.decision(r)
	case record.KindPin, record.KindReload, record.KindGap, record.KindDropped, record.KindDenied, record.KindRefused, record.KindUnseen, record.KindOrphan,
		record.KindMemory, record.KindPresence, record.KindLogin, record.KindExtension, record.KindUndo, record.KindStart, record.KindStop:
		if len(c.changes) == maxChanges {
			c.changes = append(c.changes[:0], c.changes[1:]...)
			c.unseen++
		}
		c.changes = append(c.changes, *r)
	}
}

// call counts a call by its end.
func (c *counter) call(one *calls.Call) {
	if c.verdict != "" && !one.Has(c.verdict) {
		return
	}
	end := one.End()
	c.calls[end]++
	hour := one.Time.Unix() / 3600
	if c.hours[hour] == nil {
		c.hours[hour] = &calls.Tally{}
	}
	c.hours[hour][end]++
	c.servers.of(one.Server)[end]++
	c.tools.of(one.Server + "\x00" + cmp.Or(one.Tool, one.Method))[end]++
	switch {
	case end == calls.Denied:
		c.reasons[one.By]++
	case one.Verdict == record.Park:
		c.parked++
	case end == calls.Forwarded:
		if one.Answer == "approved" || one.Grant != "" {
			c.approved++
		}
		outcome := cmp.Or(one.Outcome, "not known")
		if one.Withheld {
			outcome = "withheld by an extension"
			c.withheld++
		}
		c.outcomes[outcome]++
	}
}

func (c *counter) decision(r *record.Record) {
	c.questions[r.Verdict]++
	if r.Auto {
		c.unattended++
		return
	}
	if r.Verdict != "approved" && r.Verdict != "rejected" {
		return
	}
	c.waits = append(c.waits, time.Duration(r.LatencyUS)*time.Microsecond)
	answer := calls.Forwarded
	if r.Verdict == "rejected" {
		answer = calls.Denied
	}
	c.deciders.of(r.Surface + "\x00" + cmp.Or(r.Approver, r.Decider, "unknown"))[answer]++
}

// most returns the keys with the largest sizes, at most n, and the total number of keys.
func most[K comparable, V any](m map[K]V, n int, size func(V) uint64, less func(a, b K) int) ([]K, int) {
	keys := slices.SortedFunc(maps.Keys(m), func(a, b K) int {
		return cmp.Or(cmp.Compare(size(m[b]), size(m[a])), less(a, b))
	})
	return keys[:min(n, len(keys))], len(keys)
}
