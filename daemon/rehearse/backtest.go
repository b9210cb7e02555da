package rehearse

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// theirs is the suffix of a project file's rules in records.
const theirs = " of the repository"

// Backtest judges recorded calls again. It does not guess what is missing in a record: if that
// could matter, the call is unknown. It must not be used concurrently.
type Backtest struct {
	gate    gate.Gate
	policy  gate.Partial
	held    map[heldCall]bool // calls that have a second record with their verdict
	flips   map[Flip]*Group
	unknown map[Unknown]*Group
	Summary

	now   *Recorded // the call being judged
	doubt string
}

type heldCall struct {
	attachment string
	call       uint64
}

// Flip is a kind of call that would have another verdict.
type Flip struct {
	Server, Method, Subject string
	Was, Would              string // forward, ask, deny
	WasBy, WouldBy          string // rule or policies
	Reason                  string // of the new verdict
}

// Loosens reports whether the new verdict is less strict.
func (f Flip) Loosens() bool { return strict(f.Would) < strict(f.Was) }

// Unknown is a kind of call that can't be judged from its record.
type Unknown struct {
	Server, Method, Subject string
	Was                     string
	Because                 string
}

// Group is the number of calls of a kind, with their range in the log.
type Group struct {
	Calls       uint64
	First, Last uint64 // sequence numbers of records
}

// Summary counts the calls.
type Summary struct {
	Calls, Same, Tighter, Looser, Unknown uint64
	Unread                                uint64 // corrupt records
	More                                  bool   // there were more kinds than mostKinds
	First, Last                           time.Time
}

// mostKinds is how many kinds of calls are counted separately. Servers and agents choose the names.
const mostKinds = 2000

// NewBacktest returns a backtest of the policy p.
func NewBacktest(p gate.Partial) *Backtest {
	b := &Backtest{policy: p, held: map[heldCall]bool{}, flips: map[Flip]*Group{}, unknown: map[Unknown]*Group{}}
	b.gate = gate.Gate{
		Policy: func() gate.Policy { return partial{p, b} }, Facts: remembered{b: b}, Logger: slog.New(slog.DiscardHandler),
	}
	return b
}

// Damaged counts a record that can't be parsed.
func (b *Backtest) Damaged() { b.Unread++ }

// Add judges a recorded call. The records of one call must be added in order.
func (b *Backtest) Add(ctx context.Context, r *Recorded) {
	key := heldCall{r.Attachment, r.Call}
	if b.held[key] { // the final verdict, by a person or a later daemon
		delete(b.held, key)
		return
	}
	l, err := r.line()
	if errors.Is(err, errNoCall) {
		return
	}
	if r.Verdict == "hold" {
		b.held[key] = true
	}
	b.Calls++
	if b.First.IsZero() {
		b.First = r.Time
	}
	b.Last = r.Time
	was, because := r.was()
	var would, by, reason string
	if because == "" && err == nil {
		would, by, reason, because, err = b.judge(ctx, r, &l)
	}
	if err != nil {
		because = err.Error()
	}
	if because == "" && strings.HasSuffix(r.Rule, theirs) && strict(would) < strict(was) {
		because = "the repository's own file decided, and its content is not recorded"
	}
	switch {
	case because != "":
		b.Unknown++
		note(b, b.unknown, Unknown{r.Server, r.Method, r.Tool, was, because}, r.Seq)
	case strict(would) == strict(was):
		b.Same++
	default:
		if strict(would) < strict(was) {
			b.Looser++
		} else {
			b.Tighter++
		}
		note(b, b.flips, Flip{r.Server, r.Method, r.Tool, was, would, r.by(), by, reason}, r.Seq)
	}
}

// judge judges the call.
func (b *Backtest) judge(ctx context.Context, r *Recorded, l *Line) (would, by, reason, doubt string, err error) {
	c, err := r.call(&b.gate, l)
	if err != nil {
		return "", "", "", "", err
	}
	b.now, b.doubt = r, ""
	_, ruling := b.gate.Rehearse(ctx, c)
	by = ruling.Rule
	if ruling.Gate == "permit" && len(ruling.Policies) > 0 {
		by = strings.Join(ruling.Policies, ", ")
	}
	if ruling.Gate == "accident" {
		by = "accident"
	}
	return verdict(ruling.Move), by, ruling.Reason, b.doubt, nil
}

// note counts a call of a kind.
func note[K comparable](b *Backtest, kinds map[K]*Group, kind K, seq uint64) {
	g := kinds[kind]
	if g == nil {
		if len(kinds) >= mostKinds {
			b.More = true
			return
		}
		g = &Group{First: seq}
		kinds[kind] = g
	}
	g.Calls++
	g.Last = seq
}

// strict returns the rank of a verdict by strictness.
func strict(verdict string) int { return slices.Index([]string{"forward", "ask", "deny"}, verdict) }

// Flips returns the kinds of calls that would have another verdict: those that loosen first, then
// by number of calls.
func (b *Backtest) Flips() []Counted[Flip] {
	all := counted(b.flips)
	tighter := func(f Counted[Flip]) bool { return !f.Kind.Loosens() }
	looser := slices.DeleteFunc(slices.Clone(all), tighter)
	return append(looser, slices.DeleteFunc(all, func(f Counted[Flip]) bool { return !tighter(f) })...)
}

// Unknowns returns the kinds of calls that can't be judged, by number of calls.
func (b *Backtest) Unknowns() []Counted[Unknown] { return counted(b.unknown) }

// Counted is a kind of call with its group.
type Counted[K comparable] struct {
	Kind K
	Group
}

func counted[K comparable](kinds map[K]*Group) []Counted[K] {
	var all []Counted[K]
	for kind, g := range kinds {
		all = append(all, Counted[K]{kind, *g})
	}
	slices.SortFunc(all, func(x, y Counted[K]) int {
		return cmp.Or(cmp.Compare(y.Calls, x.Calls), cmp.Compare(x.First, y.First))
	})
	return all
}

// partial is the policy of a backtest.
type partial struct {
	gate.Partial
	b *Backtest
}

func (p partial) Rule(ctx context.Context, c *gate.Call, facts []gate.Fact) (gate.Ruling, error) {
	r, doubt, err := p.RulePartly(ctx, c, facts, p.b.now.lacks())
	p.b.doubt = doubt
	return r, err
}

// remembered returns the facts that were found when the call came. Only Of is called.
type remembered struct {
	gate.Facts
	b *Backtest
}

func (m remembered) Of(context.Context, *gate.Call) []gate.Fact { return m.b.now.facts() }

// Parse parses the record of a call. It returns false if the record is corrupt.
func Parse(line []byte) (*Recorded, bool) {
	r, err := record.Parse(line)
	if err != nil || r.Kind != record.KindCall {
		return nil, false
	}
	return &Recorded{Record: r, Whole: r.Values == ""}, true
}
