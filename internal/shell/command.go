package shell

import (
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// command evaluates what a statement consists of.
func (e *evaluator) command(cmd syntax.Command, st state, fr frame) result {
	same := result{ok: st, fail: st}
	switch c := cmd.(type) {
	case *syntax.CallExpr:
		return e.simple(c, st, fr)
	case *syntax.BinaryCmd:
		return e.binary(c, st, fr)
	case *syntax.Block:
		return e.statements(c.Stmts, st, fr)
	case *syntax.Subshell:
		return e.subshell(c.Stmts, st, fr)
	case *syntax.IfClause:
		return e.ifClause(c, st, fr)
	case *syntax.WhileClause:
		return e.while(c, st, fr)
	case *syntax.ForClause:
		return e.forClause(c, st, fr)
	case *syntax.CaseClause:
		return e.caseClause(c, st, fr)
	case *syntax.FuncDecl:
		return e.define(c, st, fr)
	case *syntax.DeclClause:
		return e.declare(c, st, fr)
	case *syntax.TimeClause:
		if c.Stmt != nil {
			return e.statement(c.Stmt, st, fr)
		}
	case *syntax.CoprocClause:
		fr.background = true
		e.statement(c.Stmt, st, fr)
	case *syntax.ArithmCmd:
		e.arithm(c.X, st, fr)
		return e.assigned(c, st)
	case *syntax.LetClause:
		e.numbers(c, st, fr)
		return e.assigned(c, st)
	case *syntax.TestClause:
		e.numbers(c, st, fr)
	}
	return same
}

// define evaluates a declaration. Which function a name calls is part of the
// state, as the value of a variable that no line can name.
func (e *evaluator) define(c *syntax.FuncDecl, st state, fr frame) result {
	if c.Name == nil {
		return result{ok: st, fail: st}
	}
	if len(e.funcs) >= maxBindings {
		e.stop("too many functions")
		return result{ok: st, fail: st}
	}
	name := c.Name.Value
	fn := &function{body: c.Body, src: fr.src, pos: fr.pos, end: fr.end, level: fr.level, returns: jumps(c.Body)}
	e.funcs = append(e.funcs, fn)
	e.named[name] = append(e.named[name], fn)
	st = e.bind(st, name+"()", literalValue(strconv.Itoa(len(e.funcs)-1)))
	if name == "command_not_found_handle" || name == "command_not_found_handler" {
		pos, end := fr.span(c)
		e.callFunction(name, fn, nil, st, fr, pos, end)
	}
	return result{ok: st, fail: st}
}

// function returns the function that a name calls, and whether that is certain:
// it may be declared in one branch only, or not for this shell.
func (e *evaluator) function(name string, st state, fr frame) (fns []*function, certain bool) {
	fns = e.named[name]
	if len(fns) == 0 {
		return nil, false
	}
	v, ok := st.lookup(name + "()")
	if text, known := exact(v.parts); ok && known {
		n, _ := strconv.Atoi(text) // written by define
		return e.funcs[n : n+1], e.funcs[n].level == fr.level
	}
	return fns, false
}

// assigned returns st without what arithmetic below n may have changed.
func (e *evaluator) assigned(n syntax.Node, st state) result {
	st = e.forget(n, st)
	return result{ok: st, fail: st}
}

// forget returns st with every variable unknown to which something below n may
// assign, and the directory if it may change.
func (e *evaluator) forget(n syntax.Node, st state) state {
	names := map[string]bool{}
	moves := false
	syntax.Walk(n, func(n syntax.Node) bool {
		e.visited++
		switch n := n.(type) {
		case *syntax.Assign:
			if n.Name != nil {
				names[n.Name.Value] = true
			}
		case *syntax.WordIter:
			names[n.Name.Value] = true
		case *syntax.BinaryArithm:
			if w, ok := n.X.(*syntax.Word); ok && syntax.ValidName(w.Lit()) {
				names[w.Lit()] = true
			}
		case *syntax.UnaryArithm:
			if w, ok := n.X.(*syntax.Word); ok && syntax.ValidName(w.Lit()) {
				names[w.Lit()] = true
			}
		case *syntax.CallExpr:
			if len(n.Args) > 0 {
				switch n.Args[0].Lit() {
				case "cd", "pushd", "popd":
					moves = true
				case "read", "mapfile", "readarray", "getopts", "unset", "printf", "eval", "source", ".":
					for _, w := range n.Args[1:] {
						names[w.Lit()] = syntax.ValidName(w.Lit())
					}
				}
			}
		}
		return true
	})
	e.steps += e.visited / 64
	e.visited %= 64
	for _, name := range sortedNames(names) {
		if v, ok := st.lookup(name); ok {
			st = e.bind(st, name, unknownValue("$"+name, v.from()))
		}
	}
	if moves && !slices.Contains(st.dirs, "") {
		st.dirs = append(slices.Clip(st.dirs), "")
	}
	return st
}

func sortedNames(names map[string]bool) []string {
	var out []string
	for name, ok := range names {
		if ok {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func (e *evaluator) bind(st state, name string, v value) state {
	st = st.bind(name, v)
	if st.vars.depth > maxBindings {
		e.stop("too many variables")
	}
	return st
}

// binary evaluates a chain of && and ||, or a pipeline. Chains lean to the left
// and can be long.
func (e *evaluator) binary(c *syntax.BinaryCmd, st state, fr frame) result {
	var chain []*syntax.BinaryCmd
	first := c.X
	for chain = append(chain, c); ; {
		b, ok := first.Cmd.(*syntax.BinaryCmd)
		if !ok || isPipe(b.Op) != isPipe(c.Op) || first.Negated || first.Background || len(first.Redirs) > 0 {
			break
		}
		chain = append(chain, b)
		first = b.X
	}
	if isPipe(c.Op) {
		return e.pipeline(first, chain, st, fr)
	}
	r := e.statement(first, st, fr)
	for _, b := range slices.Backward(chain) {
		if e.stopped {
			return r
		}
		out := r.out
		if b.Op == syntax.AndStmt {
			next := e.statement(b.Y, live(r.ok, st), fr)
			r = result{ok: next.ok, fail: join(r.fail, next.fail), out: union(out, next.out)}
		} else {
			next := e.statement(b.Y, live(r.fail, st), fr)
			r = result{ok: join(r.ok, next.ok), fail: next.fail, out: union(out, next.out)}
		}
	}
	return r
}

// live returns s, or what there was before if the shell has exited.
func live(s, before state) state {
	if s.dead {
		return before
	}
	return s
}

func isPipe(op syntax.BinCmdOperator) bool { return op == syntax.Pipe || op == syntax.PipeAll }

func (e *evaluator) pipeline(first *syntax.Stmt, chain []*syntax.BinaryCmd, st state, fr frame) result {
	r := e.statement(first, st, fr)
	for _, b := range slices.Backward(chain) {
		if e.stopped {
			break
		}
		sub := fr
		sub.stdin = r.out
		e.setInput(&sub, r.text)
		r = e.statement(b.Y, st, sub)
	}
	// Each part ran in a subshell, but what the last one reads some shells keep.
	after := e.forget(chain[0].Y, st)
	return result{ok: after, fail: after, out: r.out, text: r.text}
}

func (e *evaluator) ifClause(c *syntax.IfClause, st state, fr frame) result {
	if !e.enter() {
		return result{ok: st, fail: st}
	}
	defer e.leave()
	cond := result{ok: st, fail: st}
	if len(c.Cond) > 0 {
		cond = e.statements(c.Cond, st, fr)
	}
	then := e.statements(c.Then, live(cond.ok, st), fr)
	if c.Else == nil {
		if len(c.Cond) == 0 { // else
			return then
		}
		return result{ok: join(then.ok, live(cond.fail, st)), fail: then.fail, out: then.out}
	}
	other := e.ifClause(c.Else, live(cond.fail, st), fr)
	return result{ok: join(then.ok, other.ok), fail: join(then.fail, other.fail), out: union(then.out, other.out)}
}

func (e *evaluator) while(c *syntax.WhileClause, st state, fr frame) result {
	start := e.forget(c, st)
	cond := e.statements(c.Cond, start, fr)
	body := e.statements(c.Do, join(cond.ok, cond.fail), fr)
	after := join(join(start, body.ok), body.fail)
	return result{ok: after, fail: after, out: union(cond.out, body.out)}
}

func (e *evaluator) caseClause(c *syntax.CaseClause, st state, fr frame) result {
	e.embedded(c.Word, st, fr)
	r := result{ok: st, fail: st}
	for _, item := range c.Items {
		for _, p := range item.Patterns {
			e.embedded(p, st, fr)
		}
		arm := e.statements(item.Stmts, st, fr)
		r = result{ok: join(r.ok, arm.ok), fail: join(r.fail, arm.fail), out: union(r.out, arm.out)}
		if e.stopped {
			break
		}
	}
	return r
}

// forClause evaluates the body once for each item if they are known, and else
// once with an unknown item.
func (e *evaluator) forClause(c *syntax.ForClause, st state, fr frame) result {
	iter, ok := c.Loop.(*syntax.WordIter)
	if !ok {
		e.substitutions(c.Loop, st, fr)
		start := e.forget(c, st)
		body := e.statements(c.Do, start, fr)
		after := join(join(start, body.ok), body.fail)
		return result{ok: after, fail: after, out: body.out}
	}
	items := e.words(iter.Items, st, fr)
	if !iter.InPos.IsValid() {
		items = nil
		for _, p := range st.params {
			items = append(items, newWord("$@", p))
		}
		if !st.known {
			items = []Word{newWord("$@", []part{{kind: Unknown, text: "$@", many: true}})}
		}
	}
	known := !c.Select && !slices.ContainsFunc(items, func(w Word) bool { return w.Many })
	if e.unrolled += len(items); !known || e.unrolled > maxUnrolled {
		var from []int
		for _, w := range items {
			from = union(from, w.From)
		}
		start := e.bind(e.forget(c, st), iter.Name.Value, unknownValue("$"+iter.Name.Value, from))
		body := e.statements(c.Do, start, fr)
		after := join(join(start, body.ok), body.fail)
		return result{ok: after, fail: after, out: body.out}
	}
	r := result{ok: st, fail: st}
	for _, w := range items {
		if e.stopped {
			break
		}
		start := e.bind(live(join(r.ok, r.fail), st), iter.Name.Value, value{parts: w.parts})
		turn := e.statements(c.Do, start, fr)
		turn.out = union(r.out, turn.out)
		turn.text = nil
		r = turn
	}
	if len(items) > 0 && jumps(c) {
		after := e.forget(c, live(join(r.ok, r.fail), st))
		r.ok, r.fail = after, after
	}
	return r
}

// jumps reports whether something below n may leave it early, so that what it
// assigned before counts.
func jumps(n syntax.Node) bool {
	found := false
	syntax.Walk(n, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.CallExpr); ok && len(c.Args) > 0 {
			switch c.Args[0].Lit() {
			case "break", "continue", "return":
				found = true
			}
		}
		return !found
	})
	return found
}

// declare evaluates export, local, declare and their like.
func (e *evaluator) declare(c *syntax.DeclClause, st state, fr frame) result {
	r := result{ok: st, fail: st}
	var env []Assign
	exports := c.Variant.Value == "export"
	for _, a := range c.Args {
		if a.Name == nil || a.Naked {
			if a.Value != nil {
				e.subscripts(e.single(a.Value, st, fr).parts, st, fr)
			}
			if a.Name != nil {
				if v, ok := st.lookup(a.Name.Value); ok && exports && !v.isArray {
					env = append(env, Assign{a.Name.Value, newWord(a.Name.Value, v.parts)})
				}
			} else if a.Value != nil { // declare -x
				flags := a.Value.Lit()
				exports = exports || strings.HasPrefix(flags, "-") && strings.Contains(flags, "x")
			}
			if a.Name != nil && fr.locals != nil && c.Variant.Value != "export" && c.Variant.Value != "readonly" {
				r.ok = e.local(a.Name.Value, r.ok, fr)
			}
			continue
		}
		if fr.locals != nil && c.Variant.Value != "export" && c.Variant.Value != "readonly" {
			r.ok = e.local(a.Name.Value, r.ok, fr)
		}
		r.ok = e.assign(a, r.ok, fr)
		if v, ok := r.ok.lookup(a.Name.Value); ok && !v.isArray && exports {
			env = append(env, Assign{a.Name.Value, newWord(e.text(fr, a), v.parts)})
		}
	}
	if len(fr.redirects) > 0 || len(env) > 0 {
		i := e.emit(Command{Program: c.Variant.Value, Name: literalWord(c.Variant.Value), Redirects: fr.redirects, Env: env}, st, fr, c)
		for _, v := range env {
			e.codeVariable(v.Name, v.Value, r.ok, fr, &invocation{program: "export", pos: e.line.Commands[max(i, 0)].Pos, end: e.line.Commands[max(i, 0)].End})
		}
	}
	r.fail = r.ok
	return r
}

// local remembers the value that a variable has outside of the function.
func (e *evaluator) local(name string, st state, fr frame) state {
	v, ok := st.lookup(name)
	if !ok {
		v = unknownValue("$"+name, nil)
	}
	*fr.locals = append(*fr.locals, &binding{name: name, value: v})
	return st
}

// assign returns st with the assignment a.
func (e *evaluator) assign(a *syntax.Assign, st state, fr frame) state {
	name := a.Name.Value
	old, had := st.lookup(name)
	switch {
	case a.Array != nil:
		v := value{isArray: true}
		if a.Append {
			v.array = slices.Clip(old.array)
		}
		plain := true
		for _, elem := range a.Array.Elems {
			e.arithm(elem.Index, st, fr)
			plain = plain && elem.Index == nil
			if elem.Value == nil {
				continue
			}
			if elem.Index != nil {
				st = e.element(name, elem.Index, elem.Value, st, fr)
			}
			for _, w := range e.word(elem.Value, st, fr) {
				plain = plain && !w.Many
				v.array = append(v.array, w.parts)
			}
		}
		if !plain || a.Append && !old.isArray || len(v.array) > maxFields {
			v = value{isArray: true, array: nil}
		}
		return e.bind(st, name, v)
	case a.Index != nil:
		e.arithm(a.Index, st, fr)
		e.embedded(a.Value, st, fr)
		return e.bind(e.element(name, a.Index, a.Value, st, fr), name, value{isArray: true})
	}
	var parts []part
	if a.Value != nil {
		parts = e.single(a.Value, st, fr).parts
	}
	if a.Append {
		if old.isArray || !had {
			return e.bind(st, name, unknownValue("$"+name, old.from()))
		}
		if !e.spend(size(old.parts)) || len(old.parts) > maxFields {
			return st
		}
		parts = append(slices.Clip(old.parts), parts...)
	}
	e.bound(name, parts, st, fr)
	return e.bind(st, name, value{parts: parts})
}

// element returns st with what an element of an array is to bash: of two it is an alias, or the file
// that a name runs.
func (e *evaluator) element(array string, index syntax.ArithmExpr, assigned *syntax.Word, st state, fr frame) state {
	word, ok := index.(*syntax.Word)
	if !ok || assigned == nil || array != "BASH_ALIASES" && array != "BASH_CMDS" {
		return st
	}
	text := e.single(assigned, st, fr)
	body, _ := e.joined([]Word{text})
	if array == "BASH_CMDS" {
		body = e.quotedWord(text)
	}
	name := e.single(word, st, fr)
	return e.withAliases(st, map[string]string{name.Value: body})
}

// simple evaluates a simple command.
func (e *evaluator) simple(c *syntax.CallExpr, st state, fr frame) result {
	args := e.words(c.Args, st, fr)
	if len(args) == 0 {
		after := st
		for _, a := range c.Assigns {
			after = e.assign(a, after, fr)
			if v, ok := after.lookup(a.Name.Value); ok && !v.isArray {
				pos, end := fr.span(c)
				e.codeVariable(a.Name.Value, newWord(e.text(fr, a), v.parts), after, fr, &invocation{program: "export", pos: pos, end: end})
			}
		}
		if len(fr.redirects) > 0 {
			e.emit(Command{Redirects: fr.redirects}, st, fr, c)
		}
		return result{ok: after, fail: after}
	}
	fr.env = nil
	for _, a := range c.Assigns {
		if a.Value == nil {
			continue
		}
		v := Assign{a.Name.Value, e.single(a.Value, st, fr)}
		e.bound(v.Name, v.Value.parts, st, fr)
		fr.env = append(fr.env, v)
	}
	pos, end := fr.span(c)
	if e.stopped {
		return result{ok: st, fail: st}
	}
	return e.call(args, st, fr, pos, end)
}

// emit adds a command.
func (e *evaluator) emit(c Command, st state, fr frame, at syntax.Node) int {
	pos, end := fr.span(at)
	return e.add(c, st, fr, pos, end)
}

// add adds a command at [pos, end) of the line, and returns its index, or -1 if
// there are too many.
func (e *evaluator) add(c Command, st state, fr frame, pos, end int) int {
	if len(e.line.Commands) >= maxCommands {
		e.stop("too many commands")
		return -1
	}
	c.Env = append(c.Env, fr.env...)
	if c.Redirects == nil {
		c.Redirects = fr.redirects
	}
	c.Dirs, c.Wrappers = st.dirs, fr.wrappers
	if c.Stdin == nil {
		c.Stdin = fr.stdin
	}
	c.Input = fr.inputWord
	c.Remote, c.Privileged, c.Background = fr.remote, fr.privileged, fr.background
	c.Pos, c.End = min(pos, len(e.line.Text)), min(end, len(e.line.Text))
	e.line.Commands = append(e.line.Commands, c)
	return len(e.line.Commands) - 1
}

// base returns the last element of a program's path.
func base(name string) string {
	if i := strings.LastIndexByte(name, '/'); i >= 0 && i+1 < len(name) {
		name = name[i+1:]
	}
	return strings.TrimPrefix(strings.TrimSuffix(name, ".exe"), "=") // =rm is zsh's for the path of rm
}
