package shell

import (
	"slices"
	"strconv"
	"strings"
)

// find evaluates find, and the commands that it runs.
func (e *evaluator) find(inv *invocation) result {
	if strings.HasPrefix(inv.program, "fd") {
		return e.fd(inv)
	}
	s := ParseFind(inv.args)
	r := e.plain(inv)
	for _, run := range s.runs {
		fr := inv.fr.wrapped("find")
		fr.external = true
		fr.redirects = nil
		for _, word := range s.Found() {
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
	if found := e.foundBy(inv.fr.stdin); len(found) > 0 {
		return items{words: found}
	}
	return items{rest: newWord("", []part{{kind: Unknown, text: "<stdin>", many: true, from: inv.fr.stdin}})}
}

const xargsValues = "I L P d E s n a max-args max-procs max-lines max-chars delimiter arg-file replace eof process-slot-var"

// xargs evaluates the command that xargs composes.
func (e *evaluator) xargs(inv *invocation) (result, bool) {
	placeholder, lines, each := "", false, 0
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
		value := attachedValue(v, flag, kind)
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
		case "d", "delimiter", "L", "max-lines":
			lines = true
			each = max(each, 1)
		case "n", "max-args":
			each, _ = strconv.Atoi(value)
		}
	}
	args := inv.args[i:]
	if len(args) == 0 {
		return result{}, false
	}
	fr := inv.fr.wrapped("xargs")
	fr.external = true
	e.setInput(&fr, nil)
	it := e.input(inv, lines)
	if each <= 0 || placeholder != "" || len(it.words) <= each {
		return e.forItems(inv, fr, args, placeholder, it), true
	}
	r := inv.same()
	for chunk := range slices.Chunk(it.words, each) {
		sub := e.forItems(inv, fr, args, "", items{words: chunk})
		r.out = union(r.out, sub.out)
	}
	return r, true
}

// attachedValue returns the value of flag if v has it.
func attachedValue(v, flag string, kind valueKind) string {
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
	if len(it.words) > maxUnrolled/4 {
		it.words, it.rest = nil, newWord(":::", []part{{kind: Unknown, text: ":::"}})
	}
	text, _ := e.joined(args)
	if len(args) == 0 { // each item is a command
		if it.words == nil {
			return e.runStdin(inv, inv.st, e.inner(inv, "parallel")), true
		}
		text = "eval " + placeholder
	} else if !strings.Contains(text, "{") {
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
