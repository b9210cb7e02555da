package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// peel evaluates what inv runs, if it is a program that runs others.
func (e *evaluator) peel(inv *invocation) (result, bool) {
	switch each[inv.program] {
	case "find":
		return e.find(inv), true
	case "xargs":
		return e.xargs(inv)
	case "parallel":
		return e.parallel(inv)
	}
	switch inv.program {
	case "git":
		return e.git(inv), true
	case "make", "gmake":
		return e.elsewhere(inv)
	}
	e.codeFlags(inv)
	w, label, args, ok := wrapperOf(inv)
	if !ok {
		return result{}, false
	}
	return e.unwrap(inv, w, label, args)
}

// unwrap evaluates the command that the wrapper w is given in args.
func (e *evaluator) unwrap(inv *invocation, w wrapper, label string, args []Word) (result, bool) {
	u := &unwrapping{wrapper: w, st: inv.st, follow: e.line.Follow}
	u.scan(args)
	fr := inv.fr.wrapped(label)
	fr.external = true
	fr.privileged = fr.privileged || w.privileged
	if w.assigns || w.skip > 0 || len(u.rest) > 0 {
		u.operands(w)
	}
	for _, v := range u.env {
		e.bound(v.Name, v.Value.parts, u.st, fr)
	}
	fr.env = append(slices.Clip(fr.env), u.env...)
	st := u.st
	if w.remote {
		fr.remote = label
		if u.place.Value != "" {
			fr.remote += " " + u.place.Value
		}
		st.dirs = []string{""}
		st = st.bind("HOME", unknownValue("~", nil))
	}
	if len(u.texts) == 0 && len(u.rest) == 0 {
		if !w.stdin || u.listed || inv.fr.input == nil && len(inv.fr.stdin) == 0 {
			return result{}, false
		}
		return e.unwrapStdin(inv, st, fr, w), true
	}
	var out []int
	if w.plain {
		plain := *inv
		if !w.remote { // which is opened here
			plain.fr.redirects = nil
		}
		if i := e.record(&plain, inv.command()); i >= 0 {
			out = append(out, i)
		}
	}
	for _, t := range u.texts {
		sub := fr
		sub.external = false
		sub.level++
		r := e.runText(e.composed(t.parts), t.From, st, sub, inv)
		out = union(out, r.out)
	}
	r := result{}
	switch {
	case len(u.rest) == 0:
	case w.joined:
		text, _ := e.joined(u.rest)
		fr.external = false
		fr.level++
		r = e.runText(text, fromWords(u.rest), st, fr, inv)
	default:
		r = e.call(u.rest, st, fr, inv.pos, inv.end)
	}
	return result{ok: inv.st, fail: inv.st, out: union(out, r.out), text: r.text}, true
}

// unwrapStdin evaluates a wrapper that is a shell for its input: ssh host <<EOF,
// sudo -s, at now.
func (e *evaluator) unwrapStdin(inv *invocation, st state, fr frame, w wrapper) result {
	if w.plain {
		e.record(inv, inv.command())
	}
	fr.external = false
	fr.level++
	return e.runStdin(inv, st, fr)
}

// maxSplits is how often words of a wrapper are split in a row. Each time all are copied.
const maxSplits = 16

// unwrapping is what the words of a wrapper say.
type unwrapping struct {
	wrapper wrapper
	st      state
	follow  func(string) (string, bool)
	texts   []Word // command lines
	env     []Assign
	rest    []Word // operands
	place   Word
	dashes  bool // there was a --
	listed  bool
}

// scan reads the flags.
func (u *unwrapping) scan(args []Word) {
	w := u.wrapper
	if i := slices.IndexFunc(args, func(word Word) bool { return hasFlag(w.after, word.Value) && word.Value != "" }); i >= 0 {
		if u.rest = args[i+1:]; len(u.rest) == 1 {
			u.rest, u.texts = nil, u.rest
		}
		return
	}
	all := w.values + " " + w.text + " " + w.split
	i, splits := 0, 0
	for i < len(args) {
		v, known := args[i].Literal()
		if !known && strings.HasPrefix(args[i].Prefix, "-") {
			v, known = args[i].Prefix, true
		}
		if !known || len(v) < 2 || v[0] != '-' {
			// su user -c 'command', flock file -c 'command'
			if w.skip < 99 || w.text == "" || !u.textAfter(args[i:], all) {
				break
			}
			i++
			continue
		}
		if v == "--" {
			u.dashes = true
			i++
			break
		}
		u.listed = u.listed || v == "-l" || v == "--list" || v == "-V" || v == "--version" || v == "--help"
		flag, kind := flagOf(v, all)
		var value Word
		switch kind {
		case attached:
			value = newWord(args[i].Text, dropPrefix(args[i].parts, len(v)-len(valueIn(v, flag))))
		case needed:
			if i+1 < len(args) {
				value = args[i+1]
			}
			i++
		}
		i++
		if kind != none && u.flag(flag, value) { // it begins anew with the words, which may be flags
			if splits++; splits > maxSplits {
				u.rest = []Word{newWord(value.Text, unknownPart(value.Text, "", value.From))}
				return
			}
			args, i = append(splitWords(value), args[min(i, len(args)):]...), 0
		}
	}
	u.rest = append(u.rest, args[min(i, len(args)):]...)
}

// textAfter reports whether a flag with a command line comes after operands.
func (u *unwrapping) textAfter(args []Word, all string) bool {
	for _, w := range args[1:min(len(args), 8)] {
		if v, ok := w.Literal(); ok && len(v) > 1 && v[0] == '-' {
			if flag, kind := flagOf(v, all); kind != none && hasFlag(u.wrapper.text, flag) {
				return true
			}
		}
	}
	return false
}

// valueIn returns the value that is attached to flag in v.
func valueIn(v, flag string) string {
	if strings.HasPrefix(v, "--") {
		_, value, _ := strings.Cut(v, "=")
		return value
	}
	return v[strings.Index(v[1:], flag)+1+len(flag):]
}

// flag reports whether the value is to be split into words.
func (u *unwrapping) flag(flag string, value Word) bool {
	w := u.wrapper
	switch {
	case hasFlag(w.text, flag):
		u.texts = append(u.texts, value)
	case w.split != "" && hasFlag(w.split, flag):
		return true
	case w.dir != "" && hasFlag(w.dir, flag):
		u.st, _ = u.st.cd(value, u.follow)
	}
	return false
}

// splitWords splits the string of env -S as env does, which is no shell: only quotes, a backslash and
// ${NAME} mean something. What env would refuse is a word that is not known.
func splitWords(w Word) []Word {
	text, ok := w.Literal()
	if !ok {
		return []Word{w}
	}
	s := envSplitter{text: text, from: w.From}
	for !s.refused && s.next() {
	}
	if s.refused {
		return []Word{newWord(w.Text, unknownPart(w.Text, "", w.From))}
	}
	s.end()
	return s.words
}

// envSplitter splits the string of env -S.
type envSplitter struct {
	text    string
	from    []int
	quote   byte   // that is open, or 0
	word    []part // of the word that has begun
	begun   bool
	words   []Word
	refused bool
}

// next takes one character, or an escape or a variable. It reports false at the end.
func (s *envSplitter) next() bool {
	if s.text == "" {
		s.refused = s.quote != 0
		return false
	}
	c := s.text[0]
	s.text = s.text[1:]
	switch {
	case c == '\\':
		return s.escape()
	case c == s.quote:
		s.quote = 0
	case s.quote == '\'':
		s.add(c)
	case c == '$':
		s.variable()
	case s.quote != 0:
		s.add(c)
	case c == '\'' || c == '"':
		s.quote, s.begun = c, true
	case strings.IndexByte(" \t\n\v\f\r", c) >= 0:
		s.end()
	case c == '#' && !s.begun:
		return false // the rest is a comment
	default:
		s.add(c)
	}
	return true
}

// escape takes what a backslash makes of the next character. Between single quotes it is an escape
// only before another one and before such a quote.
func (s *envSplitter) escape() bool {
	if s.text == "" {
		s.refused = true
		return false
	}
	c := s.text[0]
	if s.quote == '\'' && c != '\\' && c != '\'' {
		s.add('\\')
		return true
	}
	s.text = s.text[1:]
	switch i := strings.IndexByte("fnrtv", c); {
	case i >= 0:
		s.add("\f\n\r\t\v"[i])
	case c == '_' && s.quote == 0:
		s.end()
	case c == '_':
		s.add(' ')
	case c == 'c' && s.quote == 0:
		return false // the rest is ignored
	case strings.IndexByte(`"#$'\\`, c) >= 0:
		s.add(c)
	default:
		s.refused = true
	}
	return true
}

// variable takes ${NAME}.
func (s *envSplitter) variable() {
	name, rest, closed := strings.Cut(strings.TrimPrefix(s.text, "{"), "}")
	if !closed || name == s.text || !syntax.ValidName(name) {
		s.refused = true
		return
	}
	s.text, s.begun = rest, true
	s.word = append(s.word, unknownPart("${"+name+"}", name, s.from)...)
}

func (s *envSplitter) add(c byte) {
	s.begun = true
	s.word = append(s.word, part{text: string([]byte{c})})
}

// end ends the word that has begun.
func (s *envSplitter) end() {
	if s.begun {
		var text strings.Builder
		for _, p := range s.word {
			text.WriteString(p.text)
		}
		s.words = append(s.words, newWord(text.String(), s.word))
	}
	s.word, s.begun = nil, false
}

// operands takes assignments and the operands before the command from rest.
func (u *unwrapping) operands(w wrapper) {
	if w.assigns && len(u.rest) > 0 && u.rest[0].Value == "-" {
		u.rest = u.rest[1:] // env -
	}
	for w.assigns && len(u.rest) > 0 {
		name, parts, ok := cutAssign(u.rest[0])
		if !ok {
			if v, known := u.rest[0].Literal(); known && strings.HasPrefix(v, "BASH_FUNC_") && strings.Contains(v, "=") {
				name, v, _ = strings.Cut(v, "=")
				parts = textParts(v)
			} else {
				break
			}
		}
		u.env = append(u.env, Assign{name, newWord(u.rest[0].Text, parts)})
		u.rest = u.rest[1:]
	}
	if w.assigns && len(u.rest) > 0 && u.rest[0].Value == "--" {
		u.rest = u.rest[1:]
	}
	if w.optional && !u.dashes && w.after == "" {
		for i, word := range u.rest {
			if word.Value == "--" {
				u.rest = u.rest[i+1:]
				return
			}
		}
		u.rest = nil
		return
	}
	n := min(w.skip, len(u.rest))
	if n > 0 {
		u.place = u.rest[n-1]
	}
	u.rest = u.rest[n:]
	if i := slices.IndexFunc(u.rest, func(w Word) bool { return w.Value == "--" }); w.skip > 0 && i >= 0 && (i == 0 || w.remote && strings.HasPrefix(u.rest[0].Value, "-")) {
		u.rest = u.rest[i+1:] // kubectl exec pod -c container -- command
	}
	if len(u.rest) > 1 && w.skip > 0 && u.rest[0].Value == "-c" && w.text != "" {
		u.texts = append(u.texts, u.rest[1])
		u.rest = nil
	}
}

// elsewhere records a command that changes its directory by -C.
func (e *evaluator) elsewhere(inv *invocation) (result, bool) {
	moved := *inv
	for _, v := range inv.fr.env {
		if text, known := v.Value.Literal(); known {
			e.variableOfMake(text, inv)
		}
	}
	for i, w := range inv.args {
		v := w.Value
		e.makefile(inv, i)
		switch {
		case v == "-C" && i+1 < len(inv.args):
			moved.st, _ = moved.st.cd(inv.args[i+1], e.line.Follow)
		case strings.HasPrefix(v, "-C") && len(v) > 2:
			moved.st, _ = moved.st.cd(literalWord(v[2:]), e.line.Follow)
		case strings.HasPrefix(v, "--directory="):
			moved.st, _ = moved.st.cd(literalWord(v[len("--directory="):]), e.line.Follow)
		}
	}
	r := e.plain(&moved)
	r.ok, r.fail = inv.st, inv.st
	return r, true
}

// inner returns the frame of a shell that inv starts.
func (e *evaluator) inner(inv *invocation, label string) frame {
	fr := inv.fr.wrapped(label)
	fr.external = false
	fr.level++
	fr.redirects = nil
	return fr
}
