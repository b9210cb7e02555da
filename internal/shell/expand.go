package shell

import (
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// words returns what written words become.
func (e *evaluator) words(ws []*syntax.Word, st state, fr frame) []Word {
	var out []Word
	for _, w := range ws {
		out = append(out, e.word(w, st, fr)...)
	}
	return out
}

// word returns the words that a written word becomes.
func (e *evaluator) word(w *syntax.Word, st state, fr frame) []Word {
	if !e.step() {
		return nil
	}
	text := e.text(fr, w)
	split := &syntax.Word{Parts: w.Parts} // the tree may be evaluated again
	syntax.SplitBraces(split)
	alternatives, ok := e.braces(split.Parts)
	if !ok {
		return []Word{newWord(text, []part{{kind: Unknown, text: text, many: true}})}
	}
	var out []Word
	for _, parts := range alternatives {
		f := &fields{ifs: e.separators(st)}
		e.expand(parts, st, fr, f)
		f.end()
		for _, field := range f.done {
			if len(out) >= maxFields || !e.spend(size(field)) {
				return append(out, newWord(text, []part{{kind: Unknown, text: text, many: true}}))
			}
			out = append(out, newWord(text, field))
		}
	}
	return out
}

// single returns a word in a place where it is neither split nor a pattern: a
// value that is assigned, a here-document, the target of a redirection.
func (e *evaluator) single(w *syntax.Word, st state, fr frame) Word {
	if w == nil || !e.step() {
		return literalWord("")
	}
	f := &fields{}
	e.expand(w.Parts, st, fr, f)
	f.end()
	var parts []part
	for _, field := range f.done {
		parts = append(parts, field...)
	}
	if !e.spend(size(parts)) {
		parts = unknownPart(e.text(fr, w), "", nil)
	}
	return newWord(e.text(fr, w), parts)
}

func size(parts []part) int {
	n := 0
	for _, p := range parts {
		n += len(p.text)
	}
	return n
}

// separators returns what splits words: the value of IFS.
func (e *evaluator) separators(st state) string {
	if v, ok := st.lookup("IFS"); ok {
		if text, ok := exact(v.parts); ok {
			return text
		}
	}
	return " \t\n"
}

// expand adds what the parts of a written word become.
func (e *evaluator) expand(parts []syntax.WordPart, st state, fr frame, f *fields) {
	for i, p := range parts {
		if e.stopped {
			return
		}
		switch p := p.(type) {
		case *syntax.Lit:
			text := p.Value
			if i == 0 && strings.HasPrefix(text, "~") {
				text = e.tilde(text, st, f)
			} else if name, _, ok := strings.Cut(text, "=~"); i == 0 && ok && syntax.ValidName(name) {
				f.quoted(part{text: name + "="}) // dd of=~/a, as bash has it
				text = e.tilde(text[len(name)+1:], st, f)
			}
			for _, q := range e.literal(text) {
				f.current = append(f.current, q)
				f.started = true
			}
		case *syntax.SglQuoted:
			text := p.Value
			if p.Dollar {
				text = decodeANSI(text)
			}
			f.quoted(e.fill(text)...)
		case *syntax.DblQuoted:
			f.started = true
			e.doubleQuoted(p.Parts, st, fr, f)
		case *syntax.ParamExp:
			e.addList(p, st, fr, f, false)
		case *syntax.CmdSubst:
			f.unquoted(e.substituted(p, st, fr))
		case *syntax.ArithmExp:
			e.arithm(p.X, st, fr)
			f.current = append(f.current, part{kind: Unknown, text: e.text(fr, p)})
		case *syntax.ProcSubst:
			f.quoted(e.process(p, st, fr)...)
		case *syntax.ExtGlob:
			f.current = append(f.current, part{kind: Pattern, text: "*"})
		case *syntax.BraceExp:
			f.quoted(part{kind: Unknown, text: "{}", many: true})
		}
	}
}

// literal splits unquoted source text.
func (e *evaluator) literal(text string) []part {
	var out []part
	for _, p := range e.fill(text) {
		if p.kind != Literal {
			p.many = p.many || p.kind == Unknown
			out = append(out, p)
			continue
		}
		out = append(out, patternParts(p.text, true)...)
	}
	return out
}

// doubleQuoted adds what stands between double quotes.
func (e *evaluator) doubleQuoted(parts []syntax.WordPart, st state, fr frame, f *fields) {
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			f.quoted(e.fill(unescape(p.Value, "$`\"\\"))...)
		case *syntax.ParamExp:
			e.addList(p, st, fr, f, true)
		case *syntax.CmdSubst:
			f.quoted(e.substituted(p, st, fr)...)
		case *syntax.ArithmExp:
			e.arithm(p.X, st, fr)
			f.quoted(part{kind: Unknown, text: e.text(fr, p)})
		default:
			f.quoted(part{kind: Unknown, text: e.text(fr, p)})
		}
	}
}

// unescape removes backslashes before the given characters.
func unescape(s, special string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			if s[i+1] == '\n' {
				i++
				continue
			}
			if strings.IndexByte(special, s[i+1]) >= 0 {
				i++
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// addList adds a parameter, each of whose values is a field of its own if it is
// a list.
func (e *evaluator) addList(p *syntax.ParamExp, st state, fr frame, f *fields, quoted bool) {
	list, isList := e.param(p, st, fr, quoted)
	for i, parts := range list {
		if i > 0 {
			f.end()
		}
		if !e.spend(size(parts)) {
			return
		}
		if quoted {
			f.quoted(parts...)
		} else {
			f.unquoted(parts)
		}
	}
	if isList && len(list) == 0 && len(f.current) == 0 {
		f.started = false // "$@" without parameters is no word
	}
}

// tilde adds the directory that text begins with, and returns the rest.
func (e *evaluator) tilde(text string, st state, f *fields) string {
	user, rest := text[1:], ""
	if i := strings.IndexAny(user, "/:"); i >= 0 { // bash has a colon end it in any word
		user, rest = user[:i], user[i:]
	}
	switch {
	case user == "":
		f.quoted(st.home()...)
	case user == "+":
		f.quoted(e.variable("PWD", nil, st, "~+")...)
	case user == "-":
		f.quoted(e.variable("OLDPWD", nil, st, "~-")...)
	case user == "root":
		f.quoted(part{text: "/root"})
	case strings.Trim(user, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "":
		return text
	default:
		f.quoted(part{kind: Unknown, text: "~" + user, name: "~" + user})
	}
	return rest
}

// braces returns the alternatives that brace expansion makes of parts.
func (e *evaluator) braces(parts []syntax.WordPart) ([][]syntax.WordPart, bool) {
	out := [][]syntax.WordPart{nil}
	for _, p := range parts {
		b, isBrace := p.(*syntax.BraceExp)
		if !isBrace {
			for i := range out {
				out[i] = append(out[i], p)
			}
			continue
		}
		choices, ok := e.choices(b)
		if !ok || len(choices)*len(out) > maxFields {
			return nil, false
		}
		var next [][]syntax.WordPart
		for _, head := range out {
			for _, choice := range choices {
				next = append(next, append(append([]syntax.WordPart{}, head...), choice...))
				if !e.spend(16 * (len(head) + len(choice))) {
					return nil, false
				}
			}
		}
		out = next
	}
	return out, true
}

// choices returns what one pair of braces offers.
func (e *evaluator) choices(b *syntax.BraceExp) ([][]syntax.WordPart, bool) {
	if !e.enter() {
		return nil, false
	}
	defer e.leave()
	var out [][]syntax.WordPart
	if b.Sequence {
		for _, s := range sequence(b) {
			out = append(out, []syntax.WordPart{&syntax.Lit{Value: s}})
		}
		return out, len(out) > 0
	}
	for _, elem := range b.Elems {
		alternatives, ok := e.braces(elem.Parts)
		if !ok || len(out) > maxFields {
			return nil, false
		}
		out = append(out, alternatives...)
	}
	return out, true
}

// sequence returns the members of {a..b..step}, or nil if they are too many.
func sequence(b *syntax.BraceExp) []string {
	if len(b.Elems) < 2 {
		return nil
	}
	from, to := b.Elems[0].Lit(), b.Elems[1].Lit()
	first, err1 := strconv.Atoi(from)
	last, err2 := strconv.Atoi(to)
	width := 0
	numbers := err1 == nil && err2 == nil
	if !numbers {
		if len(from) != 1 || len(to) != 1 {
			return nil
		}
		first, last = int(from[0]), int(to[0])
	} else if strings.HasPrefix(strings.TrimPrefix(from, "-"), "0") || strings.HasPrefix(strings.TrimPrefix(to, "-"), "0") {
		width = max(len(from), len(to))
	}
	step := 1
	if len(b.Elems) > 2 {
		n, err := strconv.Atoi(b.Elems[2].Lit())
		if err != nil || n == 0 || n > 1<<30 || n < -1<<30 {
			return nil
		}
		step = max(n, -n)
	}
	distance := last - first
	if distance < 0 {
		distance, step = -distance, -step
	}
	if distance < 0 || distance/max(step, -step) >= maxFields {
		return nil
	}
	var out []string
	for n := first; step > 0 && n <= last || step < 0 && n >= last; n += step {
		if !numbers {
			out = append(out, escape(string(rune(n))))
			continue
		}
		s := strconv.Itoa(n)
		for len(s) < width && width < 32 {
			s = "0" + s
		}
		out = append(out, s)
	}
	return out
}

// embedded runs what is substituted inside of a word whose value does not
// matter.
func (e *evaluator) embedded(w *syntax.Word, st state, fr frame) {
	if w != nil && !e.stopped {
		e.substitutions(w, st, fr)
	}
}

// arithm runs what is substituted inside of arithmetic.
func (e *evaluator) arithm(x syntax.ArithmExpr, st state, fr frame) {
	if x != nil && !e.stopped {
		e.numbers(x, st, fr)
	}
}

// substitutions runs the command and process substitutions below node.
func (e *evaluator) substitutions(node syntax.Node, st state, fr frame) {
	syntax.Walk(node, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst:
			e.substituted(n, st, fr)
			return false
		case *syntax.ProcSubst:
			e.process(n, st, fr)
			return false
		}
		return !e.stopped
	})
}

// substituted runs a command substitution and returns what it becomes.
func (e *evaluator) substituted(c *syntax.CmdSubst, st state, fr frame) []part {
	if !e.enter() {
		return unknownPart(e.text(fr, c), "", nil)
	}
	defer e.leave()
	r := e.statements(c.Stmts, st, fr)
	if r.text != nil {
		text := strings.TrimRight(*r.text, "\n")
		parts := e.fill(text)
		for i := range parts {
			parts[i].from = union(parts[i].from, r.out)
		}
		return parts
	}
	if found := e.foundBy(r.out); len(found) == 1 {
		return found[0].parts
	}
	return unknownPart(e.text(fr, c), "", r.out)
}

// process runs a process substitution and returns the name that stands for it.
func (e *evaluator) process(p *syntax.ProcSubst, st state, fr frame) []part {
	if !e.enter() {
		return unknownPart(e.text(fr, p), "", nil)
	}
	defer e.leave()
	sub := fr
	if p.Op == syntax.CmdOut {
		e.nPending--
		e.pending = append(e.pending, e.nPending)
		sub.stdin = []int{e.nPending}
		e.setInput(&sub, nil)
	}
	r := e.statements(p.Stmts, st, sub)
	q := part{kind: Unknown, text: e.text(fr, p), from: r.out}
	if p.Op == syntax.CmdOut {
		return []part{{kind: Unknown, text: e.text(fr, p)}}
	}
	if r.text != nil {
		e.files[q.text] = *r.text
	}
	return []part{q}
}
