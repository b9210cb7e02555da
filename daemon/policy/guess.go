package policy

import (
	"maps"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/x/exp/ast"
)

// maxUnknown is how many places are guessed at. Beyond, what looks at them is
// taken to be right.
const maxUnknown = 32

// maxWork is how many elementary conditions are judged to find the right guess,
// each as often as it is judged. Beyond, what looks at unknown things is taken to
// be right: nobody writes such a policy.
const maxWork = 1 << 16

// settle finds the guess under which the validator has least against the policy,
// and returns what that is.
func (t *trial) settle() []string {
	body := t.reading.body
	_, unknown := t.context()
	t.guess = guess{}
	faults := t.judge(body)
	t.tooMany = len(unknown) > maxUnknown
	if len(faults) == 0 || len(unknown) == 0 || t.tooMany {
		return faults
	}
	moves, work := t.moves(unknown), 0
	size := len(elementary(body))
	for again := true; again; {
		again = false
		for _, paths := range moves {
			for _, g := range guesses {
				if work += size; work > maxWork {
					t.tooMany = true
					return faults
				}
				next := maps.Clone(t.guess)
				for _, path := range paths {
					next[path] = g
				}
				now := (&trial{reading: t.reading, situation: t.situation, guess: next}).judge(body)
				if len(now) < len(faults) {
					t.guess, faults, again = next, now, true
				}
				if len(faults) == 0 {
					return nil
				}
			}
		}
	}
	return faults
}

// moves lists the places that are guessed at together: each by itself, and those
// that stand in one condition, which mostly have one type.
func (t *trial) moves(unknown []string) [][]string {
	var moves [][]string
	for _, path := range unknown {
		moves = append(moves, []string{path})
	}
	var together [][]string
	for _, c := range elementary(t.reading.body) {
		paths := lookedAt(c.node, unknown)
		if len(paths) < 2 {
			continue
		}
		apart := together[:0:0]
		for _, other := range together {
			if slices.ContainsFunc(other, func(path string) bool { return slices.Contains(paths, path) }) {
				paths = append(paths, other...)
			} else {
				apart = append(apart, other)
			}
		}
		slices.Sort(paths)
		together = append(apart, slices.Compact(paths))
	}
	return append(moves, together...)
}

// lookedAt returns those of the paths that an expression looks at.
func lookedAt(n ast.IsNode, unknown []string) []string {
	var paths []string
	for _, c := range chains(n) {
		if c.root != "context" {
			continue
		}
		path := strings.Join(c.path, ".")
		for _, u := range unknown {
			if u == path || strings.HasPrefix(u, path+"[]") || strings.HasPrefix(u, path+".") {
				paths = append(paths, u)
			}
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}
