package shell

import (
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// param returns what a parameter expansion becomes: one value, or several for
// $@ and arrays, which isList says.
func (e *evaluator) param(p *syntax.ParamExp, st state, fr frame, quoted bool) (list [][]part, isList bool) {
	if p.Param == nil || p.Names != 0 || p.Width {
		return [][]part{unknownPart(e.text(fr, p), "", nil)}, false
	}
	name := p.Param.Value
	if p.Exp != nil && p.Exp.Word != nil {
		e.embedded(p.Exp.Word, st, fr)
	}
	if p.Repl != nil {
		e.embedded(p.Repl.Orig, st, fr)
		e.embedded(p.Repl.With, st, fr)
	}
	e.arithm(p.Index, st, fr)
	if p.Slice != nil {
		e.arithm(p.Slice.Offset, st, fr)
		e.arithm(p.Slice.Length, st, fr)
	}
	simple := !p.Excl && !p.Length && p.Slice == nil && p.Repl == nil && p.Exp == nil
	if items, ok := e.listed(p, name, st); ok {
		if !simple {
			return [][]part{{{kind: Unknown, text: e.text(fr, p), many: true, from: fromAll(items)}}}, false
		}
		if subscript(p) == "*" || name == "*" {
			return [][]part{joinFields(items)}, false
		}
		return items, true
	}
	if name == "@" || name == "*" || subscript(p) == "@" || subscript(p) == "*" {
		return [][]part{{{kind: Unknown, text: e.text(fr, p), name: name, many: true}}}, false
	}
	parts := e.variable(name, p.Index, st, e.text(fr, p))
	if !simple {
		parts = e.operated(p, parts, st, fr, quoted)
	}
	return [][]part{parts}, false
}

func unknownPart(text, name string, from []int) []part {
	return []part{{kind: Unknown, text: text, name: name, from: from}}
}

func fromAll(items [][]part) []int {
	var from []int
	for _, item := range items {
		from = union(from, value{parts: item}.from())
	}
	return from
}

func joinFields(items [][]part) []part {
	var joined []part
	for i, item := range items {
		if i > 0 {
			joined = append(joined, part{text: " "})
		}
		joined = append(joined, item...)
	}
	return joined
}

func subscript(p *syntax.ParamExp) string {
	if w, ok := p.Index.(*syntax.Word); ok {
		return w.Lit()
	}
	return ""
}

// listed returns the elements of $@, $* and of whole arrays.
func (e *evaluator) listed(p *syntax.ParamExp, name string, st state) ([][]part, bool) {
	if name == "@" || name == "*" {
		return st.params, st.known
	}
	if s := subscript(p); s == "@" || s == "*" {
		if v, ok := st.lookup(name); ok && v.isArray && v.array != nil {
			return v.array, true
		}
	}
	return nil, false
}

// variable returns the value of a variable, of a positional parameter or of one
// element of an array.
func (e *evaluator) variable(name string, index syntax.ArithmExpr, st state, text string) []part {
	if n, err := strconv.Atoi(name); err == nil {
		if st.known && n >= 1 {
			if n <= len(st.params) {
				return st.params[n-1]
			}
			return nil
		}
		return unknownPart(text, name, nil)
	}
	switch name {
	case "#":
		if st.known {
			return textParts(strconv.Itoa(len(st.params)))
		}
	case "PWD":
		if len(st.dirs) == 1 && st.dirs[0] != "" {
			return textParts(st.dirs[0])
		}
	case "OLDPWD":
		if len(st.previous) == 1 && st.previous[0] != "" {
			return textParts(st.previous[0])
		}
	case "IFS":
		if _, ok := st.lookup(name); !ok {
			return textParts(" \t\n")
		}
	}
	v, ok := st.lookup(name)
	switch {
	case !ok:
		return unknownPart(text, name, nil)
	case v.isArray:
		n := 0
		if w, ok := index.(*syntax.Word); ok {
			var err error
			if n, err = strconv.Atoi(w.Lit()); err != nil {
				n = -1
			}
		} else if index != nil {
			n = -1
		}
		if n >= 0 && n < len(v.array) {
			return v.array[n]
		}
		return unknownPart(text, name, fromAll(v.array))
	case index != nil:
		return unknownPart(text, name, v.from())
	}
	return v.parts
}

// operated returns what an operator makes of a value: ${x:-y}, ${x#y},
// ${x/y/z}, ${x:1:2} and the like, where the text tells.
func (e *evaluator) operated(p *syntax.ParamExp, parts []part, st state, fr frame, quoted bool) []part {
	unknown := unknownPart(e.text(fr, p), p.Param.Value, value{parts: parts}.from())
	if p.Exp != nil && p.Exp.Op == syntax.OtherParamOps && p.Exp.Word != nil && p.Exp.Word.Lit() == "P" {
		e.expanded(parts, st, fr)
		return unknown
	}
	text, ok := exact(parts)
	if p.Exp != nil && slices.Contains([]syntax.ParExpOperator{syntax.DefaultUnsetOrNull, syntax.AssignUnsetOrNull, syntax.ErrorUnsetOrNull}, p.Exp.Op) {
		if ok && text == "" {
			return e.operand(p.Exp.Word, st, fr)
		}
		if len(parts) > 0 && parts[0].kind != Unknown || ok {
			return parts
		}
		return unknown
	}
	if !ok {
		return unknown
	}
	switch {
	case p.Length:
		return textParts(strconv.Itoa(len([]rune(text))))
	case p.Excl:
		if syntax.ValidName(text) {
			return e.variable(text, nil, st, e.text(fr, p))
		}
	case p.Slice != nil:
		if s, ok := slice(text, p.Slice); ok {
			return textParts(s)
		}
	case p.Repl != nil:
		orig, ok1 := exact(e.operand(p.Repl.Orig, st, fr))
		with, ok2 := exact(e.operand(p.Repl.With, st, fr))
		if ok1 && ok2 && orig != "" && !strings.ContainsAny(orig[:1], "#%") {
			n := 1
			if p.Repl.All {
				n = -1
			}
			return e.sized(strings.Replace(text, orig, with, n), unknown)
		}
	case p.Exp != nil:
		if s, ok := e.trimmed(text, p.Exp, st, fr); ok {
			return e.sized(s, unknown)
		}
	}
	return unknown
}

// sized returns text, unless the line makes its variables grow without bound.
func (e *evaluator) sized(text string, unknown []part) []part {
	if !e.spend(len(text)) {
		return unknown
	}
	return textParts(text)
}

// operand returns the word of an operator as if it were quoted.
func (e *evaluator) operand(w *syntax.Word, st state, fr frame) []part {
	if w == nil {
		return nil
	}
	return e.single(w, st, fr).parts
}

// exact returns the text of parts that are literal.
func exact(parts []part) (string, bool) {
	var b strings.Builder
	for _, p := range parts {
		if p.kind != Literal {
			return "", false
		}
		b.WriteString(p.text)
	}
	return b.String(), true
}

func slice(s string, sl *syntax.Slice) (string, bool) {
	runes := []rune(s)
	number := func(x syntax.ArithmExpr, missing int) (int, bool) {
		if x == nil {
			return missing, true
		}
		sign := 1
		if u, ok := x.(*syntax.UnaryArithm); ok && u.Op == syntax.Minus && !u.Post {
			sign, x = -1, u.X
		}
		w, ok := x.(*syntax.Word)
		if !ok {
			return 0, false
		}
		n, err := strconv.Atoi(strings.TrimSpace(w.Lit()))
		return sign * n, err == nil
	}
	offset, ok1 := number(sl.Offset, 0)
	if offset < 0 {
		offset += len(runes)
	}
	length, ok2 := number(sl.Length, len(runes)-offset)
	end := offset + length
	if length < 0 {
		end = len(runes) + length
	}
	if !ok1 || !ok2 || offset < 0 || end < offset {
		return "", ok1 && ok2
	}
	return string(runes[min(offset, len(runes)):min(end, len(runes))]), true
}

// trimmed returns what an operator for beginnings, ends or case leaves of s.
func (e *evaluator) trimmed(s string, x *syntax.Expansion, st state, fr frame) (string, bool) {
	switch x.Op {
	case syntax.UpperAll:
		return strings.ToUpper(s), x.Word == nil
	case syntax.LowerAll:
		return strings.ToLower(s), x.Word == nil
	case syntax.AlternateUnsetOrNull, syntax.AlternateUnset:
		alternate, ok := exact(e.operand(x.Word, st, fr))
		return alternate, ok && s != ""
	case syntax.DefaultUnset, syntax.AssignUnset, syntax.ErrorUnset:
		return s, true
	}
	arg := e.operand(x.Word, st, fr)
	if affix, ok := exact(arg); ok {
		switch x.Op {
		case syntax.RemSmallPrefix, syntax.RemLargePrefix:
			return strings.TrimPrefix(s, affix), true
		case syntax.RemSmallSuffix, syntax.RemLargeSuffix:
			return strings.TrimSuffix(s, affix), true
		}
		return "", false
	}
	// The idioms for the parts of a path: ##*/ and %/* and %.* .
	if len(arg) != 2 {
		return "", false
	}
	first, last := arg[0].text, arg[1].text
	cut := -1
	switch {
	case first == "*" && x.Op == syntax.RemLargePrefix && last != "*":
		if cut = strings.LastIndex(s, last); cut >= 0 {
			return s[cut+len(last):], true
		}
	case first == "*" && x.Op == syntax.RemSmallPrefix && last != "*":
		if _, after, ok := strings.Cut(s, last); ok {
			return after, true
		}
	case last == "*" && x.Op == syntax.RemSmallSuffix && first != "*":
		cut = strings.LastIndex(s, first)
	case last == "*" && x.Op == syntax.RemLargeSuffix && first != "*":
		cut = strings.Index(s, first)
	default:
		return "", false
	}
	if cut >= 0 {
		return s[:cut], true
	}
	return s, true
}
