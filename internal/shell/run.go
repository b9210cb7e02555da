package shell

import (
	"path"
	"strings"
)

// isShell are the programs that run what this package parses.
var isShell = map[string]bool{
	"sh": true, "bash": true, "dash": true, "zsh": true, "ksh": true, "ash": true, "mksh": true, "rbash": true,
	"ksh93": true, "pdksh": true, "yash": true, "fish": true, "hush": true,
	"csh": true, "tcsh": true, "nu": true, "xonsh": true, "elvish": true,
}

// IsShell reports whether a program is a shell.
func IsShell(program string) bool { return isShell[program] }

// shellArgs is how a shell was called.
type shellArgs struct {
	command   bool   // -c
	files     []Word // that are run before
	readStdin bool   // -s
	rest      []Word
}

func parseShellArgs(args []Word) shellArgs {
	var a shellArgs
	i := 0
	for ; i < len(args); i++ {
		v, ok := args[i].Literal()
		if !ok || len(v) < 2 || v[0] != '-' && v[0] != '+' {
			if v == "-" {
				i++
			}
			break
		}
		if v == "--" {
			i++
			break
		}
		if strings.HasPrefix(v, "--") {
			switch v {
			case "--rcfile", "--init-file":
				if i++; i < len(args) {
					a.files = append(a.files, args[i])
				}
			case "--command":
				a.command = true
			}
			continue
		}
		a.command = a.command || v[0] == '-' && strings.Contains(v, "c")
		a.readStdin = a.readStdin || v[0] == '-' && strings.Contains(v, "s")
		if strings.ContainsAny(v, "oO") {
			i++
		}
	}
	a.rest = args[min(i, len(args)):]
	return a
}

// runShell evaluates a call of a shell: with -c, with a script, or with
// commands on its input.
func (e *evaluator) runShell(inv *invocation) result {
	a := parseShellArgs(inv.args)
	fr := inv.fr.wrapped(inv.program)
	fr.external = false
	fr.level++
	st := inv.st
	st.aliases = nil
	st.errexit = false
	e.startup(inv, a, st, fr)
	switch {
	case a.command:
		if len(a.rest) == 0 {
			return e.plain(inv)
		}
		code := a.rest[0]
		st.params, st.known = nil, true
		if len(a.rest) > 1 {
			st.params, st.known = paramsOf(a.rest[2:])
		}
		r := e.runText(e.composed(code.parts), code.From, st, fr, inv)
		return result{ok: inv.st, fail: inv.st, out: r.out, text: r.text}
	case a.readStdin || len(a.rest) == 0 || isStdin(a.rest[0]):
		if a.readStdin {
			st.params, st.known = paramsOf(a.rest)
		}
		return e.runStdin(inv, st, fr)
	}
	c := inv.command()
	c.Script = &a.rest[0]
	i := e.record(inv, c)
	st.params, st.known = paramsOf(a.rest[1:])
	r := e.runScript(a.rest[0], i, "", st, fr, inv)
	return result{ok: inv.st, fail: inv.st, out: union([]int{max(i, 0)}, r.out)}
}

// startup evaluates what a shell runs before its commands: the file that a variable or
// a flag names, and the values of variables.
func (e *evaluator) startup(inv *invocation, a shellArgs, st state, fr frame) {
	files := a.files
	for _, v := range inv.fr.env {
		e.codeVariable(v.Name, v.Value, inv.st, inv.fr, inv)
		if v.Name == "BASH_ENV" || v.Name == "ENV" {
			files = append(files, v.Value)
		}
	}
	if v, ok := st.lookup("BASH_ENV"); ok && !v.isArray {
		files = append(files, newWord("$BASH_ENV", v.parts))
	}
	for _, w := range files {
		c := inv.command()
		c.Script = &w
		e.runScript(w, e.record(inv, c), Sourced, st, fr, inv)
	}
}

func isStdin(w Word) bool {
	v, _ := w.Literal()
	return v == "-" || v == "/dev/stdin" || v == "/proc/self/fd/0" || v == "/dev/fd/0"
}

// runStdin evaluates what a shell reads from its input.
func (e *evaluator) runStdin(inv *invocation, st state, fr frame) result {
	input, stdin := inv.fr.input, inv.fr.stdin
	fr.stdin, fr.redirects = nil, nil
	e.setInput(&fr, nil)
	if input != nil {
		r := e.runText(*input, stdin, st, fr, inv)
		return result{ok: inv.st, fail: inv.st, out: r.out, text: r.text}
	}
	c := inv.command()
	for i, r := range inv.fr.redirects {
		if r.Reads && r.FD <= 0 {
			c.Script = &inv.fr.redirects[i].Target
		}
	}
	i := e.record(inv, c)
	if len(stdin) > 0 {
		e.opaqueInput(inv, stdin, i)
	} else if c.Script != nil {
		e.runScript(*c.Script, i, "", st, fr, inv)
	}
	return result{ok: inv.st, fail: inv.st, out: []int{max(i, 0)}}
}

func (e *evaluator) opaqueInput(inv *invocation, stdin []int, i int) {
	reason := Stdin
	if e.decodes(stdin) {
		reason = Decoded
	}
	e.opaque(Opaque{Reason: reason, Detail: inv.program, From: stdin, Command: i, Pos: inv.pos,
		Remote: inv.fr.remote, Background: inv.fr.background})
}

// runScript evaluates a file that a shell reads, if the line itself wrote it.
// What is not known is reported if it comes from another command, or if there
// is a reason for files.
func (e *evaluator) runScript(w Word, i int, reason Reason, st state, fr frame, inv *invocation) result {
	same := result{ok: st, fail: st}
	if text, ok := e.written(w, inv.st); ok {
		return e.runText(text, w.From, st, fr, inv)
	}
	switch {
	case isStdin(w) && inv.fr.input != nil:
		return e.runText(*inv.fr.input, inv.fr.stdin, st, fr, inv)
	case isStdin(w) && len(inv.fr.stdin) > 0:
		e.opaqueInput(inv, inv.fr.stdin, i)
	case len(w.From) > 0:
		e.opaqueInput(inv, w.From, i)
	case reason != "":
		e.opaque(Opaque{Reason: reason, Detail: w.Text, Command: i, Pos: inv.pos, Remote: fr.remote})
	}
	return same
}

// written returns the text of a file that the line wrote before, or of a process
// substitution.
func (e *evaluator) written(w Word, st state) (string, bool) {
	if w.Kind == Unknown {
		text, ok := e.files[w.Text]
		return text, ok && strings.HasPrefix(w.Text, "<(")
	}
	if len(st.dirs) != 1 {
		return "", false
	}
	text, ok := e.files[written(st.dirs[0], w)]
	return text, ok
}

// interpreter is a program that runs code in a language of its own.
type interpreter struct {
	language string
	code     string // flags whose value is code
	values   string // other flags with a value
	ends     string // flags after which the rest is not ours
	operand  bool   // the first operand is code, unless -f names a file
}

var interpreters = map[string]interpreter{
	"python":     {language: "python", code: "c", values: "W X Q", ends: "m"},
	"pypy":       {language: "python", code: "c", values: "W X", ends: "m"},
	"node":       {language: "node", code: "e p pe eval print", values: "r require import C conditions input-type env-file loader"},
	"nodejs":     {language: "node", code: "e p pe eval print", values: "r require"},
	"bun":        {language: "node", code: "e eval p print", ends: "run x install add test build create"},
	"tsx":        {language: "node", code: "e eval"},
	"ts-node":    {language: "node", code: "e eval p print"},
	"perl":       {language: "perl", code: "e E", values: "I"},
	"ruby":       {language: "ruby", code: "e", values: "I r C E"},
	"php":        {language: "php", code: "r B R E", values: "d c z"},
	"lua":        {language: "lua", code: "e", values: "l"},
	"luajit":     {language: "lua", code: "e", values: "l"},
	"julia":      {language: "julia", code: "e E eval print", values: "J p t"},
	"Rscript":    {language: "R", code: "e"},
	"R":          {language: "R", code: "e", values: "f file"},
	"osascript":  {language: "applescript", code: "e", values: "l s"},
	"pwsh":       {language: "powershell", code: "c Command command", values: "ExecutionPolicy", ends: "File f"},
	"powershell": {language: "powershell", code: "c Command command", values: "ExecutionPolicy", ends: "File f"},
	"groovy":     {language: "groovy", code: "e"},
	"elixir":     {language: "elixir", code: "e eval"},
	"swift":      {language: "swift", code: "e", ends: "build test run package"},
	"tclsh":      {language: "tcl"}, "expect": {language: "tcl", code: "c", values: "f b"},
	"emacs": {language: "lisp", code: "eval execute", values: "l load f funcall"},
	"awk":   {language: "awk", values: "v F assign field-separator", ends: "f file", operand: true},
}

// aliases of interpreters, without a version at their end.
var interpreterAliases = map[string]string{"gawk": "awk", "mawk": "awk", "nawk": "awk", "jruby": "ruby", "deno": "node"}

func interpreterOf(program string) (interpreter, bool) {
	name := strings.TrimRight(program, "0123456789.-")
	if alias, ok := interpreterAliases[name]; ok {
		name = alias
	}
	i, ok := interpreters[name]
	return i, ok
}

// interpret adds to c the code or the script that an interpreter runs.
func (e *evaluator) interpret(inv *invocation, c *Command) {
	in, ok := interpreterOf(inv.program)
	if !ok {
		e.executeWritten(inv)
		return
	}
	args := inv.args
	if inv.program == "deno" && len(args) > 0 {
		if args[0].Value == "eval" {
			c.Code = append(c.Code, Code{"node", lastWord(args[1:])})
		}
		return
	}
	ended := false
	operand := -1
	for i := 0; i < len(args) && operand < 0 && !ended; i++ {
		v, known := args[i].Literal()
		if !known && !strings.HasPrefix(args[i].Prefix, "-") || len(v) < 2 && known || known && v[0] != '-' {
			operand = i
			break
		}
		if v == "--" {
			operand = i + 1
			break
		}
		flag, attached, takes := interpreterFlag(in, args[i])
		switch {
		case !takes:
		case hasFlag(in.ends, flag):
			ended = true
		default:
			text := attached
			if text == nil && i+1 < len(args) {
				i++
				text = &args[i]
			}
			if text != nil && hasFlag(in.code, flag) {
				c.Code = append(c.Code, Code{in.language, *text})
			}
		}
	}
	e.interpretOperand(inv, in, c, operand, ended)
	for _, code := range c.Code {
		if w := code.Text; w.Kind == Unknown && w.Prefix == "" && w.Suffix == "" {
			e.opaque(Opaque{Reason: Eval, Detail: w.Text, From: w.From, Command: len(e.line.Commands), Pos: inv.pos, Remote: inv.fr.remote})
		}
	}
}

func lastWord(args []Word) Word {
	if len(args) == 0 {
		return literalWord("")
	}
	return args[len(args)-1]
}

// interpretOperand adds what an interpreter runs if no flag said it.
func (e *evaluator) interpretOperand(inv *invocation, in interpreter, c *Command, operand int, ended bool) {
	if ended || len(c.Code) > 0 {
		return
	}
	if operand >= 0 && operand < len(inv.args) && !isStdin(inv.args[operand]) {
		w := inv.args[operand]
		if in.operand {
			c.Code = append(c.Code, Code{in.language, w})
			return
		}
		c.Script = &w
		if text, ok := e.written(w, inv.st); ok {
			c.Code = append(c.Code, Code{in.language, newWord(w.Text, e.fill(text))})
		} else if len(w.From) > 0 {
			e.opaqueInput(inv, w.From, len(e.line.Commands))
		}
		return
	}
	if in.operand {
		return
	}
	switch {
	case inv.fr.input != nil:
		c.Code = append(c.Code, Code{in.language, newWord("", e.fill(*inv.fr.input))})
	case len(inv.fr.stdin) > 0:
		e.opaqueInput(inv, inv.fr.stdin, len(e.line.Commands))
	}
}

// interpreterFlag returns the flag with a value that w has, with a value that is
// attached.
func interpreterFlag(in interpreter, w Word) (flag string, attached *Word, takes bool) {
	v := w.Value
	if w.Kind != Literal {
		v = w.Prefix
	}
	if name, ok := strings.CutPrefix(v, "--"); ok {
		name, value, has := strings.Cut(name, "=")
		if has {
			rest := literalWord(value)
			attached = &rest
		}
		return name, attached, hasFlag(in.code, name) || hasFlag(in.values, name) || hasFlag(in.ends, name)
	}
	name := v[1:]
	if hasFlag(in.code, name) || hasFlag(in.values, name) || hasFlag(in.ends, name) {
		return name, nil, true
	}
	for i := range len(name) {
		flag := name[i : i+1]
		if in.language == "perl" && flag == "i" {
			// -i.bak, but -ie is an extension as well
			return "", nil, false
		}
		if hasFlag(in.code, flag) || hasFlag(in.values, flag) || hasFlag(in.ends, flag) {
			if rest := name[i+1:]; rest != "" || w.Kind != Literal {
				text := newWord(w.Text, dropPrefix(w.parts, len(v)-len(rest)))
				attached = &text
			}
			return flag, attached, true
		}
	}
	return "", nil, false
}

// dropPrefix returns parts without the first n bytes, which are literal.
func dropPrefix(parts []part, n int) []part {
	for i, p := range parts {
		if p.kind != Literal || n == 0 {
			return parts[i:]
		}
		if n < len(p.text) {
			p.text = p.text[n:]
			return append([]part{p}, parts[i+1:]...)
		}
		n -= len(p.text)
	}
	return nil
}

func hasFlag(list, flag string) bool {
	for list != "" {
		var item string
		item, list, _ = strings.Cut(list, " ")
		if item == flag {
			return true
		}
	}
	return false
}

// executeWritten evaluates a file that the line itself wrote and now executes.
func (e *evaluator) executeWritten(inv *invocation) {
	if !strings.Contains(inv.name.Value, "/") {
		return
	}
	text, ok := e.written(inv.name, inv.st)
	if !ok {
		return
	}
	if line, _, _ := strings.Cut(text, "\n"); strings.HasPrefix(line, "#!") && !isShell[path.Base(strings.TrimSpace(line))] &&
		!strings.HasSuffix(line, "sh") {
		return
	}
	fr := inv.fr.wrapped(inv.program)
	fr.external = false
	fr.level++
	st := inv.st
	st.params, st.known = paramsOf(inv.args)
	e.runText(text, inv.name.From, st, fr, inv)
}
