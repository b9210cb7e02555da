package effects

import (
	"path"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/shell"
)

// A program is what is known of one, or of one of its subcommands.
type program struct {
	// flags are separated by spaces; the names of one are separated by commas,
	// the first being the one that rules use. One letter is a short flag. What
	// takes a value ends in = and the role of that value, and in ? if the value
	// is never the next word.
	flags string

	// words are the roles of the operands; ... repeats the last one, and one
	// more role after it is that of the last operand.
	words string

	deeds []rule
	subs  map[string]*program
	also  func(*call) // what no table can say

	// dashes says that long flags begin with one dash as well, and that short
	// ones can't be joined.
	dashes bool
	rest   bool // the flags end at the first operand
}

// Roles of words. Those in lower case are parts of others.
const (
	read    = 'R'
	write   = 'W'
	erase   = 'D' // deleted
	empty   = 'E' // deleted if it is an empty folder
	moved   = 'M' // read and deleted
	host    = 'H' // a host, an address or a URL
	runs    = 'X' // a file that is executed
	upload  = 'U' // a file that is sent to a host
	ignored = '_'
)

// A rule says when a call is a deed. All terms of when have to hold:
//
//	-f        the flag is there; -f|-g one of them is
//	!-f       it is not
//	@x*       an operand fits the pattern; @x|@y one of them does
//	@1=x*     the first operand does
//	-o=x*     the value of the flag does
//	#0 #>1    the number of operands
type rule struct {
	kind Kind
	when string
}

// call is a command whose words have been sorted.
type call struct {
	*analysis
	index    int
	cmd      *shell.Command
	spec     *program
	flags    []flag
	operands []shell.Word
	dashed   bool // there was a --
	before   int  // operands before it
}

type flag struct {
	name  string // the first of its names
	value shell.Word
	has   bool
	role  byte
}

// program adds what the tables say of command i.
func (a *analysis) program(i int, c *shell.Command) {
	spec := programOf(c.Program)
	if spec == nil {
		a.unknown(i, c)
		return
	}
	k := &call{analysis: a, index: i, cmd: c, spec: spec}
	k.run(spec, c.Args)
}

// unknown adds the files that a program which no table has is given by paths from the root.
func (a *analysis) unknown(i int, c *shell.Command) {
	if c.Program == "" || namesOnly[c.Program] || shell.IsShell(c.Program) {
		return
	}
	for _, w := range c.Args {
		v := w.Value + w.Prefix
		if n := strings.Index(v, "=/") + 1; n > 0 {
			w, v = after(w, v[:n]), v[n:]
		}
		if strings.HasPrefix(v, "/") {
			a.read(i, w)
		}
	}
}

// PlainName returns the name by which the tables know a program: GNU's is called gmv where it is not
// the system's.
func PlainName(program string) string {
	name := strings.ToLower(program)
	if gnu, ok := strings.CutPrefix(name, "g"); ok && programs[name] == nil && programs[gnu] != nil {
		return gnu
	}
	return name
}

// programOf returns what is known of a program, or nil.
func programOf(name string) *program {
	name = PlainName(name)
	if spec := programs[name]; spec != nil {
		return spec
	}
	return families(name)
}

// CanDestroy reports whether a program can destroy what can't be brought back, as far as the
// tables know.
func CanDestroy(program string) bool {
	switch name := PlainName(program); {
	case databases[name] != nil, name == "dd", name == "find":
		return true
	}
	return programOf(program).canDestroy()
}

// GitCanDestroy reports whether a command of git can destroy what can't be brought back. One that no
// table has, such as an alias, can.
func GitCanDestroy(command string) bool {
	p, known := gitPrograms["git"].subs[strings.ToLower(command)]
	return !known || p.also != nil || p.canDestroy()
}

func (p *program) canDestroy() bool {
	if p == nil {
		return false
	}
	destroys := strings.ContainsRune(p.words, erase) || slices.ContainsFunc(p.deeds, func(r rule) bool {
		switch r.kind {
		case DeleteRecursive, OverwriteDevice, GitForcePush, GitDiscard, DatabaseDrop, Infrastructure, ProcessKill:
			return true
		}
		return false
	})
	for _, sub := range p.subs {
		destroys = destroys || sub.canDestroy()
	}
	return destroys
}

// families returns what programs have in common whose names begin alike.
func families(name string) *program {
	for _, prefix := range []string{"mkfs.", "python", "perl", "ruby"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && (prefix == "mkfs." || strings.Trim(rest, "0123456789.") == "") {
			return programs[strings.TrimSuffix(prefix, ".")]
		}
	}
	return nil
}

// run applies spec, or the subcommand that the words name.
func (k *call) run(spec *program, args []shell.Word) {
	k.spec = spec
	if len(spec.subs) > 0 || spec.rest {
		rest := k.sort(args, true)
		if len(rest) > 0 {
			if v, ok := rest[0].Literal(); ok && spec.subs[strings.ToLower(v)] != nil {
				k.apply(spec)
				k.run(spec.subs[strings.ToLower(v)], rest[1:])
				return
			}
		}
		k.operands = nil
		args = rest
	}
	k.sort(args, false)
	k.apply(spec)
}

// sort sorts words into flags and operands. With first it stops at the first
// operand and returns what begins there.
func (k *call) sort(args []shell.Word, first bool) []shell.Word {
	for i := 0; i < len(args); i++ {
		w := args[i]
		v, known := w.Literal()
		if !known {
			v = w.Prefix
		}
		switch {
		case v == "--" && known:
			k.dashed, k.before = true, len(k.operands)
			if first {
				return args[i+1:]
			}
			k.operands = append(k.operands, args[i+1:]...)
			return nil
		case len(v) < 2 || v[0] != '-':
			if first {
				return args[i:]
			}
			if k.spec.rest {
				k.operands = append(k.operands, args[i:]...)
				return nil
			}
			k.operands = append(k.operands, w)
		default:
			if k.flagWord(w, v, args, i) {
				i++
			}
		}
	}
	return nil
}

// flagWord adds the flags of one word, and reports whether the next word is a
// value.
func (k *call) flagWord(w shell.Word, v string, args []shell.Word, i int) (next bool) {
	if strings.HasPrefix(v, "--") || k.spec.dashes {
		name, _, has := strings.Cut(strings.TrimLeft(v, "-"), "=")
		f, kind := lookup(k.spec.flags, name, true)
		if positive, ok := strings.CutPrefix(f.name, "no-"); ok && len(positive) > 1 { // takes back what came before
			f, _ := lookup(k.spec.flags, positive, true)
			k.flags = slices.DeleteFunc(k.flags, func(before flag) bool { return before.name == f.name })
		}
		if has {
			f.value, f.has = after(w, v[:strings.IndexByte(v, '=')+1]), true
		} else if kind == '=' && i+1 < len(args) {
			f.value, f.has, next = args[i+1], true, true
		}
		k.flags = append(k.flags, f)
		return next
	}
	for j := 1; j < len(v); j++ {
		f, kind := lookup(k.spec.flags, v[j:j+1], false)
		if kind != 0 && (j+1 < len(v) || kind == '=' && w.Kind != shell.Literal) {
			f.value, f.has = after(w, v[:j+1]), true
			k.flags = append(k.flags, f)
			return false
		}
		if kind == '=' && i+1 < len(args) {
			f.value, f.has, next = args[i+1], true, true
		}
		k.flags = append(k.flags, f)
	}
	return next
}

func after(w shell.Word, prefix string) shell.Word {
	rest, _ := w.After(prefix)
	return rest
}

// lookup returns the flag of a table that name is or, if it is long, abbreviates
// without doubt; and whether it takes a value: '=', '?' or 0.
func lookup(flags, name string, long bool) (flag, byte) {
	var abbreviated []string
	for item := range strings.FieldsSeq(flags) {
		names, role, kind := item, byte(0), byte(0)
		if i := strings.IndexAny(item, "=?"); i >= 0 {
			names, kind = item[:i], item[i]
			if i+1 < len(item) {
				role = item[i+1]
			}
		}
		canonical, _, _ := strings.Cut(names, ",")
		for one := range strings.SplitSeq(names, ",") {
			if one == name {
				return flag{name: canonical, role: role}, kind
			}
			if long && len(one) > 1 && strings.HasPrefix(one, name) {
				abbreviated = append(abbreviated, one)
			}
		}
	}
	if len(abbreviated) == 1 && name != "" {
		return lookup(flags, abbreviated[0], false)
	}
	return flag{name: name}, 0
}

// apply adds the effects of a spec for the words that were sorted.
func (k *call) apply(spec *program) {
	for _, f := range k.flags {
		if f.has && f.role != 0 {
			k.role(f.role, f.value)
		}
	}
	k.applyWords(spec.words)
	for _, r := range spec.deeds {
		if k.holds(r.when) {
			k.deed(r.kind, k.index, k.detail(), k.touched(r.kind)...)
		}
	}
	if spec.also != nil {
		spec.also(k)
	}
}

func (k *call) applyWords(roles string) {
	if roles == "" {
		return
	}
	list := strings.Fields(roles)
	n := len(k.operands)
	for i, w := range k.operands {
		role := byte(ignored)
		switch {
		case i < len(list) && !strings.HasSuffix(list[i], "..."):
			role = list[i][0]
		default:
			// The repeated role, and the one after it.
			for j, item := range list {
				if strings.HasSuffix(item, "...") && i >= j {
					role = item[0]
					if j+1 < len(list) && i == n-1 && n > j+1 {
						role = list[j+1][0]
					}
				}
			}
		}
		k.role(role, w)
	}
}

func (k *call) role(role byte, w shell.Word) {
	switch role {
	case read:
		k.read(k.index, w)
	case write:
		k.write(k.index, w)
	case erase:
		k.delete(k.index, w)
		if w.Found { // as many files as a search finds
			k.deed(DeleteRecursive, k.index, k.detail(), k.entries(k.index, w)...)
		}
	case empty:
		k.delete(k.index, w)
	case moved:
		k.read(k.index, w)
		k.delete(k.index, w)
	case host:
		k.host(w)
	case runs:
		k.script(k.index, w)
	case upload:
		k.uploadFile(w)
	}
}

// detail returns the command as it is written, without what is long.
func (k *call) detail() string {
	text := k.cmd.Program
	for _, w := range k.cmd.Args {
		if text += " " + w.Text; len(text) > 120 {
			return strings.ToValidUTF8(text[:120], "") + "…"
		}
	}
	return text
}

// touched returns the paths of a deed that is about files.
func (k *call) touched(kind Kind) []Path {
	switch kind {
	case DeleteRecursive:
		return k.pathsOf(k.operands, k.entries)
	case PermissionLoosen, OwnerChange, OverwriteDevice:
		words := k.operands
		if (kind == PermissionLoosen || kind == OwnerChange) && len(words) > 0 {
			words = words[1:]
		}
		return k.pathsOf(words, k.paths)
	}
	return nil
}

// A GitCall is a command of git whose words have been sorted.
type GitCall struct {
	Command  string // such as "stash drop"
	Operands []shell.Word
	Dashed   bool // there was a --
	Before   int  // operands before it
	flags    []flag
}

// ParseGit sorts the words of a command of git.
func ParseGit(c *shell.Command) *GitCall {
	k := &call{cmd: c, spec: gitPrograms["git"]}
	g, args := &GitCall{}, c.Args
	for k.spec != nil && len(k.spec.subs) > 0 {
		args = k.sort(args, true)
		if len(args) == 0 {
			break
		}
		name := strings.ToLower(args[0].Value)
		g.Command = strings.TrimPrefix(g.Command+" "+name, " ")
		k.spec, args = k.spec.subs[name], args[1:]
	}
	if k.spec == nil {
		k.spec = &program{}
	}
	k.sort(args, false)
	g.Operands, g.Dashed, g.Before, g.flags = k.operands, k.dashed, k.before, k.flags
	return g
}

// Flag returns the value that a flag was last given, and how often it was given. Its name is the
// first one in the table.
func (g *GitCall) Flag(name string) (value shell.Word, times int) {
	for _, f := range g.flags {
		if f.name == name {
			value = f.value
			times++
		}
	}
	return value, times
}

// Has reports whether one of some flags was given.
func (g *GitCall) Has(names ...string) bool {
	return slices.ContainsFunc(g.flags, func(f flag) bool { return slices.Contains(names, f.name) })
}

// flag returns a flag that was given.
func (k *call) flag(name string) (flag, bool) {
	for _, f := range k.flags {
		if f.name == name {
			return f, true
		}
	}
	return flag{}, false
}

// holds reports whether all terms of a rule hold.
func (k *call) holds(when string) bool {
	for term := range strings.FieldsSeq(when) {
		negated := false
		if term[0] == '!' {
			negated, term = true, term[1:]
		}
		any := false
		for alternative := range strings.SplitSeq(term, "|") {
			any = any || k.term(alternative)
		}
		if any == negated {
			return false
		}
	}
	return true
}

func (k *call) term(t string) bool {
	switch t[0] {
	case '#':
		if strings.HasPrefix(t, "#>") {
			return len(k.operands) > int(t[2]-'0')
		}
		return len(k.operands) == int(t[1]-'0')
	case '@':
		t = t[1:]
		words := k.operands
		if len(t) > 1 && t[1] == '=' {
			n := int(t[0] - '1')
			if n >= len(words) {
				return false
			}
			words, t = words[n:n+1], t[2:]
		}
		for _, w := range words {
			if matches(t, w) {
				return true
			}
		}
		return false
	}
	name, pattern, hasPattern := strings.Cut(strings.TrimLeft(t, "-"), "=")
	if t == "--" {
		return k.dashed
	}
	for _, f := range k.flags {
		if f.name == name && (!hasPattern || f.has && matches(pattern, f.value)) {
			return true
		}
	}
	return false
}

// matches reports whether a word fits a pattern in which case does not count.
func matches(pattern string, w shell.Word) bool {
	v := w.Value
	if w.Kind == shell.Unknown {
		if w.Prefix == "" {
			return false
		}
		if v = w.Prefix; strings.HasSuffix(pattern, "?*") {
			v += "?" // what is not known is hardly empty
		}
	}
	// No element of a path matters here.
	v = strings.ReplaceAll(strings.ToLower(v), "/", "\x00")
	ok, err := path.Match(strings.ReplaceAll(strings.ToLower(pattern), "/", "\x00"), v)
	return err == nil && ok
}
