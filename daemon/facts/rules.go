package facts

import (
	"bytes"
	"math"
	"regexp"
	"slices"
	"sort"
	"sync"
)

// rule is one form by which a secret is recognized.
type rule struct {
	id       string
	keywords []string // lower case; a find requires one of them
	expr     string
	anchored bool     // a find begins at the keyword
	boundary bool     // anchored: not inside a word
	heads    []string // anchored: a find begins with one of these, in this case; empty: any case
	reach    int      // maximum length of a match in bytes; 0 if unbounded
	run      int      // every find has this many letters, digits, _, - and = in a row
	entropy  float64  // bits per character that the secret must exceed
	group    int      // group of the secret; 0: the first group that is not empty
	need     string   // a second literal near the keyword, in lower case

	allow      []string // expressions that exclude a secret
	allowMatch []string // expressions that exclude a whole match
}

// find is a secret in a text.
type find struct {
	start, end int
	kind       string // for a person: `github-pat`, `password`
	looked     int    // bytes examined without a borrowed rule; borrowed rules are charged to the budget
}

const (
	windowBefore = 160  // text before its keyword that a rule that is not anchored may need
	windowAfter  = 600  // text after it
	longest      = 8192 // how far a find that reaches the end of the window is followed
)

// compiled is a rule whose expressions are compiled when first needed. Most never are, and all of
// them together cost 5 ms and 5 MB.
type compiled struct {
	*rule
	once       sync.Once
	expr       *regexp.Regexp
	allow      []*regexp.Regexp
	allowMatch []*regexp.Regexp
}

func (c *compiled) ready() {
	c.once.Do(func() {
		expr := c.rule.expr
		if c.anchored {
			expr = `\A(?:` + expr + `)`
		}
		c.expr = regexp.MustCompile(expr)
		c.allow = compileAll(c.rule.allow)
		c.allowMatch = compileAll(c.rule.allowMatch)
	})
}

func compileAll(exprs []string) []*regexp.Regexp {
	var out []*regexp.Regexp
	for _, e := range exprs {
		out = append(out, regexp.MustCompile(e))
	}
	return out
}

var excuses = sync.OnceValue(func() []*regexp.Regexp { return compileAll(borrowedAllow) })

// match searches text[from:to] by the rule and returns the place of the secret in text. If
// nothing matches, f.end is 0. open reports that the match reached the end of the window, so that
// it may continue. ok reports that the match is not an example, a placeholder or the like.
func (c *compiled) match(text []byte, from, to int) (f find, open, ok bool) {
	c.ready()
	m := c.expr.FindSubmatchIndex(text[from:to])
	if m == nil {
		return find{}, false, false
	}
	start, end := m[0], m[1]
	if g := c.secretGroup(m); g > 0 {
		start, end = m[2*g], m[2*g+1]
	}
	window := text[from:to]
	open = m[1] == len(window) && to < len(text)
	ok = c.believable(window[start:end], window[m[0]:m[1]])
	return find{start: from + start, end: from + end, kind: c.id}, open, ok
}

// begins reports whether text begins as a find of an anchored rule must.
func (r *rule) begins(text []byte) bool {
	return len(r.heads) == 0 || slices.ContainsFunc(r.heads, func(h string) bool { return len(text) >= len(h) && string(text[:len(h)]) == h })
}

// needs reports whether text contains the second literal of the rule.
func (r *rule) needs(text []byte) bool {
	return r.need == "" || containsFold(text, r.need)
}

// cost returns the cost of a try on n bytes. Expressions without a bound read them several times.
func (r *rule) cost(n int) int {
	if r.reach == 0 {
		return 4 * n
	}
	return n
}

func (c *compiled) secretGroup(m []int) int {
	if c.group > 0 {
		return c.group
	}
	for g := 1; 2*g < len(m); g++ {
		if m[2*g+1] > m[2*g] {
			return g
		}
	}
	return 0
}

func (c *compiled) believable(secret, match []byte) bool {
	if c.entropy > 0 && entropy(secret) <= c.entropy {
		return false
	}
	for _, stop := range borrowedStop {
		if bytes.Contains(bytes.ToLower(secret), []byte(stop)) {
			return false
		}
	}
	return !anyMatch(excuses(), secret) && !anyMatch(c.allow, secret) && !anyMatch(c.allowMatch, match)
}

func anyMatch(exprs []*regexp.Regexp, text []byte) bool {
	return slices.ContainsFunc(exprs, func(e *regexp.Regexp) bool { return e.Match(text) })
}

// entropy returns the Shannon entropy of b in bits per byte.
func entropy(b []byte) float64 {
	var counts [256]int
	for _, c := range b {
		counts[c]++
	}
	sum := 0.0
	for _, n := range counts {
		if n > 0 {
			p := float64(n) / float64(len(b))
			sum -= p * math.Log2(p)
		}
	}
	return sum
}

// runs knows where a text has long runs of letters, digits, _, - and =. Checking this first
// avoids most expressions: prose has no such runs.
type runs struct {
	known bool
	list  []span
}

const shortestRun = 8

// reach reports whether a run of n bytes or more touches text[from:to]. For a small n it always
// returns true, since short runs are not recorded.
func (r *runs) reach(n int, text []byte, from, to int) bool {
	if n < shortestRun {
		return true
	}
	if !r.known {
		r.known = true
		for i := 0; i < len(text); i++ {
			start := i
			for i < len(text) && (isRun[text[i]] || text[i] == '=') {
				i++
			}
			if i-start >= shortestRun {
				r.list = append(r.list, span{start, i})
			}
		}
	}
	for i := sort.Search(len(r.list), func(i int) bool { return r.list[i].end > from }); i < len(r.list) && r.list[i].start < to; i++ {
		if r.list[i].end-r.list[i].start >= n {
			return true
		}
	}
	return false
}

var isRun = func() (table [256]bool) {
	for c := range table {
		table[c] = isWord(byte(c)) || c == '-'
	}
	return table
}()

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
