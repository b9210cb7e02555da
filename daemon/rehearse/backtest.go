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

// theirs is how the rule of a record ends that a project's own file made.
const theirs = " of the repository"

// Backtest judges calls on record once more. What is not on record of a call is
// not made up: where it could matter, the call is unknown. It is for one
// goroutine.
type Backtest struct {
	gate    gate.Gate
	policy  gate.Partial
	held    map[heldCall]bool // whose verdict is on record a second time
	flips   map[Flip]*Group
	unknown map[Unknown]*Group
	Summary

	now   *Recorded // that is being judged
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
	Reason                  string // of the new one
}

// Loosens reports whether more would go through.
func (f Flip) Loosens() bool { return strict(f.Would) < strict(f.Was) }

// Unknown is a kind of call that can't be judged from what is on record.
type Unknown struct {
	Server, Method, Subject string
	Was                     string
	Because                 string
}

// Group is how many calls of a kind there are, and where they stand in the log.
type Group struct {
	Calls       uint64
	First, Last uint64 // seq
}

// Summary counts the calls.
type Summary struct {
	Calls, Same, Tighter, Looser, Unknown uint64
	Unread                                uint64 // records that are damaged
	More                                  bool   // there were more kinds than are told apart
	First, Last                           time.Time
}

// mostKinds is how many kinds of calls are told apart. Servers and agents choose
// what they are called.
const mostKinds = 2000

// NewBacktest returns a backtest by the policy.
func NewBacktest(p gate.Partial) *Backtest {
	b := &Backtest{policy: p, held: map[heldCall]bool{}, flips: map[Flip]*Group{}, unknown: map[Unknown]*Group{}}
	b.gate = gate.Gate{
		Policy: func() gate.Policy { return partial{p, b} }, Facts: remembered{b: b}, Logger: slog.New(slog.DiscardHandler),
	}
	return b
}

// Damaged counts a record that can't be read.
func (b *Backtest) Damaged() { b.Unread++ }

// Add judges a call on record. Records of one call come in their order.
func (b *Backtest) Add(ctx context.Context, r *Recorded) {
	key := heldCall{r.Attachment, r.Call}
	if b.held[key] { // what a person made of it, or a daemon after this one
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
		because = "the repository's own file decided, and what it said is not on record"
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

// judge says what would become of the call.
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

// strict orders verdicts by how little they let through.
func strict(verdict string) int { return slices.Index([]string{"forward", "ask", "deny"}, verdict) }

// Flips returns the kinds of calls that would have another verdict: those that
// loosen first, and of these the most frequent.
func (b *Backtest) Flips() []Counted[Flip] {
	all := counted(b.flips)
	tighter := func(f Counted[Flip]) bool { return !f.Kind.Loosens() }
	looser := slices.DeleteFunc(slices.Clone(all), tighter)
	return append(looser, slices.DeleteFunc(all, func(f Counted[Flip]) bool { return !tighter(f) })...)
}

// Unknowns returns the kinds of calls that can't be judged, the most frequent
// first.
func (b *Backtest) Unknowns() []Counted[Unknown] { return counted(b.unknown) }

// Counted is a kind of call and how many there are.
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

// remembered are the facts that were found when a call came. It is asked for
// nothing else.
type remembered struct {
	gate.Facts
	b *Backtest
}

func (m remembered) Of(context.Context, *gate.Call) []gate.Fact { return m.b.now.facts() }

// Parse reads a record of a call; false means that it is damaged.
func Parse(line []byte) (*Recorded, bool) {
	r, err := record.Parse(line)
	if err != nil || r.Kind != record.KindCall {
		return nil, false
	}
	return &Recorded{Record: r, Whole: r.Values == ""}, true
}
