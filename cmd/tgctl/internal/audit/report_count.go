package audit

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// Verdicts that the report distinguishes.
const (
	forwarded = iota
	held
	denied
	verdicts
)

// tally counts verdicts.
type tally [verdicts]uint64

func (t tally) total() uint64 { return t[forwarded] + t[held] + t[denied] }

// counter collects the numbers of a report in one pass over the records. Its memory does not
// grow with their number: names past maxNames are counted together. Only the waiting times of
// answered questions are kept individually.
type counter struct {
	records    uint64
	calls      tally
	first      record.Record
	last       record.Record
	held       map[callID]bool  // calls without the record that follows an answer
	hours      map[int64]*tally // by Unix hour
	servers    names
	tools      names
	reasons    map[string]uint64 // of denials: the policy, rule or gate
	outcomes   map[string]uint64
	deciders   names           // by surface and person
	waits      []time.Duration // for questions that a person answered
	questions  map[string]uint64
	unattended uint64
	changes    []record.Record // the newest maxChanges
	unseen     uint64          // changes before these
}

const (
	maxNames   = 10_000
	maxHeld    = 100_000
	maxChanges = 200
)

// callID identifies a call in the log.
type callID struct {
	attachment string
	call       uint64
}

// others is the name under which the remaining names are counted.
const others = "(others)"

// names counts verdicts by name.
type names map[string]*tally

func (n names) of(name string) *tally {
	if n[name] == nil && len(n) >= maxNames {
		name = others
	}
	if n[name] == nil {
		n[name] = &tally{}
	}
	return n[name]
}

func newCounter() *counter {
	return &counter{
		held: map[callID]bool{}, hours: map[int64]*tally{}, servers: names{}, tools: names{}, reasons: map[string]uint64{}, outcomes: map[string]uint64{},
		deciders: names{}, questions: map[string]uint64{},
	}
}

// add counts the next record.
func (c *counter) add(r *record.Record) {
	if c.records == 0 {
		c.first = *r
	}
	c.records++
	c.last = *r
	switch r.Kind {
	case record.KindCall:
		c.call(r)
	case record.KindDecision:
		c.decision(r)
	case record.KindOutcome:
		c.outcomes[cmp.Or(r.Verdict, "unknown")]++
	case record.KindPin, record.KindReload, record.KindGap, record.KindDropped, record.KindDenied, record.KindRefused, record.KindUnseen, record.KindOrphan,
		record.KindMemory, record.KindPresence, record.KindExtension, record.KindUndo, record.KindStart, record.KindStop:
		if len(c.changes) == maxChanges {
			c.changes = append(c.changes[:0], c.changes[1:]...)
			c.unseen++
		}
		c.changes = append(c.changes, *r)
	}
}

// call counts a call once: a held one has a second record when a person has answered.
func (c *counter) call(r *record.Record) {
	which := callID{r.Attachment, r.Call}
	if c.held[which] {
		if r.Verdict != "hold" {
			delete(c.held, which)
		}
		return
	}
	v := forwarded
	switch r.Verdict {
	case "deny":
		v = denied
		c.reasons[cmp.Or(cmp.Or(r.Policies...), r.Rule, r.Gate, "unknown")]++
	case "hold":
		v = held
		if r.Call > 0 && len(c.held) < maxHeld {
			c.held[which] = true
		}
	case "forward":
		if isResult(r) { // its call is already counted
			return
		}
	}
	c.calls[v]++
	hour := r.Time.Unix() / 3600
	if c.hours[hour] == nil {
		c.hours[hour] = &tally{}
	}
	c.hours[hour][v]++
	c.servers.of(r.Server)[v]++
	c.tools.of(r.Server + "\x00" + cmp.Or(r.Tool, r.Method))[v]++
}

// isResult reports whether r is about the result of an agent's call.
func isResult(r *record.Record) bool {
	switch r.Method {
	case ui.ToolCall, "resources/read", "prompts/get", "tasks/get", "tasks/result":
		return r.Direction == "server_to_agent"
	}
	return false
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
	answer := forwarded
	if r.Verdict == "rejected" {
		answer = denied
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
