package shell

import (
	"maps"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// builtins are the commands of the shell itself that matter for what follows.
var builtins map[string]func(*evaluator, *invocation) result

func init() {
	builtins = map[string]func(*evaluator, *invocation) result{
		"cd": (*evaluator).cd, "chdir": (*evaluator).cd, "pushd": (*evaluator).cd, "popd": (*evaluator).popd,
		"eval": (*evaluator).eval, "source": (*evaluator).source, ".": (*evaluator).source,
		"exec": (*evaluator).exec, "command": (*evaluator).commandBuiltin, "builtin": (*evaluator).commandBuiltin,
		"noglob": (*evaluator).commandBuiltin, "nocorrect": (*evaluator).commandBuiltin, "-": (*evaluator).commandBuiltin,
		"trap": (*evaluator).trap, "set": (*evaluator).set, "shift": (*evaluator).shift,
		"alias": (*evaluator).alias, "hash": (*evaluator).hash, "read": (*evaluator).read, "mapfile": (*evaluator).read, "readarray": (*evaluator).read,
		"unset": (*evaluator).read, "getopts": (*evaluator).read, "printf": (*evaluator).printfBuiltin,
		"export": (*evaluator).exportBuiltin, "readonly": (*evaluator).exportBuiltin,
		"exit": (*evaluator).exit, "return": (*evaluator).exit, "break": (*evaluator).exit, "continue": (*evaluator).exit,
	}
}

// operands returns what follows the flags of a builtin.
func operands(args []Word) []Word {
	for i, w := range args {
		v, ok := w.Literal()
		if v == "--" {
			return args[i+1:]
		}
		if !ok || len(v) < 2 || v[0] != '-' {
			return args[i:]
		}
	}
	return nil
}

func (e *evaluator) cd(inv *invocation) result {
	e.record(inv, inv.command())
	ops := operands(inv.args)
	var w Word
	switch {
	case inv.fr.external:
		return inv.same()
	case len(ops) == 0:
		w = newWord("~", inv.st.home())
	case ops[0].Value == "-":
		ok := inv.st
		ok.dirs, ok.previous = inv.st.previous, inv.st.dirs
		if len(ok.dirs) == 0 {
			ok.dirs = []string{""}
		}
		return result{ok: ok, fail: inv.st}
	default:
		w = ops[0]
	}
	var follow func(string) (string, bool)
	if inv.st.physical || slices.ContainsFunc(inv.args[:len(inv.args)-len(ops)], func(w Word) bool { return strings.Contains(w.Value, "P") }) {
		follow = e.line.Follow
	}
	ok, fail := inv.st.cd(w, follow)
	if inv.program == "pushd" {
		ok.pushed = inv.st.dirs
	}
	return result{ok: ok, fail: fail}
}

func (e *evaluator) popd(inv *invocation) result {
	e.record(inv, inv.command())
	ok := inv.st
	ok.dirs, ok.pushed = inv.st.pushed, nil
	if len(ok.dirs) == 0 {
		ok.dirs = []string{""}
	}
	return result{ok: ok, fail: inv.st}
}

func (e *evaluator) eval(inv *invocation) result {
	args := inv.args
	if len(args) > 0 && args[0].Value == "--" {
		args = args[1:]
	}
	text, _ := e.joined(args)
	return e.runText(text, fromWords(args), inv.st, inv.fr.wrapped("eval"), inv)
}

func (e *evaluator) source(inv *invocation) result {
	c := inv.command()
	ops := operands(inv.args)
	if len(ops) == 0 {
		e.record(inv, c)
		return inv.same()
	}
	c.Script = &ops[0]
	i := e.record(inv, c)
	st := inv.st
	if len(ops) > 1 {
		st.params, st.known = paramsOf(ops[1:])
	}
	r := e.runScript(ops[0], i, Sourced, st, inv.fr.wrapped(inv.program), inv)
	for _, s := range []*state{&r.ok, &r.fail} {
		s.params, s.known = inv.st.params, inv.st.known
	}
	return r
}

func (e *evaluator) exec(inv *invocation) result {
	args := inv.args
	for len(args) > 0 {
		v := args[0].Value
		if v == "-a" {
			args = args[min(2, len(args)):]
		} else if v == "--" || v == "-c" || v == "-l" || v == "-cl" || v == "-lc" {
			args = args[1:]
		} else {
			break
		}
	}
	if len(args) == 0 {
		e.record(inv, inv.command())
		return inv.same()
	}
	fr := inv.fr.wrapped("exec")
	fr.external = true
	return e.call(args, inv.st, fr, inv.pos, inv.end)
}

// commandBuiltin evaluates command and builtin, for which functions and aliases
// do not count.
func (e *evaluator) commandBuiltin(inv *invocation) result {
	args := inv.args
	for len(args) > 0 {
		v, ok := args[0].Literal()
		if !ok || len(v) < 2 || v[0] != '-' {
			break
		}
		if strings.ContainsAny(v, "vV") && v != "--" {
			return e.plain(inv)
		}
		args = args[1:]
	}
	if len(args) == 0 {
		return e.plain(inv)
	}
	if name, ok := args[0].Literal(); ok {
		if run, ok := builtins[name]; ok {
			return run(e, &invocation{name, args[1:], inv.st, inv.fr.wrapped(inv.program), inv.pos, inv.end, args[0]})
		}
	}
	fr := inv.fr.wrapped(inv.program)
	fr.external = true
	return e.call(args, inv.st, fr, inv.pos, inv.end)
}

func (e *evaluator) trap(inv *invocation) result {
	ops := operands(inv.args)
	e.record(inv, inv.command())
	if len(ops) > 1 && ops[0].Value != "-" {
		text, _ := e.joined(ops[:1])
		e.runText(text, ops[0].From, inv.st, inv.fr.wrapped("trap"), inv)
	}
	return inv.same()
}

func (e *evaluator) set(inv *invocation) result {
	e.record(inv, inv.command())
	st := inv.st
	args := inv.args
	for i, w := range args {
		v := w.Value
		switch {
		case v == "--":
			st.params, st.known = paramsOf(args[i+1:])
			return result{ok: st, fail: st}
		case w.Kind == Literal && len(v) > 1 && v[0] == '-':
			st.errexit = st.errexit || strings.Contains(v, "e") && v != "-o"
			st.physical = st.physical || strings.Contains(v, "P")
		case w.Kind == Literal && len(v) > 1 && v[0] == '+':
			st.errexit = st.errexit && !strings.Contains(v, "e")
		case i > 0 && strings.HasSuffix(args[i-1].Value, "o"):
			st.errexit = st.errexit || v == "errexit"
			st.physical = st.physical || v == "physical"
		default:
			st.params, st.known = paramsOf(args[i:])
			return result{ok: st, fail: st}
		}
	}
	return result{ok: st, fail: st}
}

func (e *evaluator) shift(inv *invocation) result {
	st := inv.st
	switch {
	case len(inv.args) > 0:
		st.params, st.known = nil, false
	case len(st.params) > 0:
		st.params = st.params[1:]
	}
	e.record(inv, inv.command())
	return result{ok: st, fail: st}
}

func (e *evaluator) alias(inv *invocation) result {
	e.record(inv, inv.command())
	added := map[string]string{}
	for _, w := range inv.args {
		text, _ := e.joined([]Word{w})
		if name, body, ok := strings.Cut(text, "="); ok {
			added[name] = body
		}
	}
	st := e.withAliases(inv.st, added)
	return result{ok: st, fail: st}
}

// withAliases returns st in which further words stand for texts.
func (e *evaluator) withAliases(st state, added map[string]string) state {
	if len(st.aliases)+len(added) > maxFields {
		e.stop("too many aliases")
		return st
	}
	all := maps.Clone(st.aliases)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, added)
	st.aliases = all
	return st
}

// hash evaluates hash -p FILE NAME, after which the name runs the file.
func (e *evaluator) hash(inv *invocation) result {
	r := e.plain(inv)
	for i, w := range inv.args {
		if v, _ := w.Literal(); len(v) < 2 || v[0] != '-' {
			continue
		}
		flag, kind := flagOf(w.Value, "p")
		if kind == none {
			continue
		}
		file, added := e.quotedWord(valueOf(inv.args, i, flag, kind)), map[string]string{}
		names := inv.args[i+1:]
		if kind == needed {
			names = names[min(1, len(names)):]
		}
		for _, name := range names {
			added[name.Value] = file
		}
		st := e.withAliases(inv.st, added)
		r.ok, r.fail = st, st
	}
	return r
}

// read makes the variables unknown that a command sets.
func (e *evaluator) read(inv *invocation) result {
	e.codeFlags(inv)
	i := e.record(inv, inv.command())
	st := inv.st
	if i < 0 {
		return inv.same()
	}
	names := []string{"REPLY", "MAPFILE", "OPTARG"}
	for _, w := range inv.args {
		v, ok := w.Literal()
		if ok && syntax.ValidName(v) {
			names = append(names, v)
		}
		if inv.program == "unset" && len(e.named[v]) > 0 {
			st = e.bind(st, v+"()", unknownValue(v, nil))
		}
	}
	for _, name := range names {
		v := unknownValue("$"+name, inv.fr.stdin)
		if found := e.foundBy(inv.fr.stdin); len(found) == 1 && inv.program == "read" {
			v.parts = found[0].parts
		}
		st = e.bind(st, name, v)
	}
	return result{ok: st, fail: st}
}

func (e *evaluator) printfBuiltin(inv *invocation) result {
	r := e.plain(inv)
	if len(inv.args) > 1 && inv.args[0].Value == "-v" {
		if name := inv.args[1].Value; syntax.ValidName(name) {
			v := unknownValue("$"+name, fromWords(inv.args))
			if text := e.printf(inv.args[2:]); text != nil {
				v = value{parts: e.fill(*text)}
			}
			st := e.bind(inv.st, name, v)
			r.ok, r.fail = st, st
		}
	}
	return r
}

// exportBuiltin evaluates assignments that the parser did not take as such.
func (e *evaluator) exportBuiltin(inv *invocation) result {
	st := inv.st
	for _, w := range inv.args {
		if name, parts, ok := cutAssign(w); ok {
			st = e.bind(st, name, value{parts: parts})
		}
	}
	e.record(inv, inv.command())
	return result{ok: st, fail: st}
}

// cutAssign splits a word NAME=VALUE.
func cutAssign(w Word) (name string, parts []part, ok bool) {
	if len(w.parts) == 0 || w.parts[0].kind != Literal {
		return "", nil, false
	}
	// Neighbouring literals may have been split by quotes.
	head := ""
	for i, p := range w.parts {
		if p.kind != Literal {
			return "", nil, false
		}
		head += p.text
		name, rest, found := strings.Cut(head, "=")
		if !found {
			continue
		}
		if !syntax.ValidName(name) {
			return "", nil, false
		}
		return name, append(textParts(rest), slices.Clone(w.parts[i+1:])...), true
	}
	return "", nil, false
}

func (e *evaluator) exit(inv *invocation) result {
	e.record(inv, inv.command())
	st := inv.st
	st.dead = true
	return result{ok: st, fail: st}
}
