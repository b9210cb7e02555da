package shell

import (
	"slices"
	"strings"
)

// search is what the words of find say.
type search struct {
	roots   []Word
	tests   int
	names   []Word
	or      bool
	deletes bool
	runs    []foundRun
}

// foundRun is a command that find runs for what it finds.
type foundRun struct {
	args  []Word
	inDir bool // in the directory of what was found
}

func parseFind(args []Word) search {
	var s search
	i := 0
	for ; i < len(args); i++ { // options before the roots
		v := args[i].Value
		if v == "-D" || v == "-O" {
			i++
		} else if v != "-H" && v != "-L" && v != "-P" && !strings.HasPrefix(v, "-O") {
			break
		}
	}
	for ; i < len(args); i++ {
		v, known := args[i].Literal()
		if known && v != "" && (v[0] == '-' && len(v) > 1 || v == "(" || v == "!" || v == ")" || v == ",") {
			break
		}
		s.roots = append(s.roots, args[i])
	}
	if len(s.roots) == 0 {
		s.roots = []Word{literalWord(".")}
	}
	for i < len(args) {
		i = s.expression(args, i)
	}
	return s
}

// expression reads one test or action at i and returns the index after it.
func (s *search) expression(args []Word, i int) int {
	switch v := args[i].Value; v {
	case "-exec", "-execdir", "-ok", "-okdir":
		end := i + 1
		for end < len(args) && args[end].Value != ";" && (args[end].Value != "+" || args[end-1].Value != "{}") {
			end++
		}
		s.runs = append(s.runs, foundRun{args[i+1 : end], strings.HasSuffix(v, "dir")})
		return end + 1
	case "-delete":
		s.deletes = true
	case "-o", "-or", "!", "-not", ",":
		s.or = true // what is found is not what one name says
		if v == "!" || v == "-not" {
			s.tests++
		}
	case "-name", "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex":
		s.tests++
		if i+1 < len(args) && (v == "-name" || v == "-iname") {
			s.names = append(s.names, args[i+1])
		}
		return i + 2
	case "-type", "-xtype", "-size", "-mtime", "-atime", "-ctime", "-mmin", "-amin", "-cmin", "-newer", "-perm", "-user", "-group",
		"-uid", "-gid", "-links", "-inum", "-samefile", "-fstype", "-newermt", "-mindepth", "-lname", "-used", "-anewer", "-cnewer":
		if v != "-mindepth" {
			s.tests++
		}
		return i + 2
	case "-empty", "-nouser", "-nogroup", "-executable", "-readable", "-writable":
		s.tests++
	case "-maxdepth", "-printf", "-fprint", "-fprint0", "-fls":
		return i + 2
	case "-fprintf":
		return i + 3
	}
	return i + 1
}

// found returns words for what the search finds below each root.
func (s *search) found() []Word {
	var out []Word
	name := ""
	if len(s.names) == 1 && !s.or {
		if w := s.names[0]; w.Kind == Literal {
			name = w.Value
		} else if w.Kind == Pattern {
			name = w.Value
		}
	}
	for _, root := range s.roots {
		parts := slices.Clip(root.parts)
		if s.tests > 0 || len(s.names) > 0 {
			if v, ok := root.Literal(); !ok || !strings.HasSuffix(v, "/") {
				parts = append(parts, part{text: "/"})
			}
			tail := "**"
			if strings.Trim(name, "*") != "" {
				tail += "/" + name
			}
			parts = append(parts, part{kind: Pattern, text: tail, found: true})
		} else {
			parts = append(parts, part{kind: Pattern, found: true})
		}
		out = append(out, newWord(root.Text+" …", parts))
	}
	return out
}

// find evaluates find, and the commands that it runs.
func (e *evaluator) find(inv *invocation) result {
	if strings.HasPrefix(inv.program, "fd") {
		return e.fd(inv)
	}
	s := parseFind(inv.args)
	r := e.plain(inv)
	for _, run := range s.runs {
		fr := inv.fr.wrapped("find")
		fr.external = true
		fr.redirects = nil
		for _, word := range s.found() {
			if e.stopped {
				return r
			}
			sub := e.call(e.replaced(run.args, "{}", word), inv.st, fr, inv.pos, inv.end)
			r.out = union(r.out, sub.out)
		}
	}
	return r
}

// fd evaluates fd, a finder whose -x and -X run the words that follow.
func (e *evaluator) fd(inv *invocation) result {
	r := e.plain(inv)
	for i, w := range inv.args {
		switch w.Value {
		case "-x", "-X", "--exec", "--exec-batch":
			fr := inv.fr.wrapped(inv.program)
			fr.external = true
			fr.redirects = nil
			word := newWord("{}", []part{{kind: Pattern, text: "**/*", found: true}})
			args := inv.args[i+1:]
			replaced := e.replaced(args, "{}", word)
			if slices.EqualFunc(args, replaced, func(a, b Word) bool { return a.Text == b.Text }) {
				replaced = append(slices.Clip(args), word)
			}
			e.call(replaced, inv.st, fr, inv.pos, inv.end)
			return r
		}
	}
	return r
}

// replaced returns args with what stands for an item replaced by it.
func (e *evaluator) replaced(args []Word, placeholder string, item Word) []Word {
	out := make([]Word, len(args))
	for i, w := range args {
		out[i] = w
		if !slices.ContainsFunc(w.parts, func(p part) bool { return strings.Contains(p.text, placeholder) }) {
			continue
		}
		var parts []part
		for _, p := range w.parts {
			pieces := []string{p.text}
			if p.kind == Literal {
				pieces = strings.SplitN(p.text, placeholder, maxProducers*4)
			}
			for j, piece := range pieces {
				if j > 0 {
					parts = append(parts, item.parts...)
				}
				if piece != "" || p.kind != Literal {
					q := p
					q.text = piece
					parts = append(parts, q)
				}
			}
		}
		if !e.spend(size(parts)) {
			return out
		}
		out[i] = newWord(w.Text, parts)
	}
	return out
}

// items are what xargs or parallel read.
type items struct {
	words []Word // each of them, if they are known
	rest  Word   // else one word for all
}

// input returns the items on the input of inv.
func (e *evaluator) input(inv *invocation, lines bool) items {
	if in := inv.fr.input; in != nil && complete(*in) {
		split := strings.Fields(*in)
		if lines {
			split = strings.Split(strings.TrimRight(*in, "\n"), "\n")
		}
		if len(split) <= maxUnrolled/4 {
			var it items
			for _, s := range split {
				it.words = append(it.words, literalWord(s))
			}
			return it
		}
	}
	// What find found is below where it began, whatever filters it.
	from := inv.fr.stdin
	for len(from) == 1 && from[0] >= 0 {
		c := e.line.Commands[from[0]]
		switch c.Program {
		case "grep", "egrep", "fgrep", "sort", "head", "tail", "uniq", "shuf":
			from = c.Stdin
			continue
		case "find":
			s := parseFind(c.Args)
			var it items
			for _, w := range s.found() {
				for i := range w.parts {
					w.parts[i].from = inv.fr.stdin
				}
				it.words = append(it.words, newWord(w.Text, w.parts))
			}
			return it
		}
		break
	}
	return items{rest: newWord("", []part{{kind: Unknown, text: "<stdin>", many: true, from: inv.fr.stdin}})}
}

const xargsValues = "I L P d E s n a max-args max-procs max-lines max-chars delimiter arg-file replace eof process-slot-var"

// xargs evaluates the command that xargs composes.
func (e *evaluator) xargs(inv *invocation) (result, bool) {
	placeholder, lines := "", false
	i := 0
	for i < len(inv.args) {
		v, ok := inv.args[i].Literal()
		if !ok || len(v) < 2 || v[0] != '-' {
			break
		}
		i++
		if v == "--" {
			break
		}
		flag, kind := flagOf(v, xargsValues)
		value := valueIn2(v, flag, kind)
		switch {
		case kind == needed && flag == "replace":
			placeholder = "{}" // its value is optional, so that it is never the next word
		case kind == needed && i < len(inv.args):
			value = inv.args[i].Value
			i++
		case v == "-i" || v == "--replace":
			placeholder = "{}"
		case strings.HasPrefix(v, "-i"):
			placeholder = v[2:]
		}
		switch flag {
		case "I", "replace":
			if value != "" {
				placeholder = value
			}
			lines = true
		case "d", "delimiter", "L":
			lines = true
		}
	}
	args := inv.args[i:]
	if len(args) == 0 {
		return result{}, false
	}
	fr := inv.fr.wrapped("xargs")
	fr.external = true
	e.setInput(&fr, nil)
	return e.forItems(inv, fr, args, placeholder, e.input(inv, lines)), true
}

func valueIn2(v, flag string, kind valueKind) string {
	if kind != attached {
		return ""
	}
	return valueIn(v, flag)
}

// forItems evaluates args for items: each in the place of the placeholder, or
// all at the end.
func (e *evaluator) forItems(inv *invocation, fr frame, args []Word, placeholder string, it items) result {
	r := inv.same()
	if it.words == nil {
		it.words = []Word{it.rest}
	}
	if placeholder == "" {
		sub := e.call(append(slices.Clip(args), it.words...), inv.st, fr, inv.pos, inv.end)
		r.out = sub.out
		return r
	}
	for _, w := range it.words {
		if w.Many { // one at a time
			parts := slices.Clone(w.parts)
			for i := range parts {
				parts[i].many = false
			}
			w = newWord(w.Text, parts)
		}
		sub := e.call(e.replaced(args, placeholder, w), inv.st, fr, inv.pos, inv.end)
		r.out = union(r.out, sub.out)
		if e.stopped {
			break
		}
	}
	return r
}

const parallelValues = "j P I a n N L s S S S C d jobs arg-file colsep delimiter joblog results timeout retries sshlogin tmpdir halt delay load memfree workdir"

// parallel evaluates the command line that GNU parallel composes.
func (e *evaluator) parallel(inv *invocation) (result, bool) {
	placeholder := "{}"
	args := inv.args[skipFlags(inv.args, parallelValues):]
	for i, w := range inv.args {
		if w.Value == "-I" && i+1 < len(inv.args) && inv.args[i+1].Value != "" {
			placeholder = inv.args[i+1].Value
		}
	}
	var it items
	for i, w := range args {
		if w.Value == ":::" || w.Value == ":::+" {
			it.words = slices.DeleteFunc(slices.Clone(args[i+1:]), func(w Word) bool { return strings.HasPrefix(w.Value, ":::") })
			args = args[:i]
			break
		} else if w.Value == "::::" {
			it.rest = newWord("::::", []part{{kind: Unknown, text: "::::"}})
			args = args[:i]
			break
		}
	}
	if len(it.words) == 0 && it.rest.parts == nil {
		it = e.input(inv, true)
	}
	if len(args) == 0 || len(it.words) > maxUnrolled/4 {
		return result{}, false
	}
	text, _ := e.joined(args)
	if !strings.Contains(text, "{") {
		text += " " + placeholder
	}
	fr := inv.fr.wrapped("parallel")
	fr.external = false
	fr.level++
	e.setInput(&fr, nil)
	r := inv.same()
	if it.words == nil {
		it.words = []Word{it.rest}
	}
	for _, w := range it.words {
		line := text
		for _, p := range []string{placeholder, "{.}", "{/}", "{//}", "{/.}"} {
			line = strings.ReplaceAll(line, p, e.quotedWord(w))
		}
		sub := e.runText(line, w.From, inv.st, fr, inv)
		r.out = union(r.out, sub.out)
		if e.stopped {
			break
		}
	}
	return r, true
}
