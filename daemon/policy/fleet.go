package policy

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/cedar-policy/cedar-go"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// LoadBundle builds the Set of a fleet's bundle, which must then be combined with the user's own:
// see WithFloor and InPlaceOf. The Set is nil if any diagnostic is an error.
func LoadBundle(b *config.Bundle, opts ...Option) (*Set, []config.Diagnostic) {
	return build(b.Config(), b, opts)
}

// compileBundle marks the rules as the fleet's, and parses the Cedar policies of the bundle.
func (l *loader) compileBundle() {
	l.ofFleet = true
	if !l.bundle.IsFloor() {
		l.compileOwnTools()
	}
	all := []*rule{&l.defaults, &l.forAsks}
	for _, of := range [][]rule{l.rules, l.ownTools} {
		for i := range of {
			all = append(all, &of[i])
		}
	}
	for _, r := range all {
		r.label, r.cited.Fleet = ofFleet(r.label), true
	}
	first := map[string]*policy{}
	for _, file := range l.bundle.Cedar() {
		for _, p := range l.parsePolicies(file.Name, file.Text) {
			if before := first[p.id]; before != nil {
				l.report(p.place, config.Error, "", fmt.Sprintf("the other one is in %v", before.place), "duplicate policy id %q", p.id)
				continue
			}
			first[p.id] = p
			p.order, p.fleet = len(l.policies), true
			l.policies = append(l.policies, p)
		}
	}
	if l.bundle.IsFloor() {
		l.checkPermits()
	}
}

// checkPermits reports permits of a floor that no rule of it waits for: they would be taken for
// permissions, which a floor can't give.
func (l *loader) checkPermits() {
	needed := slices.ContainsFunc(l.rules, func(r rule) bool { return r.action == config.Policy }) || l.defaults.action == config.Policy || l.forAsks.action == config.Policy
	for _, p := range l.policies {
		if p.cedar.Effect() == cedar.Permit && p.ask == nil && !needed {
			l.report(p.place, config.Error, "", "write a forbid, or a rule with action: policy for what needs the permit",
				"the permit loosens: a floor can't permit what a machine's own configuration does not")
		}
	}
}

// ofFleet labels a rule of a fleet's policy.
func ofFleet(what string) string { return what + " of the fleet" }

// besides is what is asked besides a set because the machine is in a fleet.
type besides struct {
	// floor is the fleet's set, whose verdict counts if it is stricter. It is nil in the set of a fleet
	// that is in force alone, or if broken is set.
	floor *Set
	// own is the user's set while that of the fleet is in force in its place. It is asked once
	// expired returns true.
	own     *Set
	expired func() bool
	// broken is why the fleet's policy is not known: the error of every call.
	broken error
}

// WithFloor returns the set together with the floor of a fleet: both are asked, and the stricter
// verdict counts.
func (s *Set) WithFloor(floor *Set) *Set { return s.with(&besides{floor: floor}, floor.digest) }

// InPlaceOf returns the set of a fleet that is in force in place of the user's own. Once expired
// returns true, a person is asked about what it forwards and own does not.
func (s *Set) InPlaceOf(own *Set, expired func() bool) *Set {
	return s.with(&besides{own: own, expired: expired}, own.digest)
}

// WithoutFleet returns the set of a machine whose fleet's policy is not known. why is the error of
// every call.
func (s *Set) WithoutFleet(why error) *Set { return s.with(&besides{broken: why}, "unknown") }

func (s *Set) with(f *besides, digest string) *Set {
	next := s.clone()
	next.fleet, next.digest = f, s.digest+"+"+digest
	return next
}

// alone returns the set without the fleet's part.
func (s *Set) alone() *Set {
	next := *s
	next.fleet = nil
	return &next
}

func (f *besides) withKnownFunc(known func(*gate.Call) Known) *besides {
	next := *f
	if f.floor != nil {
		next.floor = f.floor.WithKnownFunc(known)
	}
	if f.own != nil {
		next.own = f.own.WithKnownFunc(known)
	}
	return &next
}

// profile returns the profile in force. A floor is enforced, so it leaves no development profile,
// and one that a fleet's policy allows lasts as long as the policy is confirmed.
func (f *besides) profile(of gate.Profile) gate.Profile {
	switch {
	case f.own == nil:
		return gate.Production
	case f.expired():
		return of.Tighter(f.own.Profile())
	}
	return of
}

// ruleInFleet judges a call by the set and by what is asked besides it.
func (s *Set) ruleInFleet(ctx context.Context, c *gate.Call, facts []gate.Fact) (gate.Ruling, error) {
	r, err := s.ruleAlone(ctx, c, facts)
	switch f := s.fleet; {
	case f.broken != nil:
		return gate.Ruling{Redact: s.redact}, f.broken
	case f.floor != nil:
		return s.tightened(ctx, c, facts, r, err)
	case err != nil || r.Move != gate.Forward || !f.expired():
		return r, err
	}
	return s.expiredRuling(ctx, c, facts, r), nil
}

// tightened returns own, or what the floor decides if that is stricter.
func (s *Set) tightened(ctx context.Context, c *gate.Call, facts []gate.Fact, own gate.Ruling, err error) (gate.Ruling, error) {
	floor := s.fleet.floor
	if err != nil || own.Move == gate.Deny {
		own.Redact = both(own.Redact, floor.redact)
		return own, err
	}
	theirs, err := floor.ruleAlone(ctx, c, facts)
	if err != nil {
		return gate.Ruling{Redact: both(own.Redact, floor.redact)}, err
	}
	if theirs.Move == gate.Ask && !floor.asksItself(theirs.Workflow) {
		basis := theirs.Basis.Rule
		s.defaults.ask.fill(&theirs) // the user's configuration decides who is asked, and how
		theirs.Basis.Rule, theirs.Level = basis, strictestOf(theirs.Level, s.defaults.ask.level)
	}
	switch {
	case own.Move == gate.Ask && theirs.Move == gate.Ask:
		theirs = s.bothAsk(own, theirs)
	case strictness(&theirs) <= strictness(&own):
		theirs = own
	default:
		theirs.Answer = own.Answer
	}
	theirs.Redact = both(both(own.Redact, theirs.Redact), floor.redact)
	return theirs, nil
}

// asksItself reports whether the set says who answers the questions of a workflow.
func (s *Set) asksItself(workflow string) bool { return s.cfg.Approval[workflow] != nil }

// bothAsk returns the question that stands for one of the user's rule and one of the floor's. An
// approval of it is bound to both.
func (s *Set) bothAsk(own, theirs gate.Ruling) gate.Ruling {
	r := theirs
	if !s.fleet.floor.asksItself(theirs.Workflow) || s.answeredElsewhere(own.Workflow) && slices.ContainsFunc(theirs.Surfaces, isLocal) {
		r = own
	}
	r.Basis.Rule = sha256.Sum256(slices.Concat(own.Basis.Rule[:], theirs.Basis.Rule[:]))
	r.Level = strictestOf(own.Level, theirs.Level)
	r.Undo = own.Undo || theirs.Undo
	r.Unable = cmp.Or(own.Unable, theirs.Unable)
	if own.Natively == nil || theirs.Natively == nil {
		r.Natively = nil
	}
	return r
}

// answeredElsewhere reports whether a workflow names people who answer, other than the user.
func (s *Set) answeredElsewhere(workflow string) bool {
	w := s.cfg.Approval[workflow]
	return w != nil && w.Destination.Type != config.DestinationLocal
}

// isLocal reports whether the user of the machine answers on a surface.
func isLocal(surface string) bool { return surface != string(config.SurfaceColleague) }

func strictestOf(a, b gate.Level) gate.Level {
	if b.Stricter(a) {
		return b
	}
	return a
}

// both returns the paths of two lists, without a copy if one is empty.
func both(a, b []string) []string {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 {
		return a
	}
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// expiredRuling returns what becomes of a call that the fleet's policy forwards when it was not
// confirmed for too long: what the user's own configuration does not forward asks.
func (s *Set) expiredRuling(ctx context.Context, c *gate.Call, facts []gate.Fact, r gate.Ruling) gate.Ruling {
	own, err := s.fleet.own.Rule(ctx, c, facts)
	if err == nil && own.Move == gate.Forward {
		return r
	}
	by := own.Rule
	if err != nil {
		by = "an error: " + err.Error()
	}
	asks := gate.Ruling{Gate: "rule", Rule: expiredLabel, Answer: r.Answer}
	setQuestion(&asks, s.fleet.own.defaults.ask, fmt.Sprintf("the fleet's policy forwards it and was not confirmed for 30 days; your own configuration would not forward it (%s)", by))
	asks.Basis.Rule = sha256.Sum256(fmt.Appendf(nil, "%s %q %v", expiredLabel, own.Rule, own.Policies))
	asks.Level = strictestOf(asks.Level, own.Level)
	asks.Redact = both(both(r.Redact, own.Redact), asks.Redact)
	return asks
}

// expiredLabel names what asks about a call that the fleet's policy forwards for too long.
const expiredLabel = "expired policy of the fleet"

// explainInFleet explains a ruling in which the fleet's policy takes part.
func (s *Set) explainInFleet(ctx context.Context, c *gate.Call, facts []gate.Fact) gate.Explained {
	e := s.alone().Explain(ctx, c, facts)
	move, by := outcome(e.Ruling, e.Err)
	before := e.Ruling
	e.Ruling, e.Err = s.Rule(ctx, c, facts)
	var step gate.Step
	switch f := s.fleet; {
	case f.broken != nil:
		step = gate.Step{Change: "the fleet's policy, which can't be read: run tgctl fleet leave and join again", Move: move, By: by}
	case f.floor != nil:
		if theirs := f.floor.Explain(ctx, c, facts); theirs.Err != nil || theirs.Ruling.Move != gate.Forward {
			e.Cited = append(theirs.Cited, e.Cited...)
		}
		if e.Err == nil && strictness(&e.Ruling) == strictness(&before) {
			return e
		}
		step = gate.Step{Change: "without the fleet's rule: " + e.Ruling.Rule, Move: move, By: by}
	case e.Ruling.Rule == expiredLabel:
		e.Cited = append(e.Cited, f.own.Explain(ctx, c, facts).Cited...)
		step = gate.Step{Change: "a confirmation of the fleet's policy, which comes when the engine is reached", Move: move, By: by}
	default:
		return e
	}
	e.Steps = append([]gate.Step{step}, e.Steps...)
	return e
}

// describeInFleet is Describe for a set in which a fleet's policy takes part.
func (s *Set) describeInFleet() Description {
	own, fleet, mode := s.alone(), s.fleet.floor, "floor"
	if s.fleet.own != nil {
		own, fleet, mode = s.fleet.own, s.alone(), "full"
	}
	d := own.Describe()
	d.Digest, d.Profile, d.Fleet = s.digest, s.Profile(), mode
	if fleet != nil {
		d.Rules, d.Policies = len(fleet.rules), len(fleet.policies)
		if mode == "floor" {
			d.Rules, d.Policies = d.Rules+len(own.rules), d.Policies+len(own.policies)
		}
	}
	return d
}

// detailInFleet is Detail for a set in which a fleet's policy takes part: the floor stands before
// the user's own, without its defaults.
func (s *Set) detailInFleet() Detail {
	d := s.alone().Detail()
	if s.fleet.floor == nil {
		return d
	}
	f := s.fleet.floor.Detail()
	f.Rules = slices.DeleteFunc(f.Rules, func(e Entry) bool { return e.Kind == "default" && e.Does == string(config.Forward) })
	return Detail{
		Sources: slices.Concat(f.Sources, d.Sources), Rules: slices.Concat(f.Rules, d.Rules),
		Policies: slices.Concat(f.Policies, d.Policies), Workflows: slices.Concat(f.Workflows, d.Workflows),
	}
}

// bundleDigest hashes everything of a bundle that affects decisions.
func bundleDigest(b *config.Bundle) string {
	h := sha256.New()
	fmt.Fprintf(h, "%v %s\n", b.IsFloor(), b.Config().Digest)
	for _, file := range b.Cedar() {
		fmt.Fprintf(h, "%s %q\n", digestOf(file.Text), file.Name)
	}
	return hex.EncodeToString(h.Sum(nil))
}
