package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Some text is expanded once more than the line shows: what is in a subscript when
// arithmetic comes to it, prompts, and values that ${x@P} treats as prompts. A
// substitution in it runs, though it stood between single quotes.

// expandedVariables are variables whose values shells expand as they do prompts.
const expandedVariables = "PS0 PS1 PS2 PS3 PS4 BASH_ENV ENV PROMPT RPROMPT"

// arithmeticBuiltins take the name of a variable, which can have a subscript, or
// numbers, which are arithmetic.
const arithmeticBuiltins = "test [ let printf read unset declare typeset local export readonly wait getopts mapfile readarray exit return shift break continue"

// expanded runs the substitutions of a text that is expanded once more.
func (e *evaluator) expanded(parts []part, st state, fr frame) {
	text := e.composed(parts)
	if !strings.Contains(text, "$(") && !strings.Contains(text, "`") || !e.enter() {
		return
	}
	defer e.leave()
	if !e.spend(len(text)) || parsable(text) != nil {
		return
	}
	word, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Document(strings.NewReader(text))
	if err != nil || word == nil {
		e.opaque(Opaque{Reason: Eval, Detail: e.shown(text), Command: -1, Pos: max(fr.pos, 0), Remote: fr.remote})
		return
	}
	if fr.pos < 0 {
		fr.pos, fr.end = 0, len(e.line.Text) // it stands somewhere in the line
	}
	fr.src, fr.redirects = text, nil
	e.substitutions(word, st, fr)
}

// subscripts runs what arithmetic would run of a text.
func (e *evaluator) subscripts(parts []part, st state, fr frame) {
	for i, p := range parts {
		if strings.Contains(p.text, "[") && p.kind != Unknown {
			e.expanded(parts[i:], st, fr)
			return
		}
	}
}

// arithmeticWords runs what a builtin that takes names or numbers would run of its words and of
// its input.
func (e *evaluator) arithmeticWords(name string, words []Word, st state, fr frame) {
	if !hasFlag(arithmeticBuiltins, name) {
		return
	}
	for _, w := range words {
		e.subscripts(w.parts, st, fr)
	}
	if fr.input != nil {
		e.subscripts(e.fill(*fr.input), st, fr)
	}
}

// numbers runs the substitutions below an arithmetic node, or a test, and those of the
// texts in it.
func (e *evaluator) numbers(node syntax.Node, st state, fr frame) {
	e.substitutions(node, st, fr)
	syntax.Walk(node, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.SglQuoted:
			e.expanded(e.fill(n.Value), st, fr)
		case *syntax.ParamExp:
			if n.Param != nil {
				e.subscripts(e.variable(n.Param.Value, nil, st, ""), st, fr)
			}
		case *syntax.CmdSubst, *syntax.ProcSubst:
			return false
		}
		return !e.stopped
	})
}

// bound runs what a shell will run of a value that a variable is given.
func (e *evaluator) bound(name string, parts []part, st state, fr frame) {
	if hasFlag(expandedVariables, name) {
		e.expanded(parts, st, fr)
	} else {
		e.subscripts(parts, st, fr)
	}
}
