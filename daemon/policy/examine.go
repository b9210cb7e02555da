package policy

import (
	"regexp"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/schema/resolved"

	"github.com/thoughtgate/thoughtgated/daemon/config"
)

// finding is something that a policy gets wrong in a situation.
type finding struct {
	place config.Place
	how   how
	text  string
	hint  string
}

// how says how the text of a finding goes with what the call is of.
type how uint8

const (
	alone  how = iota // it stands by itself
	clause            // what the call is of is its subject
	ofCall            // it holds in a call of that
)

// say puts a finding into words. about is what the call is of.
func (f *finding) say(about string) string {
	switch f.how {
	case clause:
		return about + " " + f.text
	case ofCall:
		return "in a call of " + about + ": " + f.text
	}
	return f.text
}

// examine checks the policy in a situation. Situations that are alike to it are
// checked once.
func (p *policy) examine(s *situation) []finding {
	if p.reading.body == nil {
		return nil
	}
	t := &trial{reading: &p.reading, situation: s}
	key := t.signature()
	if found, ok := p.examined.Load(key); ok {
		return found.([]finding)
	}
	found := p.findings(t)
	p.examined.Store(key, found)
	return found
}

func (p *policy) findings(t *trial) []finding {
	faults := t.settle()
	if len(faults) == 0 {
		return nil
	}
	l := newLocator(p.place.File, p.text, p.place, p.cedar.Position().Offset)
	blamed, rest := t.blame(faults)
	var found []finding
	add := func(f finding, ok bool) {
		if ok && !slices.Contains(found, f) {
			found = append(found, f)
		}
	}
	for _, b := range blamed {
		for _, fault := range b.faults {
			add(t.explain(l, &b, fault))
		}
	}
	for _, fault := range rest {
		add(finding{place: p.place, how: ofCall, text: plainly(fault)}, true)
	}
	return found
}

var (
	notFound   = regexp.MustCompile("(?s)^attribute `(.*)` (?:in context for|on entity type) .* not found$")
	notAsked   = regexp.MustCompile("(?s)^unable to guarantee safety of access to optional attribute `(.*)` in context for ")
	unexpected = regexp.MustCompile("(?s)^unexpected type: expected (.*) but saw (.*)$")
)

// explain turns what the validator has against an elementary condition into
// words for whoever wrote it. It returns false for what may be a matter of a
// wrong guess.
func (t *trial) explain(l *locator, b *blamed, fault string) (finding, bool) {
	if m := notFound.FindStringSubmatch(fault); m != nil {
		if c, nth, ok := b.first(func(c chain) bool { return !c.has && c.path[len(c.path)-1] == m[1] && t.lacks(c) }); ok {
			f := t.unknownMember(c)
			f.place = l.place(c, nth)
			return f, true
		}
	}
	if m := notAsked.FindStringSubmatch(fault); m != nil {
		if c, nth, ok := b.first(func(c chain) bool { return !c.has && c.root == "context" && strings.Join(c.path, ".") == m[1] }); ok {
			f := t.unasked(c)
			f.place = l.place(c, nth)
			return f, true
		}
	}
	if t.guessed(b.node) {
		return finding{}, false
	}
	f := finding{place: l.policy, how: ofCall, text: plainly(fault)}
	c, nth, ok := b.first(func(c chain) bool { return c.root == "context" && len(c.path) > 1 && c.path[0] == "arguments" })
	if !ok {
		c, nth, ok = b.first(func(chain) bool { return true })
	}
	if ok {
		f.place = l.place(c, nth)
		f.text, f.hint = t.withTypes(b.node, f.text)
	}
	return f, true
}

// first returns the first chain of the condition for which ok holds, and its
// number among the policy's chains that read alike.
func (b *blamed) first(ok func(chain) bool) (chain, int, bool) {
	for _, c := range chains(b.node) {
		if ok(c) {
			n := 0
			for _, other := range b.before {
				if other.has == c.has && other.String() == c.String() {
					n++
				}
			}
			return c, n, true
		}
	}
	return chain{}, 0, false
}

// lacks reports whether a chain leads to a member that isn't there, from one
// that is.
func (t *trial) lacks(c chain) bool {
	r, ok := t.recordAt(c.root, c.path[:len(c.path)-1])
	if !ok {
		return false
	}
	_, there := r[types.String(c.path[len(c.path)-1])]
	return !there
}

// recordAt is the type of the record at a path from a variable.
func (t *trial) recordAt(root string, path []string) (resolved.RecordType, bool) {
	var r resolved.RecordType
	switch root {
	case "principal":
		r = entityShapes[t.situation.principal].Shape
	case "resource":
		r = entityShapes[t.situation.resource].Shape
	case "context":
		r, _ = t.context()
	}
	for _, name := range path {
		next, ok := r[types.String(name)].Type.(resolved.RecordType)
		if !ok {
			return nil, false
		}
		r = next
	}
	return r, true
}
