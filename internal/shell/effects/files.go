package effects

import (
	"path"
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
	if len(k.operands) == 2 && k.operands[0].Value == "/dev/null" {
		k.delete(k.index, k.operands[1])
	}
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
		if known && len(sources) <= maxDeeds && (isKnown || isFolder && w.Kind == shell.Literal) {
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

// dd adds the files of dd's operands.
func (k *call) dd() {
	for _, w := range k.cmd.Args {
		if file, ok := w.After("if="); ok {
			k.read(k.index, file)
		}
		if file, ok := w.After("of="); ok {
			k.write(k.index, file)
			if slices.ContainsFunc(k.cmd.Args, func(w shell.Word) bool { return w.Value == "if=/dev/null" }) {
				k.delete(k.index, file)
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

// sedRuns adds what GNU sed's commands e and w run and write.
func (k *call) sedRuns(script shell.Word) { k.embeds(sedTexts, script.Value+script.Prefix) }

// edits adds what an editor is told to run by a flag or on its input.
func (k *call) edits() {
	for _, f := range k.flags {
		k.embeds(editorTexts, f.value.Value+f.value.Prefix)
	}
	for _, w := range k.operands {
		if text, ok := strings.CutPrefix(w.Value, "+"); ok {
			k.embeds(editorTexts, text)
		}
	}
	if k.cmd.Input != nil {
		k.embeds(editorTexts, k.cmd.Input.Value+k.cmd.Input.Prefix)
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

// tar adds the archive and the folder that tar writes to or reads from, and what it removes when
// it is archived. Its flags may come without a dash, and with their values behind all of them.
func (k *call) tar() {
	members := k.operands
	if len(k.cmd.Args) > 0 && !strings.HasPrefix(k.cmd.Args[0].Value+k.cmd.Args[0].Prefix, "-") && len(members) > 0 {
		letters := members[0].Value
		members = members[1:]
		for i := range len(letters) {
			f, kind := lookup(k.spec.flags, letters[i:i+1], false)
			if kind == '=' && len(members) > 0 {
				f.value, f.has, members = members[0], true, members[1:]
			}
			k.flags = append(k.flags, f)
		}
	}
	has := func(name string) bool { _, ok := k.flag(name); return ok }
	create := has("c") || has("r") || has("u")
	if archive, ok := k.flag("f"); ok && archive.value.Value != "-" {
		if create {
			k.write(k.index, archive.value)
		} else {
			k.read(k.index, archive.value)
		}
	}
	switch dir, elsewhere := k.flag("C"); {
	case create:
		for _, w := range members {
			k.read(k.index, w)
			if has("remove-files") {
				k.delete(k.index, w)
				k.deed(DeleteRecursive, k.index, k.detail(), k.paths(k.index, w)...)
			}
		}
	case has("x") && elsewhere:
		k.write(k.index, dir.value)
	case has("x"):
		k.write(k.index, shell.NewWord("."))
	}
}

// zips adds the files that zip moves into an archive.
func (k *call) zips() {
	if _, ok := k.flag("m"); !ok || len(k.operands) < 2 {
		return
	}
	for _, w := range k.operands[1:] {
		k.delete(k.index, w)
		k.deed(DeleteRecursive, k.index, k.detail(), k.paths(k.index, w)...)
	}
}

// empties adds the files that truncate leaves nothing of.
func (k *call) empties() {
	if f, ok := k.flag("s"); ok && strings.Trim(f.value.Value, "0") == "" {
		k.applyWords("D...")
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
