package main

import (
	"regexp/syntax"
	"slices"
	"unicode"
	"unicode/utf8"
)

// heads returns every text that a match can begin with, as far as the expression has literals,
// and whether a match begins at a word boundary. It returns no texts if there are too many.
// Letters that match either case are in one case only; exact reports that there are none.
func heads(tree *syntax.Regexp) (texts []string, boundary, exact bool) {
	parts := flatten(tree)
	if len(parts) > 0 && parts[0].Op == syntax.OpWordBoundary {
		boundary, parts = true, parts[1:]
	}
	exact = len(parts) > 0 && !foldsCase(parts[0])
	if i := slices.IndexFunc(parts, foldsCase); exact && i > 0 {
		parts = parts[:i]
	}
	texts, _ = expand(parts)
	if len(texts) == 1 && texts[0] == "" {
		return nil, false, false
	}
	return texts, boundary, exact
}

func foldsCase(p *syntax.Regexp) bool {
	return p.Op == syntax.OpLiteral && p.Flags&syntax.FoldCase != 0 || slices.ContainsFunc(p.Sub, foldsCase)
}

const mostHeads = 64

// expand returns the texts that parts can begin with; whole reports that they cover all of
// parts, so that texts of what follows can be appended.
func expand(parts []*syntax.Regexp) (texts []string, whole bool) {
	texts = []string{""}
	for _, p := range parts {
		next, all := alternatives(p)
		if next == nil || len(next)*len(texts) > mostHeads {
			return texts, false
		}
		var joined []string
		for _, a := range texts {
			for _, b := range next {
				joined = append(joined, a+b)
			}
		}
		if texts = joined; !all {
			return texts, false
		}
	}
	return texts, true
}

func alternatives(p *syntax.Regexp) (texts []string, whole bool) {
	switch p.Op {
	case syntax.OpLiteral:
		return []string{string(p.Rune)}, true
	case syntax.OpCharClass:
		for i := 0; i < len(p.Rune); i += 2 {
			for r := p.Rune[i]; r <= p.Rune[i+1]; r++ {
				if texts = append(texts, string(r)); len(texts) > 8 {
					return nil, false
				}
			}
		}
		return texts, true
	case syntax.OpCapture, syntax.OpConcat:
		texts, whole = expand(flatten(p))
		if len(texts) == 1 && texts[0] == "" {
			return nil, false
		}
		return texts, whole
	case syntax.OpAlternate:
		whole = true
		for _, sub := range p.Sub {
			part, all := alternatives(sub)
			if part == nil {
				return nil, false
			}
			texts, whole = append(texts, part...), whole && all
		}
		return texts, whole
	}
	return nil, false
}

// flatten returns the parts of a concatenation, with groups resolved.
func flatten(p *syntax.Regexp) []*syntax.Regexp {
	switch p.Op {
	case syntax.OpCapture:
		return flatten(p.Sub[0])
	case syntax.OpConcat:
		var parts []*syntax.Regexp
		for _, sub := range p.Sub {
			parts = append(parts, flatten(sub)...)
		}
		return parts
	}
	return []*syntax.Regexp{p}
}

// longestRun returns the minimum length of the longest unbroken run of letters, digits, _, -
// and = in a match.
func longestRun(p *syntax.Regexp) int {
	best, current := 0, 0
	for _, part := range flatten(p) {
		if n, ok := runLength(part); ok {
			current += n
			best = max(best, current)
			continue
		}
		current = 0
		switch part.Op {
		case syntax.OpPlus:
			best = max(best, longestRun(part.Sub[0]))
		case syntax.OpAlternate:
			least := -1
			for _, sub := range part.Sub {
				if n := longestRun(sub); least < 0 || n < least {
					least = n
				}
			}
			best = max(best, least)
		}
	}
	return best
}

// runLength returns the minimum length of a match of p, if p matches only the characters that
// longestRun counts.
func runLength(p *syntax.Regexp) (int, bool) {
	switch p.Op {
	case syntax.OpEmptyMatch, syntax.OpWordBoundary:
		return 0, true
	case syntax.OpLiteral:
		for _, r := range p.Rune {
			if !inRun(r) {
				return 0, false
			}
		}
		return len(p.Rune), true
	case syntax.OpCharClass:
		for i := 0; i < len(p.Rune); i += 2 {
			for r := p.Rune[i]; r <= p.Rune[i+1]; r++ {
				// (?i) adds the two letters outside ASCII that fold to an ASCII letter.
				if !inRun(r) && unicode.SimpleFold(r) == r {
					return 0, false
				}
			}
		}
		return 1, true
	case syntax.OpCapture, syntax.OpPlus:
		return runLength(p.Sub[0])
	case syntax.OpStar, syntax.OpQuest:
		_, ok := runLength(p.Sub[0])
		return 0, ok
	case syntax.OpConcat:
		sum := 0
		for _, sub := range p.Sub {
			n, ok := runLength(sub)
			if !ok {
				return 0, false
			}
			sum += n
		}
		return sum, true
	case syntax.OpAlternate:
		least := -1
		for _, sub := range p.Sub {
			n, ok := runLength(sub)
			if !ok {
				return 0, false
			}
			if least < 0 || n < least {
				least = n
			}
		}
		return least, true
	}
	return 0, false
}

// reach returns the maximum length of a match in bytes, 0 if it is unbounded.
func reach(p *syntax.Regexp) int {
	n, bounded := 0, true
	most := func(sub *syntax.Regexp) int {
		m := reach(sub)
		bounded = bounded && (m > 0 || isEmpty(sub))
		return m
	}
	switch p.Op {
	case syntax.OpLiteral:
		n = len(string(p.Rune))
	case syntax.OpCharClass:
		n = utf8.RuneLen(p.Rune[len(p.Rune)-1])
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		n = utf8.UTFMax
	case syntax.OpStar, syntax.OpPlus:
		bounded = false
	case syntax.OpRepeat:
		bounded = p.Max >= 0
		n = p.Max * most(p.Sub[0])
	case syntax.OpConcat:
		for _, sub := range p.Sub {
			n += most(sub)
		}
	case syntax.OpAlternate:
		for _, sub := range p.Sub {
			n = max(n, most(sub))
		}
	case syntax.OpCapture, syntax.OpQuest:
		n = most(p.Sub[0])
	}
	if !bounded {
		return 0
	}
	return n
}

// isEmpty reports whether p matches without consuming text.
func isEmpty(p *syntax.Regexp) bool {
	switch p.Op {
	case syntax.OpEmptyMatch, syntax.OpWordBoundary, syntax.OpNoWordBoundary, syntax.OpBeginLine,
		syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText:
		return true
	}
	return false
}

func inRun(r rune) bool {
	return r == '_' || r == '-' || r == '=' || r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r))
}
