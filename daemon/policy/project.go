package policy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// Project is the set of policy files of one project. It is immutable and safe for concurrent use.
// A nil Project has no files.
type Project struct {
	layers []*Set // the nearest first
	digest string
}

// NewProject returns the Project of files, which must be ordered nearest first. Each file is
// judged by itself, so that a file in a subfolder cannot loosen one above it.
func NewProject(files ...*config.Project) *Project {
	p := &Project{}
	h := sha256.New()
	for _, f := range files {
		cfg := f.Config()
		s := newSet(cfg)
		s.digest = cfg.Digest
		l := &loader{Set: s}
		l.compileRules()
		for i := range s.rules {
			s.rules[i].label = ofRepository(s.rules[i].Place.String())
		}
		s.defaults.label, s.forAsks.label = ofRepository(s.defaults.label), ofRepository(s.forAsks.label)
		p.layers = append(p.layers, s)
		fmt.Fprintf(h, "%s\n", cfg.Digest)
	}
	p.digest = hex.EncodeToString(h.Sum(nil))
	return p
}

// ofRepository labels a rule of a project file by its place. The label omits the pattern: its
// words are untrusted, and persons and models read the label.
func ofRepository(what string) string { return what + " of the repository" }

// Rules returns the number of rules in the files.
func (p *Project) Rules() int {
	n := 0
	for _, s := range p.layers {
		n += len(s.rules)
	}
	return n
}

// Digest returns the hex SHA-256 of the contents of the files.
func (p *Project) Digest() string { return p.digest }

// rule returns the strictest ruling of the files.
func (p *Project) rule(ctx context.Context, c *gate.Call, facts []gate.Fact) (strictest gate.Ruling, err error) {
	strictest.Move = gate.Forward
	for _, s := range p.layers {
		r, err := s.Rule(ctx, c, facts)
		if err != nil {
			return gate.Ruling{}, err
		}
		if strictness(&r) <= strictness(&strictest) {
			continue
		}
		does := "denies it"
		switch {
		case r.Hidden:
			does = "hides it"
			r.Rule = ofRepository("source (" + s.cfg.Source(c.Server).Place.String() + ")")
		case r.Move == gate.Ask:
			does = "asks about it"
		}
		r.Reason = fmt.Sprintf("the project's own file %s %s", printable(s.cfg.Path), does)
		strictest = r
	}
	return strictest, nil
}

// projectSet is a Set combined with the files of a project.
type projectSet struct {
	*Set
	project *Project
	broken  error
}

var _ gate.Explainer = (*projectSet)(nil)

// In returns the set combined with the files of a project. The files are judged by themselves,
// and the stricter ruling counts. If broken is not nil, the files could not be read, and broken
// is the error of every call. Visible then ignores the files, so that an agent can make a call
// and learn the reason.
func (s *Set) In(p *Project, broken error) gate.Policy {
	if p == nil && broken == nil {
		return s
	}
	return &projectSet{s, p, broken}
}

// Rule implements gate.Policy.
func (s *projectSet) Rule(ctx context.Context, c *gate.Call, facts []gate.Fact) (gate.Ruling, error) {
	own, err := s.Set.Rule(ctx, c, facts)
	if err != nil || own.Move == gate.Deny {
		return own, err
	}
	if s.broken != nil {
		return gate.Ruling{Redact: both(s.redact, own.Redact)}, s.broken
	}
	theirs, err := s.project.rule(ctx, c, facts)
	if err != nil {
		return gate.Ruling{Redact: both(s.redact, own.Redact)}, err
	}
	if strictness(&theirs) <= strictness(&own) {
		return own, nil
	}
	if theirs.Move == gate.Ask { // the user's configuration decides who is asked, and how
		setQuestion(&theirs, s.defaults.ask, theirs.Reason)
	}
	theirs.Redact, theirs.Answer = both(s.redact, own.Redact), own.Answer // a fleet's policy may redact more
	return theirs, nil
}

// Explain implements gate.Explainer.
func (s *projectSet) Explain(ctx context.Context, c *gate.Call, facts []gate.Fact) gate.Explained {
	e := s.Set.Explain(ctx, c, facts)
	ruling, err := s.Rule(ctx, c, facts)
	move, by := outcome(e.Ruling, e.Err)
	switch {
	case e.Err != nil || e.Ruling.Move == gate.Deny:
		return e
	case s.broken != nil:
		e.Ruling, e.Err = ruling, err
		e.Steps = append([]gate.Step{{Change: "the project's own file, which is invalid", Move: move, By: by}}, e.Steps...)
	case err != nil || strictness(&ruling) > strictness(&e.Ruling):
		e.Ruling, e.Err = ruling, err
		theirs := s.project.cited(ctx, c, facts)
		e.Cited = append(theirs, e.Cited...)
		e.Steps = append([]gate.Step{{Change: "without the repository's rule: " + ruling.Rule, Move: move, By: by}}, e.Steps...)
	}
	return e
}

// cited returns the deciding rules of the files, the nearest first.
func (p *Project) cited(ctx context.Context, c *gate.Call, facts []gate.Fact) []gate.Cited {
	var all []gate.Cited
	for _, s := range p.layers {
		if r, err := s.Rule(ctx, c, facts); err != nil || r.Move == gate.Forward {
			continue
		}
		for _, cited := range s.Explain(ctx, c, facts).Cited {
			cited.Theirs, cited.Name = true, ""
			all = append(all, cited)
		}
	}
	return all
}

// Visible implements gate.Policy.
func (s *projectSet) Visible(c *gate.Call, kind, name string) bool {
	if !s.Set.Visible(c, kind, name) {
		return false
	}
	return s.project == nil || !slices.ContainsFunc(s.project.layers, func(layer *Set) bool { return !layer.Visible(c, kind, name) })
}

// Digest implements gate.Policy. It returns the digests of the set and of the project, joined by
// +.
func (s *projectSet) Digest() string {
	if s.project == nil {
		return s.digest
	}
	return s.digest + "+" + s.project.digest
}
