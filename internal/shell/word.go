package shell

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Kind says how much of a word is known.
type Kind int

// The kinds.
const (
	Literal Kind = iota // Value is the word
	Pattern             // Value is a pattern for names of files, with a backslash before what is meant literally
	Unknown             // Prefix and Suffix are all that is known
)

// A Word is one word of a command, after the expansions of the shell.
type Word struct {
	Text   string // as written, or as a wrapper composed it
	Kind   Kind
	Value  string
	Prefix string // how a Pattern or Unknown begins for sure
	Suffix string // how an Unknown ends for sure
	Var    string // the variable that an Unknown without a Prefix begins with
	Many   bool   // an Unknown that may become any number of words
	Found  bool   // a Pattern for all that a search finds, at any depth where it says **
	From   []int  // the commands whose output is part of it

	Filtered bool // Found, and a condition lets only some of it through

	parts []part
}

// Literal returns the value of a word that is known to the letter.
func (w Word) Literal() (string, bool) { return w.Value, w.Kind == Literal }

// A part of a value: text, a piece of a pattern, or something unknown.
type part struct {
	kind  Kind
	text  string // of what is unknown, as written
	name  string // the variable that is unknown
	many  bool
	found bool
	from  []int

	filtered bool // found, and only some of it
}

// value is what a variable holds.
type value struct {
	parts   []part
	array   [][]part
	isArray bool
}

func literalValue(s string) value { return value{parts: textParts(s)} }

func unknownValue(text string, from []int) value {
	return value{parts: []part{{kind: Unknown, text: text, from: from}}}
}

// A text that is composed of words keeps a hole where a word is not known, so
// that it can be parsed around it. A hole is one rune of a plane that no
// command line uses, and stands for a part that the evaluator keeps.
const (
	firstHole = 0xF0000
	lastHole  = 0xFFFFD
)

func isHole(r rune) bool { return r >= firstHole && r <= lastHole }

// complete reports whether a text has no holes.
func complete(text string) bool { return !strings.ContainsFunc(text, isHole) }

// hole returns a text that stands for p.
func (e *evaluator) hole(p part) string {
	if len(e.holes) > lastHole-firstHole {
		e.stop("too many unknown words")
		return ""
	}
	e.holes = append(e.holes, p)
	return string(rune(firstHole + len(e.holes) - 1))
}

// textParts splits a text without holes.
func textParts(s string) []part {
	if s == "" {
		return nil
	}
	return []part{{text: s}}
}

// fill splits a text that may have holes.
func (e *evaluator) fill(s string) []part {
	var parts []part
	for s != "" {
		i := strings.IndexFunc(s, isHole)
		if i < 0 {
			return append(parts, part{text: s})
		}
		if i > 0 {
			parts = append(parts, part{text: s[:i]})
		}
		r := []rune(s[i : i+4])[0]
		if n := int(r - firstHole); n < len(e.holes) {
			parts = append(parts, e.holes[n])
		}
		s = s[i+4:]
	}
	return parts
}

// shown returns a text in which what stood at each hole is written out.
func (e *evaluator) shown(s string) string {
	if complete(s) {
		return s
	}
	var b strings.Builder
	for _, p := range e.fill(s) {
		b.WriteString(p.text)
	}
	return b.String()
}

// composed returns the text of parts, with holes for what is unknown.
func (e *evaluator) composed(parts []part) string {
	var b strings.Builder
	for _, p := range parts {
		if p.kind == Unknown || p.found {
			b.WriteString(e.hole(p))
		} else {
			b.WriteString(p.text)
		}
	}
	return b.String()
}

// newWord returns the word of one field.
func newWord(text string, parts []part) Word {
	parts = merged(parts)
	w := Word{Text: text, parts: parts}
	var prefix, pattern, suffix strings.Builder
	leading := true
	for _, p := range parts {
		w.From = union(w.From, p.from)
		w.Many = w.Many || p.many && p.kind == Unknown
		w.Found = w.Found || p.found
		w.Filtered = w.Filtered || p.filtered
		w.Kind = max(w.Kind, p.kind)
		switch {
		case p.kind == Literal:
			pattern.WriteString(escape(p.text))
			suffix.WriteString(p.text)
			if leading {
				prefix.WriteString(p.text)
			}
		default:
			if leading && p.kind == Unknown && prefix.Len() == 0 {
				w.Var = p.name
			}
			leading = false
			suffix.Reset()
			pattern.WriteString(p.text)
		}
	}
	switch w.Kind {
	case Literal:
		w.Value = prefix.String()
	case Pattern:
		w.Value, w.Prefix = pattern.String(), prefix.String()
	case Unknown:
		w.Prefix, w.Suffix = prefix.String(), suffix.String()
	}
	return w
}

// merged joins literals that stand beside each other.
func merged(parts []part) []part {
	mergeable := func(p, q part) bool {
		return p.kind == Literal && q.kind == Literal && slices.Equal(p.from, q.from)
	}
	n := 0
	for i := 1; i < len(parts); i++ {
		if mergeable(parts[i-1], parts[i]) {
			n++
		}
	}
	if n == 0 {
		return parts
	}
	out := make([]part, 0, len(parts)-n)
	for i := 0; i < len(parts); {
		j := i + 1
		for j < len(parts) && mergeable(parts[j-1], parts[j]) {
			j++
		}
		p := parts[i]
		if j > i+1 {
			var b strings.Builder
			for _, q := range parts[i:j] {
				b.WriteString(q.text)
			}
			p.text = b.String()
		}
		out = append(out, p)
		i = j
	}
	return out
}

// literalWord returns a word that a wrapper made of s.
func literalWord(s string) Word { return Word{Text: s, Value: s, parts: textParts(s)} }

// escape puts a backslash before what a pattern would not take literally.
func escape(s string) string {
	if !strings.ContainsAny(s, `\*?[`) {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		if strings.IndexByte(`\*?[`, s[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// union returns the members of a and b, of which there are never many.
func union(a, b []int) []int {
	if len(b) == 0 {
		return a
	}
	for _, n := range b {
		if len(a) < maxProducers && !slices.Contains(a, n) {
			a = append(slices.Clip(a), n)
		}
	}
	return a
}

// fields collects what one written word becomes.
type fields struct {
	done    [][]part
	current []part
	started bool // current is a field even if it is empty
	ifs     string
}

func (f *fields) end() {
	if f.started || len(f.current) > 0 {
		f.done = append(f.done, f.current)
	}
	f.current, f.started = nil, false
}

// quoted adds parts that are not split.
func (f *fields) quoted(parts ...part) {
	f.started = true
	f.current = append(f.current, parts...)
}

// unquoted adds parts of an expansion, which are split at the characters of
// IFS and in which patterns count.
func (f *fields) unquoted(parts []part) {
	for _, p := range parts {
		switch p.kind {
		case Unknown:
			p.many = true
			f.current = append(f.current, p)
		case Pattern:
			f.current = append(f.current, p)
		default:
			f.split(p)
		}
	}
}

func (f *fields) split(p part) {
	text := p.text
	for text != "" && len(f.done) <= maxFields {
		i := strings.IndexAny(text, f.ifs)
		if i < 0 {
			i = len(text)
		}
		for _, q := range patternParts(text[:i], false) {
			q.from = p.from
			f.current = append(f.current, q)
		}
		if i == len(text) {
			return
		}
		f.end()
		_, width := utf8.DecodeRuneInString(text[i:])
		text = text[i+width:]
	}
}

// patternParts splits unquoted text into what is literal and what is a pattern.
// Where source is set a backslash quotes what follows.
func patternParts(s string, source bool) []part {
	var parts []part
	var b strings.Builder
	flush := func() {
		if b.Len() > 0 {
			parts = append(parts, part{text: b.String()})
			b.Reset()
		}
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\' && source && i+1 < len(s):
			if i++; s[i] != '\n' { // the parser leaves some line continuations
				b.WriteByte(s[i])
			}
		case c == '*' || c == '?':
			flush()
			parts = append(parts, part{kind: Pattern, text: string(c)})
		case c == '[':
			n := bracket(s[i:])
			if n == 0 {
				b.WriteByte(c)
				continue
			}
			flush()
			parts = append(parts, part{kind: Pattern, text: s[i : i+n]})
			i += n - 1
		default:
			b.WriteByte(c)
		}
	}
	flush()
	return parts
}

// bracket returns the length of a bracket expression at the start of s, or 0.
func bracket(s string) int {
	i := 1
	if i < len(s) && (s[i] == '!' || s[i] == '^') {
		i++
	}
	if i < len(s) && s[i] == ']' {
		i++
	}
	// Longer ones are never meant as such.
	end := strings.IndexByte(s[i:min(len(s), 256)], ']')
	if end < 0 || strings.ContainsAny(s[i:i+end], "/\\") {
		return 0
	}
	return i + end + 1
}

// After returns what follows a prefix that the word has for sure.
func (w Word) After(prefix string) (Word, bool) {
	known := w.Prefix
	if w.Kind == Literal {
		known = w.Value
	}
	if !strings.HasPrefix(known, prefix) {
		return Word{}, false
	}
	if prefix == "" {
		return w, true
	}
	return newWord(w.Text, dropPrefix(w.parts, len(prefix))), true
}

// NewWord returns a word that is known to the letter.
func NewWord(s string) Word { return literalWord(s) }
