package effects

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/shell"
)

// copies adds what cp reads and writes.
func (k *call) copies() {
	note := k.linked
	if _, symbolic := k.flag("s"); !symbolic {
		note = nil
	}
	k.transfer(k.read, note)
}

// moves adds what mv takes away and writes.
func (k *call) moves() {
	k.transfer(func(i int, w shell.Word) {
		k.read(i, w)
		k.delete(i, w)
	}, k.moved)
	if n := len(k.operands); n > 1 && isStandardDevice(k.operands[n-1]) {
		k.deed(DeleteRecursive, k.index, k.detail(), k.pathsOf(k.operands[:n-1], k.entries)...)
	}
}

func (k *call) pathsOf(words []shell.Word, paths func(int, shell.Word) []Path) []Path {
	var out []Path
	for _, w := range words {
		out = append(out, paths(k.index, w)...)
	}
	return out
}

func (k *call) installs() {
	if _, ok := k.flag("d"); ok {
		k.applyWords("W...")
		return
	}
	k.transfer(k.read, nil)
	if f, ok := k.flag("m"); ok && isLoose(f.value) {
		k.loosens(k.operands[max(0, len(k.operands)-1):])
	}
}

func (k *call) links() {
	if len(k.operands) == 1 {
		to := shell.NewWord(".")
		k.write(k.index, baseOf(k.operands[0], "."))
		k.renames(k.operands, to, true, false, k.linked)
		return
	}
	k.transfer(k.read, k.linked)
}

// transfer takes sources by take, and adds what is written: the last operand,
// or what it becomes in the folder that the last operand or -t names. If the
// sources get these names, or the names lead to them, note is told.
func (k *call) transfer(take func(int, shell.Word), note func(source, to shell.Word, dest Path, maybe bool)) {
	sources := k.operands
	f, isFolder := k.flag("t")
	to, given, isKnown := f.value, isFolder, isFolder
	_, isName := k.flag("T")
	if _, n := k.flag("n"); n && k.cmd.Program == "ln" {
		isName = true
	}
	if n := len(sources); !given && n > 1 {
		to, sources, given = sources[n-1], sources[:n-1], true
		isKnown = n > 2 || strings.HasSuffix(to.Value, "/")
		isFolder = isKnown || !isName && slices.ContainsFunc(k.paths(k.index, to), k.isFolder)
		k.writePaths(k.index, k.named(k.index, to, note != nil && !isFolder))
	}
	for _, w := range sources {
		take(k.index, w)
	}
	v, known := to.Literal()
	if !given {
		return
	}
	isKnown = isKnown || v == "." || v == ".." || !isName && isFolderName(path.Clean(v), k.line.Home)
	for _, w := range sources {
		if known && len(sources) <= 20 && (isKnown || isFolder && w.Kind == shell.Literal) {
			k.write(k.index, baseOf(w, v))
		}
	}
	if note != nil {
		k.renames(sources, to, isFolder, isName, note)
	}
}

// isFolderName reports whether name is surely a folder.
func isFolderName(name, home string) bool {
	return name == home || name == home+"/.ssh" || name == "/root" || strings.LastIndexByte(name, '/') == 0 || strings.HasPrefix(name, "/etc/cron.") || name == "/etc/systemd/system"
}

// baseOf returns the last element of w in dir.
func baseOf(w shell.Word, dir string) shell.Word {
	v, ok := w.Literal()
	if !ok {
		v = w.Value
		if v == "" {
			v = w.Suffix
		}
	}
	if v == "" {
		return shell.NewWord(dir)
	}
	return shell.NewWord(strings.TrimSuffix(dir, "/") + "/" + path.Base(v))
}

// shreds adds the files that shred deletes when it has overwritten them.
func (k *call) shreds() {
	if _, ok := k.flag("u"); ok {
		k.applyWords("D...")
	}
}

// dd adds the files of dd's operands.
func (k *call) dd() {
	for _, w := range k.cmd.Args {
		if file, ok := w.After("if="); ok {
			k.read(k.index, file)
		}
		if file, ok := w.After("of="); ok {
			k.write(k.index, file)
			if file.Kind == shell.Unknown && file.Prefix == "" {
				continue
			}
		}
	}
}

// sed adds the files that sed reads, and writes with -i or w.
func (k *call) sed() {
	_, e := k.flag("e")
	_, f := k.flag("f")
	words := k.operands
	if len(words) > 0 && words[0].Text != "" && words[0].Value == "" && words[0].Kind == shell.Literal {
		words = words[1:] // sed -i '' of BSD
	}
	if !e && !f && len(words) > 0 {
		k.sedRuns(words[0])
		words = words[1:]
	}
	for _, f := range k.flags {
		if f.name == "e" {
			k.sedRuns(f.value)
		}
	}
	_, inPlace := k.flag("i")
	for _, w := range words {
		k.read(k.index, w)
		if inPlace {
			k.write(k.index, w)
		}
	}
}

var sedCommand = regexp.MustCompile(`(?m)(?:^|[;{}])\s*[0-9$,/]*\s*e\s+(\S.*)`)

// sedRuns adds what GNU sed's command e runs.
func (k *call) sedRuns(script shell.Word) {
	for _, m := range sedCommand.FindAllStringSubmatch(script.Value, 16) {
		k.codeLine(k.index, m[1])
	}
}

// edits adds what an editor is told to run by a flag or on its input.
func (k *call) edits() {
	run := func(text string) {
		for line := range strings.SplitSeq(text, "\n") {
			line = strings.TrimPrefix(strings.TrimLeft(line, ":+ "), "silent ")
			if command, ok := strings.CutPrefix(strings.TrimPrefix(line, "silent! "), "!"); ok {
				k.codeLine(k.index, command)
			}
		}
	}
	for _, f := range k.flags {
		run(f.value.Value)
	}
	for _, w := range k.operands {
		if strings.HasPrefix(w.Value, "+") {
			run(w.Value)
		}
	}
	if k.cmd.Input != nil {
		run(k.cmd.Input.Value)
	}
}

// inPlace adds the files that perl -i and ruby -i write.
func (k *call) inPlace() {
	if _, ok := k.flag("i"); !ok {
		return
	}
	words := k.operands
	if k.cmd.Program == "yq" && len(words) > 0 {
		words = words[1:]
	}
	for _, w := range words {
		k.write(k.index, w)
	}
}

// grep adds the files that are searched: all operands but the pattern.
func (k *call) grep() {
	words := k.operands
	_, e := k.flag("e")
	_, f := k.flag("f")
	if !e && !f && len(words) > 0 {
		words = words[1:]
	}
	for _, w := range words {
		k.read(k.index, w)
	}
}

// compresses adds the files that gzip and its like replace.
func (k *call) compresses() {
	for _, w := range k.operands {
		k.read(k.index, w)
	}
}

// tar adds the archive and the folder that tar writes to or reads from.
func (k *call) tar() {
	var create, extract bool
	var archive *shell.Word
	var members []shell.Word
	dir := shell.NewWord(".")
	args := k.cmd.Args
	for i := 0; i < len(args); i++ {
		v, ok := args[i].Literal()
		long := strings.HasPrefix(v, "--")
		switch {
		case ok && long:
			name, value, _ := strings.Cut(v[2:], "=")
			switch name {
			case "create", "append", "update":
				create = true
			case "extract", "get":
				extract = true
			case "file":
				w := shell.NewWord(value)
				archive = &w
			case "directory":
				dir = shell.NewWord(value)
			}
		case ok && len(v) > 1 && (v[0] == '-' || i == 0):
			create = create || strings.ContainsAny(v, "cru") && !strings.Contains(v, "x")
			extract = extract || strings.Contains(v, "x")
			if strings.ContainsAny(v, "f") && i+1 < len(args) {
				i++
				archive = &args[i]
			} else if strings.Contains(v, "C") && i+1 < len(args) {
				i++
				dir = args[i]
			}
		default:
			members = append(members, args[i])
		}
	}
	if archive != nil && archive.Value != "-" {
		if create {
			k.write(k.index, *archive)
		} else {
			k.read(k.index, *archive)
		}
	}
	if create {
		for _, w := range members {
			k.read(k.index, w)
		}
	} else if extract {
		k.write(k.index, dir)
	}
}

// find adds what find deletes.
func (k *call) find() {
	s := shell.ParseFind(k.cmd.Args)
	for _, w := range s.Roots {
		k.read(k.index, w)
	}
	for _, w := range s.Writes {
		k.write(k.index, w)
	}
	if !s.Deletes {
		return
	}
	for _, w := range s.Found() {
		paths := k.entries(k.index, w)
		k.add(&k.effects.Deletes, paths)
		if !s.Empty {
			k.deed(DeleteRecursive, k.index, k.detail(), paths...)
		}
	}
}

// chmod adds the deed of loosening permissions.
func (k *call) chmod() {
	if len(k.operands) < 2 {
		return
	}
	for _, f := range k.flags { // chmod -x f
		if strings.Contains("rwxst", f.name) {
			return
		}
	}
	if isLoose(k.operands[0]) {
		k.loosens(k.operands[1:])
	}
	k.changes()
}

// changes adds files whose permissions or owner change, where that matters.
func (k *call) changes() {
	for _, w := range k.operands[min(1, len(k.operands)):] {
		for _, p := range k.paths(k.index, w) {
			if kind := kindOfWrite(p, k.line.Home); kind == LoginFile || kind == SystemFile && strings.HasPrefix(p.Name, "/etc/") {
				k.deed(PermissionLoosen, k.index, k.detail(), p)
			}
		}
	}
}

func (k *call) loosens(words []shell.Word) {
	k.deed(PermissionLoosen, k.index, k.detail(), k.pathsOf(words, k.paths)...)
}

// isLoose reports whether a mode lets everybody write, or a program run as its
// owner.
func isLoose(mode shell.Word) bool {
	v, ok := mode.Literal()
	if !ok || v == "" {
		return false
	}
	if strings.Trim(v, "01234567") == "" {
		special := len(v) >= 4 && strings.IndexByte("2467", v[len(v)-4]) >= 0
		return special || strings.IndexByte("2367", v[len(v)-1]) >= 0
	}
	for clause := range strings.SplitSeq(v, ",") {
		i := strings.IndexAny(clause, "+=")
		if i < 0 {
			continue
		}
		who, what := clause[:i], clause[i+1:]
		if strings.Contains(what, "s") || strings.Contains(what, "w") && strings.ContainsAny(who, "oa") {
			return true
		}
	}
	return false
}
