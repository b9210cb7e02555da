package shell

import (
	"encoding/base64"
	"maps"
	"slices"
	"strings"
)

// call evaluates a command of known and unknown words, which stands at
// [pos, end) of the line.
func (e *evaluator) call(args []Word, st state, fr frame, pos, end int) result {
	same := result{ok: st, fail: st}
	if len(args) == 0 || !e.enter() {
		return same
	}
	defer e.leave()
	if !e.step() {
		return same
	}
	name, known := args[0].Literal()
	if w := args[0]; w.Kind == Unknown && strings.Contains(w.Suffix, "/") && base(w.Suffix) != "" {
		name, known = w.Suffix, true // $dir/bin/python
		fr.external = true
	}
	if w := args[0]; w.Kind == Pattern && strings.Contains(w.Value, "/") {
		if last := base(w.Value); !strings.ContainsAny(last, `*?[\\`) {
			name, known = last, true // /???/rm
		}
	}
	if w := args[0]; !known && w.Kind == Unknown && w.Suffix == "" && (w.Var == "SHELL" || w.Var == "BASH") {
		name, known = "sh", true
		fr.external = true
	}
	if !known {
		return e.unknownCommand(args, st, fr, pos, end)
	}
	if e.decodes(args[0].From) {
		e.opaque(Opaque{Reason: Decoded, Detail: args[0].Text, From: args[0].From, Command: len(e.line.Commands), Pos: pos, Remote: fr.remote})
	}
	if !fr.external {
		if fns, certain := e.function(name, st, fr); certain {
			return e.callFunction(name, fns[0], args[1:], st, fr, pos, end)
		} else {
			for _, fn := range fns {
				e.callFunction(name, fn, args[1:], st, fr, pos, end)
			}
		}
		if text, ok := st.aliases[name]; ok {
			e.callAlias(name, text, args[1:], st, fr, pos, end)
		}
	}
	e.arithmeticWords(name, args[1:], st, fr)
	if run, ok := builtins[name]; ok && (!fr.external || name == "command" || name == "exec" || name == "cd") {
		return run(e, &invocation{name, args[1:], st, fr, pos, end, args[0]})
	}
	inv := &invocation{base(name), args[1:], st, fr, pos, end, args[0]}
	if sub, ok := strings.CutPrefix(inv.program, "git-"); ok { // of git --exec-path
		inv.program, inv.args = "git", append([]Word{literalWord(sub)}, inv.args...)
	}
	if isShell[inv.program] {
		return e.runShell(inv)
	}
	if r, ok := e.peel(inv); ok {
		return r
	}
	return e.plain(inv)
}

// invocation is a command whose name is known.
type invocation struct {
	program  string
	args     []Word
	st       state
	fr       frame
	pos, end int
	name     Word
}

func (inv *invocation) same() result { return result{ok: inv.st, fail: inv.st} }

// command returns what is recorded of inv.
func (inv *invocation) command() Command {
	return Command{Program: inv.program, Name: inv.name, Args: inv.args}
}

func (e *evaluator) record(inv *invocation, c Command) int {
	return e.add(c, inv.st, inv.fr, inv.pos, inv.end)
}

// plain records a command that runs no other.
func (e *evaluator) plain(inv *invocation) result {
	for _, v := range inv.fr.env {
		e.codeVariable(v.Name, v.Value, inv.st, inv.fr, inv)
	}
	c := inv.command()
	e.interpret(inv, &c)
	text := e.output(inv)
	if len(inv.args) == 2 && (inv.program == "cp" || inv.program == "mv") && len(inv.st.dirs) == 1 {
		name := written(inv.st.dirs[0], inv.args[1])
		if text, ok := e.written(inv.args[0], inv.st); ok && name != "" {
			e.files[name] = text
		}
	}
	i := e.record(inv, c)
	r := inv.same()
	if i >= 0 {
		r.out = []int{i}
	}
	r.text = text
	if text != nil {
		e.saveTee(inv, *text)
	}
	return r
}

// codeVariables are variables whose value other programs run as a command line.
const codeVariables = "GIT_SSH_COMMAND GIT_SSH GIT_PAGER GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_EXTERNAL_DIFF GIT_ASKPASS SSH_ASKPASS GIT_PROXY_COMMAND PAGER MANPAGER " +
	"EDITOR VISUAL FCEDIT SUDO_EDITOR BROWSER PROMPT_COMMAND RSYNC_RSH LESSOPEN LESSCLOSE FZF_DEFAULT_COMMAND"

// codeVariable evaluates the value of a variable that is run by some program.
func (e *evaluator) codeVariable(name string, w Word, st state, fr frame, inv *invocation) {
	function := strings.HasPrefix(name, "BASH_FUNC_")
	if !hasFlag(codeVariables, name) && !function || w.Kind == Unknown && w.Prefix == "" || slices.Contains(fr.wrappers, name) {
		return
	}
	sub := *inv
	sub.st, sub.fr = st, fr
	sub.fr.env = nil
	text := strings.TrimLeft(e.composed(w.parts), "|")
	if function {
		text = "f" + text + "; f"
	}
	e.runText(text, w.From, st, e.inner(&sub, name), &sub)
}

// saveTee remembers the files that tee wrote.
func (e *evaluator) saveTee(inv *invocation, text string) {
	if inv.program != "tee" || len(inv.st.dirs) != 1 {
		return
	}
	for _, w := range inv.args {
		if name := written(inv.st.dirs[0], w); name != "" && len(e.files) < maxFields {
			e.files[name] = text
		}
	}
}

func (e *evaluator) unknownCommand(args []Word, st state, fr frame, pos, end int) result {
	w := args[0]
	i := e.add(Command{Name: w, Args: args[1:]}, st, fr, pos, end)
	reason := CommandName
	if e.decodes(w.From) {
		reason = Decoded
	}
	e.opaque(Opaque{Reason: reason, Detail: w.Text, From: w.From, Command: i, Pos: pos, Remote: fr.remote})
	return result{ok: st, fail: st, out: []int{max(i, 0)}}
}

// decodes reports whether one of the commands, or one that they read from,
// takes an encoding off.
func (e *evaluator) decodes(from []int) bool {
	seen := map[int]bool{}
	for queue := slices.Clone(from); len(queue) > 0; queue = queue[1:] {
		i := queue[0]
		if i < 0 || i >= len(e.line.Commands) || seen[i] || len(seen) > maxProducers*4 {
			continue
		}
		seen[i] = true
		c := e.line.Commands[i]
		queue = append(queue, c.Stdin...)
		switch c.Program {
		case "base64", "base32", "basenc", "gbase64", "openssl":
			for _, w := range c.Args {
				if v := w.Value; v == "--decode" || v == "-D" || strings.HasPrefix(v, "-") && !strings.HasPrefix(v, "--") && strings.Contains(v, "d") {
					return true
				}
			}
		case "xxd", "uudecode", "unhex":
			return true
		}
	}
	return false
}

// callFunction evaluates the body of a function with its arguments.
func (e *evaluator) callFunction(name string, fn *function, args []Word, st state, fr frame, pos, end int) result {
	if slices.Contains(fr.calls, name) {
		e.opaque(Opaque{Reason: Recursive, Detail: name, Command: -1, Pos: pos, Remote: fr.remote,
			Background: fr.background || len(fr.stdin) > 0})
		return result{ok: st, fail: st}
	}
	inner := st
	inner.params, inner.known = paramsOf(args)
	sub := fr
	sub.calls = append(slices.Clip(fr.calls), name)
	sub.src, sub.pos, sub.end = fn.src, fn.pos, fn.end
	var locals []*binding
	sub.locals = &locals
	if len(fr.redirects) > 0 {
		e.add(Command{IsGroup: true}, st, fr, pos, end)
		sub.redirects = nil
	}
	r := e.statement(fn.body, inner, sub)
	finish := func(s state) state {
		if s.dead || fn.returns {
			s = e.forget(fn.body, live(s, inner))
		}
		for _, b := range slices.Backward(locals) {
			s = e.bind(s, b.name, b.value)
		}
		s.params, s.known = st.params, st.known
		return s
	}
	r.ok, r.fail = finish(r.ok), finish(r.fail)
	return r
}

// paramsOf returns words as positional parameters, and whether their number is
// known.
func paramsOf(args []Word) ([][]part, bool) {
	var params [][]part
	for _, w := range args {
		if w.Many {
			return nil, false
		}
		params = append(params, w.parts)
	}
	return params, true
}

// callAlias evaluates a command as if its alias were expanded, which depends on
// the shell's options.
func (e *evaluator) callAlias(name, text string, args []Word, st state, fr frame, pos, end int) {
	st.aliases = maps.Clone(st.aliases)
	delete(st.aliases, name)
	e.run(e.appended(text, args), st, fr.nested(text, pos, end))
}

// appended returns a command line of text and words, in which the words are quoted.
func (e *evaluator) appended(text string, args []Word) string {
	var b strings.Builder
	b.WriteString(text)
	for _, w := range args {
		b.WriteByte(' ')
		b.WriteString(e.quotedWord(w))
	}
	return b.String()
}

// Quote returns the source text of a word that is text, whatever is in it.
func Quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// quotedWord returns a source text that becomes w.
func (e *evaluator) quotedWord(w Word) string {
	var b strings.Builder
	for _, p := range w.parts {
		if p.kind == Literal {
			b.WriteString(Quote(p.text))
		} else {
			b.WriteString(e.hole(p))
		}
	}
	if b.Len() == 0 {
		return "''"
	}
	return b.String()
}

// joined returns what words become when they are joined to a command line, and
// whether all of it is known.
func (e *evaluator) joined(args []Word) (string, bool) {
	var texts []string
	for _, w := range args {
		texts = append(texts, e.composed(w.parts))
	}
	text := strings.Join(texts, " ")
	return text, complete(text)
}

// runText evaluates the text that a command at inv runs. What of it is not
// known is reported.
func (e *evaluator) runText(text string, from []int, st state, fr frame, inv *invocation) result {
	reason := Eval
	hidden := e.decodes(from)
	if hidden {
		reason = Decoded
	}
	if hidden || !complete(text) && e.interpolates(text) {
		e.opaque(Opaque{Reason: reason, Detail: inv.program, From: from, Command: -1, Pos: inv.pos, Remote: fr.remote})
	}
	if strings.TrimFunc(text, isHole) == "" {
		return result{ok: st, fail: st}
	}
	return e.run(text, st, fr.nested(text, inv.pos, inv.end))
}

// interpolates reports whether a hole of text may be more than a name of a file.
func (e *evaluator) interpolates(text string) bool {
	for _, p := range e.fill(text) {
		if p.kind == Unknown {
			return true
		}
	}
	return false
}

func fromWords(args []Word) []int {
	var from []int
	for _, w := range args {
		from = union(from, w.From)
	}
	return from
}

// output returns what a command writes, if the text tells.
func (e *evaluator) output(inv *invocation) *string {
	switch inv.program {
	case "echo":
		return e.echo(inv.args)
	case "printf":
		return e.printf(inv.args)
	case "pwd":
		if len(inv.st.dirs) == 1 && inv.st.dirs[0] != "" {
			return ptr(inv.st.dirs[0] + "\n")
		}
	case "true", ":":
		return ptr("")
	case "cat", "tee":
		if inv.program == "cat" && len(inv.args) == 1 {
			if text, ok := e.written(inv.args[0], inv.st); ok {
				return &text
			}
		}
		if inv.program == "cat" && len(inv.args) > 0 && (len(inv.args) > 1 || inv.args[0].Value != "-") {
			return nil
		}
		return inv.fr.input
	case "base64", "gbase64":
		return e.unbase64(inv)
	}
	return nil
}

func ptr(s string) *string { return &s }

func (e *evaluator) unbase64(inv *invocation) *string {
	if len(inv.args) != 1 || inv.fr.input == nil || !complete(*inv.fr.input) {
		return nil
	}
	if v := inv.args[0].Value; v != "-d" && v != "-D" && (!strings.HasPrefix(v, "--d") || !strings.HasPrefix("--decode", v)) {
		return nil
	}
	encoded := strings.Map(func(r rune) rune {
		if strings.ContainsRune(" \t\r\n", r) {
			return -1
		}
		return r
	}, *inv.fr.input)
	decoded, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || strings.ContainsFunc(string(decoded), isHole) {
		return nil
	}
	return ptr(string(decoded))
}

func (e *evaluator) echo(args []Word) *string {
	newline, escapes := "\n", false
	for len(args) > 0 {
		flag := args[0].Value
		if len(flag) < 2 || flag[0] != '-' || strings.Trim(flag[1:], "neE") != "" {
			break
		}
		for _, c := range flag[1:] {
			switch c {
			case 'n':
				newline = ""
			case 'e':
				escapes = true
			case 'E':
				escapes = false
			}
		}
		args = args[1:]
	}
	if slices.ContainsFunc(args, func(w Word) bool { return w.Kind == Pattern }) {
		return nil
	}
	text, _ := e.joined(args)
	if escapes {
		text = decodeANSI(text)
	}
	if !e.spend(len(text)) {
		return nil
	}
	return ptr(text + newline)
}

func (e *evaluator) printf(args []Word) *string {
	if len(args) > 0 && args[0].Value == "--" {
		args = args[1:]
	}
	if len(args) == 0 || args[0].Kind != Literal || strings.HasPrefix(args[0].Value, "-v") {
		return nil
	}
	format, rest := args[0].Value, args[1:]
	var b strings.Builder
	for turn := 0; turn == 0 || len(rest) > 0 && turn < maxFields; turn++ {
		before := len(rest)
		for i := 0; i < len(format); i++ {
			if format[i] != '%' {
				b.WriteByte(format[i])
				continue
			}
			if i++; i == len(format) {
				return nil
			}
			switch format[i] {
			case '%':
				b.WriteByte('%')
			case 's', 'b', 'q', 'd':
				if len(rest) > 0 {
					if rest[0].Kind == Pattern || !e.spend(size(rest[0].parts)) {
						return nil
					}
					b.WriteString(strings.ReplaceAll(e.composed(rest[0].parts), `\`, `\\`))
					rest = rest[1:]
				}
			default:
				return nil
			}
		}
		if len(rest) == before || !e.spend(len(format)) {
			break
		}
	}
	return ptr(decodeANSI(b.String()))
}
