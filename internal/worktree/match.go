package worktree

import "strings"

// matchPath reports whether the parts of a path match those of a pattern. A part "**" stands for
// any number of parts, and at the end for at least one. No pattern takes longer than the product
// of the lengths.
func matchPath(pattern, name []string) bool {
	// can[j] says whether what was seen of the pattern matches the first j parts.
	can := make([]bool, len(name)+1)
	can[0] = true
	for i, part := range pattern {
		next := make([]bool, len(name)+1)
		switch {
		case part == "**" && i == len(pattern)-1:
			some := false
			for j := range name {
				some = some || can[j]
				next[j+1] = some
			}
		case part == "**":
			some := false
			for j := range next {
				some = some || can[j]
				next[j] = some
			}
		default:
			for j := range name {
				next[j+1] = can[j] && matchPart(part, name[j])
			}
		}
		can = next
	}
	return can[len(name)]
}

// matchPart reports whether a name without slashes matches a pattern of *, ?, [...] and \.
func matchPart(pattern, name string) bool {
	star, retry := -1, 0
	p, n := 0, 0
	for n < len(name) {
		if p < len(pattern) && pattern[p] == '*' {
			star, retry = p, n
			p++
			continue
		}
		if used, width := matchOne(pattern[p:], name[n:]); used > 0 {
			p, n = p+used, n+width
			continue
		}
		if star < 0 {
			return false
		}
		retry++
		p, n = star+1, retry
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// matchOne matches the first element of a pattern, which is no star, with the first byte of name.
// As in git, that is a byte also where it is a part of a character. It returns the length of both,
// or zeros.
func matchOne(pattern, name string) (used, width int) {
	if pattern == "" {
		return 0, 0
	}
	switch pattern[0] {
	case '?':
		return 1, 1
	case '[':
		return matchClass(pattern, name[0])
	case '\\':
		if len(pattern) > 1 && pattern[1] == name[0] {
			return 2, 1
		}
		return 0, 0
	}
	if pattern[0] == name[0] {
		return 1, 1
	}
	return 0, 0
}

// matchClass matches a [...].
func matchClass(pattern string, c byte) (used, width int) {
	at := 1
	negated := at < len(pattern) && (pattern[at] == '!' || pattern[at] == '^')
	if negated {
		at++
	}
	found := false
	for first := true; ; first = false {
		if at >= len(pattern) {
			return 0, 0
		}
		if pattern[at] == ']' && !first {
			break
		}
		if strings.HasPrefix(pattern[at:], "[:") {
			name, _, ok := strings.Cut(pattern[at+2:], ":]")
			in, known := classes[name]
			if !ok || !known {
				return 0, 0
			}
			found = found || in(c)
			at += len(name) + 4
			continue
		}
		low, n := classByte(pattern[at:])
		at += n
		high := low
		if at+1 < len(pattern) && pattern[at] == '-' && pattern[at+1] != ']' {
			high, n = classByte(pattern[at+1:])
			at += 1 + n
		}
		if n == 0 {
			return 0, 0
		}
		found = found || low <= c && c <= high
	}
	if found == negated {
		return 0, 0
	}
	return at + 1, 1
}

// classByte returns the first byte of what may be escaped, and how long it is.
func classByte(s string) (byte, int) {
	if s[0] != '\\' {
		return s[0], 1
	}
	if len(s) < 2 {
		return 0, 0
	}
	return s[1], 2
}

func between(low, high byte) func(byte) bool {
	return func(c byte) bool { return low <= c && c <= high }
}

func anyOf(tests ...func(byte) bool) func(byte) bool {
	return func(c byte) bool {
		for _, test := range tests {
			if test(c) {
				return true
			}
		}
		return false
	}
}

func isAmong(set string) func(byte) bool {
	return func(c byte) bool { return strings.IndexByte(set, c) >= 0 }
}

var (
	isUpper = between('A', 'Z')
	isLower = between('a', 'z')
	isDigit = between('0', '9')
	isAlnum = anyOf(isUpper, isLower, isDigit)
	isGraph = between('!', '~')
)

var classes = map[string]func(byte) bool{
	"alnum": isAlnum, "alpha": anyOf(isUpper, isLower), "digit": isDigit, "lower": isLower, "upper": isUpper,
	"blank": isAmong(" \t"), "space": isAmong(" \t\n\v\f\r"), "cntrl": anyOf(between(0, 31), between(127, 127)),
	"graph": isGraph, "print": between(' ', '~'), "xdigit": anyOf(isDigit, between('a', 'f'), between('A', 'F')),
	"punct": func(c byte) bool { return isGraph(c) && !isAlnum(c) },
}

// isPattern reports whether s has a character that matches others.
func isPattern(s string) bool { return strings.ContainsAny(s, `*?[\`) }

// literal returns the name that a pattern without other wildcards than \ stands for.
func literal(pattern string) (string, bool) {
	if !isPattern(pattern) {
		return pattern, true
	}
	var name strings.Builder
	for at := 0; at < len(pattern); at++ {
		switch pattern[at] {
		case '*', '?', '[':
			return "", false
		case '\\':
			if at++; at == len(pattern) {
				return "", false
			}
		}
		name.WriteByte(pattern[at])
	}
	return name.String(), true
}
