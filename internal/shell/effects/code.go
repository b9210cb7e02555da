package effects

import (
	"regexp"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/shell"
)

// A codePattern finds a call in code of another language whose first argument
// is a string. Code is not parsed: what is found is added, and what is not
// found is not known.
type codePattern struct {
	languages string
	what      byte // '$' a command line, or the role of a path
	recursive bool
	pattern   *regexp.Regexp
}

// str matches a string of most languages, with its text in one of the groups.
const str = `[rbfu]{0,2}(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')`

var codePatterns = []codePattern{
	{"python", '$', false, regexp.MustCompile(`(?:\bos\.(?:system|popen)|\b(?:system|popen|run|call|Popen|check_call|check_output|getoutput|getstatusoutput))\s*\(\s*(?:args\s*=\s*)?` + str)},
	{"python", erase, true, regexp.MustCompile(`\brmtree(?:\s+as\s+\w+\s*[;\n][^"']*)?\s*\(\s*(?:[\w.]*Path\(\s*)?` + str)},
	{"python", erase, false, regexp.MustCompile(`\b(?:os\.(?:remove|unlink|rmdir|removedirs))\s*\(\s*` + str)},
	{"python", erase, false, regexp.MustCompile(`\bPath\s*\(\s*` + str + `\s*\)\.(?:unlink|rmdir)\s*\(`)},
	{"python", write, false, regexp.MustCompile(`\bopen\s*\(\s*` + str + `\s*,\s*(?:mode\s*=\s*)?["'][rbt]*[wax+]`)},
	{"python", write, false, regexp.MustCompile(`\bPath\s*\(\s*` + str + `\s*\)\.(?:write_text|write_bytes)\s*\(`)},
	{"python", read, false, regexp.MustCompile(`\bopen\s*\(\s*` + str + `\s*(?:\)|,\s*(?:mode\s*=\s*)?["']rb?["'])`)},
	{"node", '$', false, regexp.MustCompile(`\b(?:exec|execSync|spawn|spawnSync|execFile|execFileSync)\s*\(\s*(?:` + str + `|\x60([^\x60]*)\x60)`)},
	{"node", erase, true, regexp.MustCompile(`\b(?:rm|rmSync|rmdir|rmdirSync|rimraf|removeSync|emptyDirSync)\s*\(\s*` + str)},
	{"node", erase, false, regexp.MustCompile(`\b(?:unlink|unlinkSync)\s*\(\s*` + str)},
	{"node", write, false, regexp.MustCompile(`\b(?:writeFile|writeFileSync|appendFile|appendFileSync|createWriteStream)\s*\(\s*` + str)},
	{"node", read, false, regexp.MustCompile(`\b(?:readFile|readFileSync|createReadStream)\s*\(\s*` + str)},
	{"perl ruby php lua awk", '$', false, regexp.MustCompile(`\b(?:system|exec|shell_exec|passthru|popen|proc_open|os\.execute|io\.popen|spawn)\s*\(?\s*` + str)},
	{"perl ruby php", '$', false, regexp.MustCompile("\x60([^\x60]*)\x60")},
	{"perl ruby", '$', false, regexp.MustCompile(`(?:%x|\bqx)\s*(?:\{([^}]*)\}|\(([^)]*)\)|\[([^\]]*)\])`)},
	{"awk", '$', false, regexp.MustCompile(`"((?:[^"\\]|\\.)*)"\s*\|\s*getline|\|\s*"((?:[^"\\]|\\.)*)"`)},
	{"ruby", erase, true, regexp.MustCompile(`\bFileUtils\.(?:rm_rf|rm_r|remove_dir|remove_entry|rmtree)\s*\(?\s*` + str)},
	{"ruby perl php", erase, false, regexp.MustCompile(`\b(?:File\.(?:delete|unlink)|unlink)\s*\(?\s*` + str)},
	{"perl", erase, true, regexp.MustCompile(`\b(?:rmtree|remove_tree)\s*\(?\s*` + str)},
	{"perl php", write, false, regexp.MustCompile(`\b(?:file_put_contents)\s*\(\s*` + str)},
	{"ruby", write, false, regexp.MustCompile(`\bFile\.write\s*\(?\s*` + str)},
	{"perl php", write, false, regexp.MustCompile(`\bopen\s*\(?[^;]*?,\s*["']\+?>>?["']\s*,\s*` + str)},
	{"perl", '$', false, regexp.MustCompile(`\bopen\s*\(?[^;]*?,\s*["'](?:-\||\|-)["']\s*,\s*` + str + `|\bopen\s*\(?[^;,]*,\s*"(?:\|([^"]*)|([^"]*)\|)"`)},
	{"awk", write, false, regexp.MustCompile(`\bprintf?\b[^;}\n]*>>?\s*` + str)},
	{"lua", erase, false, regexp.MustCompile(`\bos\.remove\s*\(?\s*` + str)},
	{"node", '$', false, regexp.MustCompile("\\$\x60([^\x60]*)\x60")},
	{"tcl", '$', false, regexp.MustCompile(`(?m)\b(?:exec|spawn|open\s+\|)\s*([^\n;\]}]+)`)},
	{"tcl", erase, true, regexp.MustCompile(`\bfile\s+delete\s+(?:-\w+\s+)*(?:--\s+)?([^\s;\]}]+)`)},
	{"lisp", '$', false, regexp.MustCompile(`\((?:shell-command|shell-command-to-string|call-process-shell-command|async-shell-command)\s+` + str)},
	{"lisp", erase, true, regexp.MustCompile(`\((?:delete-directory|delete-file)\s+` + str)},
	{"applescript", '$', false, regexp.MustCompile(`\bdo shell script\s+` + str)},
}

// lists finds subprocess.run(["rm", "-rf", "/"]) and its like.
var codeList = regexp.MustCompile(`\b(?:run|call|check_call|check_output|Popen|spawn|spawnSync|execFile|execFileSync|exec[vl]p?e?|spawn[vl]p?e?|posix_spawnp?)\s*\(\s*(?:` + str + `\s*,\s*|args\s*=\s*)?\[([^\]]*)\]`)

// codeShell finds a shell that gets its input from somewhere.
var codeShell = regexp.MustCompile(`(?i)pty\.spawn|dup2|/bin/(?:ba|z)?sh|cmd\.exe`)

var codeString = regexp.MustCompile(str)

var (
	codeRuns    = regexp.MustCompile(`\b(?:exec|eval|os\.system|subprocess|Function|loadstring|instance_eval)\b`)
	codeRequest = regexp.MustCompile(`\b(?:urlopen|urlretrieve|requests\.(?:get|post|put|patch|request)|httpx\.get|http\.get|https\.get|fetch\(|LWP::|Net::HTTP|open-uri|URI\.open|file_get_contents\s*\(\s*["']https?:)`)
)

// codeFetches reports whether code asks a host.
func codeFetches(code []shell.Code) bool {
	for _, c := range code {
		if codeRequest.MatchString(c.Text.Value + c.Text.Prefix) {
			return true
		}
	}
	return false
}

const (
	maxCode   = 64 << 10
	mostCalls = 64 // of each kind that are found in a text
)

// code adds what calls in code of another language do, as far as their
// arguments are strings.
func (a *analysis) code(i int, code shell.Code) {
	if a.fetchesAny(code.Text.From) {
		a.deed(CodeFromNetwork, i, code.Text.Text)
	}
	text := code.Text.Value + code.Text.Prefix
	if codeShell.MatchString(text) && strings.Contains(text, "socket") {
		a.deed(CodeFromNetwork, i, code.Language)
	}
	if len(text) > maxCode {
		text = text[:maxCode]
		a.effects.Truncated = true
	}
	if code.Language == "python" || code.Language == "node" || code.Language == "perl" || code.Language == "ruby" {
		if codeRequest.MatchString(text) && codeRuns.MatchString(text) && !strings.Contains(text, "re.compile") {
			a.deed(CodeFromNetwork, i, code.Language)
		}
	}
	for _, p := range codePatterns {
		if !strings.Contains(" "+p.languages+" ", " "+code.Language+" ") {
			continue
		}
		found := p.pattern.FindAllStringSubmatchIndex(text, mostCalls)
		a.effects.Truncated = a.effects.Truncated || len(found) == mostCalls
		for _, at := range found {
			m := make([]string, len(at)/2-1)
			for n := range m {
				if at[2*n+2] >= 0 {
					m[n] = text[at[2*n+2]:at[2*n+3]]
				}
			}
			a.codeCall(i, p, group(m), text[at[1]:])
		}
	}
	a.codeFound(i, text)
	if codeRequest.MatchString(text) {
		a.upload(i, code.Language, a.readsOf[i])
	}
	for _, m := range codeList.FindAllStringSubmatch(text, mostCalls) {
		words := []string{}
		if first := group(m[1:3]); first != "" {
			words = append(words, shell.Quote(first))
		}
		for _, s := range codeString.FindAllStringSubmatch(m[3], 64) {
			words = append(words, shell.Quote(group(s[1:])))
		}
		a.codeLine(i, strings.Join(words, " "))
	}
}

func group(m []string) string {
	for _, s := range m {
		if s != "" {
			return strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\'`, `'`, `\n`, "\n", `\/`, "/").Replace(s)
		}
	}
	return ""
}

// codeRest finds the strings that follow the first argument of a call, and codeJoined that what
// follows is joined to it.
var (
	codeRest   = regexp.MustCompile(`^(?:\s*,\s*` + str + `)+`)
	codeJoined = regexp.MustCompile(`^\s*[+.$\w"']`)
)

// codeCall adds what a call does, given its first argument and what follows that.
func (a *analysis) codeCall(i int, p codePattern, arg, rest string) {
	if arg == "" {
		return
	}
	w := shell.NewWord(arg)
	switch p.what {
	case '$':
		if more := codeRest.FindString(rest); more != "" {
			for _, s := range codeString.FindAllStringSubmatch(more, mostCalls) {
				arg += " " + shell.Quote(group(s[1:]))
			}
		} else if strings.HasSuffix(arg, " ") && codeJoined.MatchString(rest) {
			arg += "$_" // which is not known
		}
		a.codeLine(i, arg)
	case read:
		a.read(i, w)
	case write:
		a.write(i, w)
	case erase:
		a.delete(i, w)
		if p.recursive {
			a.deed(DeleteRecursive, i, arg, a.entries(i, w)...)
		}
	}
}

var (
	codeDeletes = regexp.MustCompile(`\b(?:unlink|unlinkSync|os\.remove|rmtree|File\.delete|FileUtils\.rm\w*|rmSync)\b`)
	codeGlob    = regexp.MustCompile(`\b(?:i?glob|rglob|Dir\.glob|Dir)\s*[(\[]?\s*["']([\w./*?~-]+)["']|<([\w./*?~-]*\*[\w./*?~-]*)>`)
	codeArgs    = regexp.MustCompile(`\bARGV\b|\bargv\b`)
)

// codeFound adds what code deletes of what it finds by a pattern, or is given as words.
func (a *analysis) codeFound(i int, text string) {
	if !codeDeletes.MatchString(text) {
		return
	}
	for _, m := range codeGlob.FindAllStringSubmatch(text, mostCalls) {
		a.codeLine(i, "rm -rf "+group(m[1:]))
	}
	c := &a.line.Commands[i]
	if !codeArgs.MatchString(text) {
		return
	}
	for _, w := range c.Args {
		if v, known := w.Literal(); !known || v != "" && v[0] != '-' && !strings.Contains(text, v) {
			a.deed(DeleteRecursive, i, w.Text, a.paths(i, w)...)
		}
	}
}

// codeLine adds the effects of a command line that code runs.
func (a *analysis) codeLine(i int, line string) {
	if a.nested >= mostCalls {
		a.effects.Truncated = true
		return
	}
	a.nested++
	c := &a.line.Commands[i]
	dir := ""
	if len(c.Dirs) == 1 {
		dir = c.Dirs[0]
	}
	inner := &analysis{line: shell.Parse(line, shell.Options{Dir: dir, Home: a.line.Home, Follow: a.line.Follow}), effects: &Effects{Moves: a.effects.Moves}, downloads: a.downloads, nested: a.nested, aliases: a.aliases, compared: a.compared, searched: a.searched,
		fetched: map[int]bool{}, readsOf: map[int][]Path{}}
	for n := range inner.line.Commands {
		inner.line.Commands[n].Remote += c.Remote
		inner.command(n)
	}
	for _, o := range inner.line.Opaque {
		inner.opaque(o)
		inner.effects.Truncated = inner.effects.Truncated || o.Reason == shell.Limit
	}
	a.nested, a.compared, a.searched = inner.nested, inner.compared, inner.searched
	a.effects.Truncated = a.effects.Truncated || inner.effects.Truncated
	a.adopt(i, inner.effects)
}

// adopt adds the effects of a line that command i runs.
func (a *analysis) adopt(i int, e *Effects) {
	own := func(paths []Path) []Path {
		for n := range paths {
			paths[n].Command = i
		}
		return paths
	}
	a.add(&a.effects.Reads, own(e.Reads))
	a.add(&a.effects.Writes, own(e.Writes))
	a.add(&a.effects.Deletes, own(e.Deletes))
	a.add(&a.effects.Runs, own(e.Runs))
	a.effects.Moves, a.effects.Truncated = e.Moves, a.effects.Truncated || e.Truncated
	for _, h := range e.Hosts {
		h.Command = i
		a.effects.Hosts = append(a.effects.Hosts, h)
	}
	for _, d := range e.Deeds {
		a.deed(d.Kind, i, d.Detail, own(d.Paths)...)
	}
}
