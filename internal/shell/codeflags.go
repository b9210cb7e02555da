package shell

import (
	"regexp"
	"strings"
)

// codeFlags are the flags of a program whose value is a command line.
type codeFlags struct {
	flags  string
	marked string         // flags whose value is a command line after a mark
	mark   *regexp.Regexp // what stands before it
}

var (
	sshOption  = regexp.MustCompile(`(?i)^\s*(?:proxycommand|localcommand|knownhostscommand)\s*[=\s]\s*`)
	tarAction  = regexp.MustCompile(`^exec=`)
	traceFile  = regexp.MustCompile(`^[|!]`)
	debugShell = regexp.MustCompile(`^\s*(?:!|(?:platform\s+)?shell\s|pipe\s[^|]*\|)\s*`)
	boundKey   = regexp.MustCompile(`^[^:]*:\s*`)
	wgetrc     = regexp.MustCompile(`^\s*use_?askpass\s*=\s*`)

	tarFlags = codeFlags{flags: "F I info-script new-volume-script use-compress-program to-command rsh-command rmt-command", marked: "checkpoint-action", mark: tarAction}
)

var programFlags = map[string]codeFlags{
	"tar": tarFlags, "gtar": tarFlags, "bsdtar": tarFlags,
	"rsync": {flags: "e rsh rsync-path"},
	"ssh":   {marked: "o", mark: sshOption}, "autossh": {marked: "o", mark: sshOption},
	"scp": {flags: "S", marked: "o", mark: sshOption}, "sftp": {flags: "S", marked: "o", mark: sshOption},
	"zip":     {flags: "TT unzip-command"},
	"split":   {flags: "filter"},
	"sort":    {flags: "compress-program"},
	"man":     {flags: "P pager H html"},
	"mapfile": {flags: "C"}, "readarray": {flags: "C"}, "complete": {flags: "C"}, "compgen": {flags: "C F"},
	"bind": {marked: "x", mark: boundKey}, "fc": {flags: "e"},
	"go":  {flags: "toolexec exec vettool"},
	"npm": {flags: "script-shell"}, "pnpm": {flags: "script-shell"},
	"rg": {flags: "pre hostname-bin"}, "fzf": {flags: "preview"},
	"wget":   {flags: "use-askpass", marked: "e execute", mark: wgetrc},
	"strace": {marked: "o output", mark: traceFile},
	"gdb":    {marked: "ex iex eval-command init-eval-command", mark: debugShell},
	"lldb":   {marked: "o O one-line one-line-before-file", mark: debugShell},
}

// codeFlags evaluates the command lines that some programs take as the value of
// a flag.
func (e *evaluator) codeFlags(inv *invocation) {
	of, ok := programFlags[inv.program]
	if !ok {
		return
	}
	for _, v := range inv.fr.env {
		if v.Name == "TAR_OPTIONS" {
			with := *inv
			with.args = append(splitWords(v.Value), inv.args...)
			inv = &with
		}
	}
	all := strings.TrimSpace(of.flags + " " + of.marked)
	for i, w := range inv.args {
		v := w.Value
		if w.Kind != Literal {
			v = w.Prefix
		}
		if len(v) < 2 || v[0] != '-' {
			continue
		}
		flag, kind := flagOf(v, all)
		if name, _, has := strings.Cut(strings.TrimLeft(v, "-"), "="); len(name) > 1 && hasFlag(all, name) {
			if flag, kind = name, needed; has { // one dash or two
				kind = attached
			}
			v = "--" + strings.TrimLeft(v, "-")
		}
		var value Word
		switch {
		case kind == attached:
			text := valueIn(v, flag)
			value = newWord(w.Text, dropPrefix(w.parts, len(w.Value+w.Prefix)-len(text)))
		case kind == needed && i+1 < len(inv.args):
			value = inv.args[i+1]
		default:
			continue
		}
		text := e.composed(value.parts)
		if hasFlag(of.marked, flag) {
			m := of.mark.FindString(text)
			if m == "" {
				continue
			}
			text = strings.TrimLeft(text[len(m):], "|! ") // strace -o '||command'
		}
		e.runText(text, value.From, inv.st, e.inner(inv, inv.program), inv)
	}
}

// makeRecipe finds what a makefile has a shell run: recipes, and its functions for that.
var (
	makeRecipe   = regexp.MustCompile(`(?m)^(?:\t|[^#=\n]*:[^=;\n]*;|[^#\n]*!=)[ \t@+-]*(.*)$`)
	makeFunction = regexp.MustCompile(`\$[({]shell\s`)
)

// makefile evaluates what argument i gives to make as a part of a makefile: by --eval, on
// its input, or as a variable, which recipes commonly use as a command.
func (e *evaluator) makefile(inv *invocation, i int) {
	v, _ := inv.args[i].Literal()
	if len(v) < 2 || v[0] != '-' {
		if _, parts, ok := cutAssign(inv.args[i]); ok {
			if text, known := exact(parts); known {
				e.variableOfMake(text, inv)
			}
		}
		return
	}
	flag, kind := flagOf(v, "E eval f file makefile")
	value := valueOf(inv.args, i, flag, kind)
	switch {
	case kind == none:
	case flag == "E" || flag == "eval":
		e.recipes(e.composed(value.parts), inv)
	case isStdin(value) && inv.fr.input != nil:
		e.recipes(*inv.fr.input, inv)
	case isStdin(value) && len(inv.fr.stdin) > 0:
		e.opaqueInput(inv, inv.fr.stdin, -1)
	default:
		if text, ok := e.written(value, inv.st); ok {
			e.recipes(text, inv)
		}
	}
}

// variableOfMake evaluates the value of a variable as what recipes may make of it.
func (e *evaluator) variableOfMake(text string, inv *invocation) {
	e.recipes(text, inv)
	if e.stopped {
		return
	}
	if _, err := parse(text); err == nil {
		e.runText(text, nil, inv.st, e.inner(inv, "make"), inv)
	}
}

// valueOf returns the value of a flag of argument i.
func valueOf(args []Word, i int, flag string, kind valueKind) Word {
	switch {
	case kind == attached:
		return literalWord(valueIn(args[i].Value, flag))
	case kind == needed && i+1 < len(args):
		return args[i+1]
	}
	return Word{}
}

// recipes evaluates what make runs of a makefile.
func (e *evaluator) recipes(text string, inv *invocation) {
	if !e.spend(len(text)) {
		return
	}
	fr := e.inner(inv, "make")
	for _, m := range makeRecipe.FindAllStringSubmatch(text, maxUnrolled) {
		e.runText(strings.ReplaceAll(m[1], "$$", "$"), nil, inv.st, fr, inv)
	}
	for _, at := range makeFunction.FindAllStringIndex(text, maxUnrolled) {
		open, end := 1, at[1]
		for ; end < len(text) && open > 0; end++ {
			switch text[end] {
			case '(', '{':
				open++
			case ')', '}':
				open--
			}
		}
		e.runText(strings.TrimRight(text[at[1]:end], ")}"), nil, inv.st, fr, inv)
	}
}
