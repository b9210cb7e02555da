package effects

import (
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/shell"
)

// fetchers are programs whose output, or whose files, come from a host.
var fetchers = map[string]bool{
	"curl": true, "wget": true, "http": true, "https": true, "xh": true, "aria2c": true, "fetch": true, "lynx": true, "w3m": true, "elinks": true, "links": true, "axel": true,
	"nc": true, "ncat": true, "netcat": true, "socat": true, "ftp": true, "lftp": true, "tftp": true, "curlie": true, "dig": true, "nslookup": true, "telnet": true, "wget2": true,
}

// fetches reports whether the output of command i comes from a host, by itself
// or through what it reads.
func (a *analysis) fetches(i int) bool {
	if fetches, ok := a.fetched[i]; ok {
		return fetches
	}
	fetches := a.traceFetch(i)
	a.fetched[i] = fetches
	return fetches
}

func (a *analysis) traceFetch(i int) bool {
	seen := map[int]bool{}
	for queue := []int{i}; len(queue) > 0 && len(seen) < 200; queue = queue[1:] {
		n := queue[0]
		if n < 0 || n >= len(a.line.Commands) || seen[n] {
			continue
		}
		seen[n] = true
		c := &a.line.Commands[n]
		if fetchers[c.Program] || a.readsDownload(n) || a.readsHost(c) || len(c.Code) > 0 && codeFetches(c.Code) {
			return true
		}
		queue = append(queue, c.Stdin...)
		for _, w := range c.Args {
			queue = append(queue, w.From...)
		}
	}
	return len(seen) == 200
}

func (a *analysis) fetchesAny(from []int) bool {
	return slices.ContainsFunc(from, a.fetches)
}

func (a *analysis) readsHost(c *shell.Command) bool {
	return slices.ContainsFunc(c.Redirects, func(r shell.Redirect) bool {
		_, ok := devTCP(r.Target)
		return ok && r.Reads
	})
}

// readsDownload reports whether command i reads a file that the line fetched.
func (a *analysis) readsDownload(i int) bool {
	return slices.ContainsFunc(a.readsOf[i], func(p Path) bool { return p.Kind == Exact && a.downloads[p.Name] })
}

// downloaded remembers that a file comes from a host.
func (a *analysis) downloaded(i int, w shell.Word) {
	for _, p := range a.paths(i, w) {
		if p.Kind == Exact {
			a.downloads[p.Name] = true
		} else if p.Kind == Unknown || p.Kind == Below {
			a.downloads["\x00"+w.Text] = true // the same word names the same file
		}
	}
}

// script adds a file that is executed.
func (a *analysis) script(i int, w shell.Word) {
	for _, p := range a.paths(i, w) {
		a.effects.Runs = append(a.effects.Runs, p)
		if p.Kind == Exact && a.downloads[p.Name] || p.Kind != Exact && a.downloads["\x00"+w.Text] {
			a.deed(CodeFromNetwork, i, w.Text, p)
		}
	}
}

// executed adds the program itself if it is a file that the line fetched.
func (a *analysis) executed(i int, c *shell.Command) {
	if v, ok := c.Name.Literal(); ok && strings.Contains(v, "/") || c.Name.Kind == shell.Unknown {
		for _, p := range a.paths(i, c.Name) {
			if p.Kind == Exact && a.downloads[p.Name] || p.Kind != Exact && a.downloads["\x00"+c.Name.Text] {
				a.deed(CodeFromNetwork, i, c.Name.Text, p)
			}
		}
	}
}

// opaque adds what opaque code is known to be.
func (a *analysis) opaque(o shell.Opaque) {
	switch {
	case o.Reason == shell.Recursive && o.Background:
		a.deed(ForkBomb, o.Command, o.Detail)
	case a.fetchesAny(o.From):
		a.deed(CodeFromNetwork, o.Command, o.Detail)
	}
}

// host adds a host that a word names.
func (k *call) host(w shell.Word) {
	v, ok := w.Literal()
	if !ok {
		v = w.Prefix
	}
	h := Host{Text: w.Text, Command: k.index}
	if u, err := url.Parse(v); err == nil && u.Host != "" {
		h.Name = u.Hostname()
	} else if !strings.Contains(v, "://") {
		if _, rest, ok := strings.Cut(v, "@"); ok {
			v = rest
		}
		if i := strings.IndexAny(v, ":/?#"); i >= 0 {
			v = v[:i]
		}
		h.Name = v
	}
	if !ok && !strings.Contains(w.Prefix, "/") || strings.Count(w.Prefix, "/") < 3 && !ok {
		h.Name = "" // the unknown part may be in it
	}
	k.effects.Hosts = append(k.effects.Hosts, h)
	k.uploadFrom(w)
}

// inputs returns the files that what command i reads comes from.
func (a *analysis) inputs(i int) []Path {
	c := &a.line.Commands[i]
	var from []int
	from = append(from, c.Stdin...)
	var out []Path
	for _, r := range c.Redirects {
		if _, ok := devTCP(r.Target); r.Reads && !ok && !isStandardDevice(r.Target) {
			out = append(out, a.paths(i, r.Target)...)
		}
	}
	return append(out, a.readBy(from)...)
}

// readBy returns the files that commands read, through pipes.
func (a *analysis) readBy(from []int) []Path {
	seen := map[int]bool{}
	var out []Path
	for queue := from; len(queue) > 0 && len(seen) < 200; queue = queue[1:] {
		n := queue[0]
		if n < 0 || n >= len(a.line.Commands) || seen[n] {
			continue
		}
		seen[n] = true
		queue = append(slices.Clip(queue), a.line.Commands[n].Stdin...)
		for _, w := range a.line.Commands[n].Args {
			queue = append(slices.Clip(queue), w.From...)
		}
		out = append(out, a.readsOf[n]...)
		if c := &a.line.Commands[n]; (c.Program == "env" || c.Program == "printenv") && c.Remote == "" {
			out = append(out, Path{Name: environment, Text: c.Program, Command: n})
		}
	}
	return out
}

// upload adds a deed if files are sent.
func (a *analysis) upload(i int, detail string, files []Path) {
	if len(files) > 0 && len(files) < maxPaths {
		a.deed(DataUpload, i, detail, files...)
	}
}

// uploadFrom adds a deed if a word carries what a command read.
func (k *call) uploadFrom(w shell.Word) {
	if len(w.From) > 0 {
		k.upload(k.index, w.Text, k.readBy(w.From))
	}
}

func (k *call) uploadFile(w shell.Word) {
	if w.Value == "-" {
		k.upload(k.index, k.detail(), k.inputs(k.index))
		return
	}
	k.read(k.index, w)
	k.upload(k.index, k.detail(), k.paths(k.index, w))
}

// curl adds what curl sends and saves.
func (k *call) curl() {
	for _, f := range k.flags {
		switch f.name {
		case "d", "data-binary", "json", "data-urlencode", "F", "H", "url-query", "variable", "proxy-header":
			k.curlData(f)
		case "b":
			if k.uploadFrom(f.value); f.value.Kind == shell.Literal && !strings.Contains(f.value.Value, "=") {
				k.uploadFile(f.value)
			}
		case "T":
			if f.value.Value == "-" || f.value.Value == "." {
				k.upload(k.index, k.detail(), k.inputs(k.index))
			} else {
				k.uploadFile(f.value)
			}
		case "o":
			if !isStandardDevice(f.value) && f.value.Value != "-" {
				k.downloaded(k.index, f.value)
			}
		case "O", "J":
			k.saves()
		default:
			k.uploadFrom(f.value)
		}
	}
}

func (k *call) curlData(f flag) {
	w := f.value
	k.uploadFrom(w)
	file, ok := w.After("@")
	named := f.name == "data-urlencode" || f.name == "url-query" || f.name == "variable"
	if !ok && (f.name == "F" || named) {
		text := w.Value + w.Prefix
		if i := strings.IndexAny(text, "@<"); i > 0 && (named || text[i-1] == '=') {
			file, ok = w.After(text[:i+1])
			if v, known := file.Literal(); known {
				name, _, _ := strings.Cut(v, ";")
				file = shell.NewWord(name)
			}
		}
	}
	switch {
	case !ok:
	case file.Value == "-":
		k.upload(k.index, k.detail(), k.inputs(k.index))
	default:
		k.uploadFile(file)
	}
}

// saves adds the files that are saved by the names that their URLs have.
func (k *call) saves() {
	dir := "."
	for _, f := range k.flags {
		if f.name == "output-dir" || f.name == "P" || f.name == "d" && f.role == write {
			dir = f.value.Value
		}
	}
	for _, w := range k.operands {
		v := w.Value
		if v == "" {
			v = w.Suffix
		}
		if u, err := url.Parse(v); err == nil && v != "" {
			name := path.Base(u.Path)
			if name == "." || name == "/" {
				name = "index.html"
			}
			file := shell.NewWord(dir + "/" + name)
			k.write(k.index, file)
			k.downloaded(k.index, file)
		}
	}
}

func (k *call) wget() {
	for _, f := range k.flags {
		switch f.name {
		case "O":
			if v := f.value.Value; v != "-" && v != "/dev/stdout" {
				k.downloaded(k.index, f.value)
			}
			return
		case "post-file", "body-file":
			k.uploadFile(f.value)
		case "i":
			k.upload(k.index, k.detail(), k.paths(k.index, f.value))
		default:
			k.uploadFrom(f.value)
		}
	}
	k.saves()
}

// httpie adds what HTTPie sends.
func (k *call) httpie() {
	for _, w := range k.operands {
		v := w.Value + w.Prefix
		if i := strings.IndexByte(v, '@'); i > 0 && !strings.Contains(v[:i], "/") && !strings.Contains(v[:i], ":") {
			if file, ok := w.After(v[:i+1]); ok {
				k.uploadFile(file)
			}
		}
		k.uploadFrom(w)
	}
	if len(k.operands) > 0 {
		n := 0
		if v := k.operands[0].Value; v == strings.ToUpper(v) && len(k.operands) > 1 {
			n = 1
		}
		k.host(k.operands[n])
	}
	k.upload(k.index, k.detail(), k.inputs(k.index))
}

// isElsewhere reports whether a word of scp, rsync, aws s3 or gsutil names a
// place on another machine.
func isElsewhere(w shell.Word) bool {
	v := w.Value
	if w.Kind != shell.Literal {
		v = w.Prefix
		if v == "" {
			v = w.Suffix
		}
	}
	if i := strings.IndexByte(v, ':'); i >= 0 {
		return !strings.Contains(v[:i], "/") && (i > 0 || w.Kind == shell.Unknown)
	}
	return false
}

// transfers adds what goes to another machine, or comes from there.
func (k *call) transfers() {
	n := len(k.operands)
	if n < 2 {
		return
	}
	to, sources := k.operands[n-1], k.operands[:n-1]
	deletes := false
	for _, f := range k.flags {
		deletes = deletes || strings.HasPrefix(f.name, "del")
	}
	_, dry := k.flag("n")
	switch {
	case isElsewhere(to):
		k.host(to)
		_, removes := k.flag("remove-source-files")
		for _, w := range sources {
			if isElsewhere(w) {
				continue
			}
			if k.uploadFile(w); removes && !dry {
				k.deed(DeleteRecursive, k.index, k.detail(), k.paths(k.index, w)...)
			}
		}
		if deletes && !dry && k.cmd.Program == "rsync" {
			k.deed(DeleteRecursive, k.index, k.detail(), Path{Kind: Unknown, Text: to.Text, Remote: to.Text, Command: k.index})
		}
	default:
		k.write(k.index, to)
		for _, w := range sources {
			if isElsewhere(w) {
				k.host(w)
				k.downloaded(k.index, baseOf(w, to.Value))
				k.downloaded(k.index, to)
			} else {
				k.read(k.index, w)
			}
		}
		if deletes && !dry && k.cmd.Program == "rsync" {
			k.deed(DeleteRecursive, k.index, k.detail(), k.paths(k.index, to)...)
		}
	}
}

// netcat adds what is sent to a host, and a shell that is offered to one.
func (k *call) netcat() {
	if _, ok := k.flag("e"); ok {
		k.deed(CodeFromNetwork, k.index, k.detail())
	}
	if _, ok := k.flag("c"); ok {
		k.deed(CodeFromNetwork, k.index, k.detail())
	}
	if _, ok := k.flag("z"); !ok {
		k.upload(k.index, k.detail(), k.inputs(k.index))
	}
}

func (k *call) socat() {
	for _, w := range k.cmd.Args {
		v := strings.ToLower(w.Value)
		if strings.HasPrefix(v, "exec:") || strings.HasPrefix(v, "system:") {
			k.deed(CodeFromNetwork, k.index, k.detail())
		}
		for _, kind := range []string{"FILE:", "OPEN:", "GOPEN:", "file:", "open:", "gopen:"} {
			if file, ok := w.After(kind); ok {
				name, _, _ := strings.Cut(file.Value, ",")
				k.uploadFile(shell.NewWord(name))
			}
		}
	}
	k.upload(k.index, k.detail(), k.inputs(k.index))
}

func (k *call) mails() {
	k.upload(k.index, k.detail(), k.inputs(k.index))
}

// uploadsWords adds local files that are sent to a service.
func (k *call) uploadsWords() {
	for i, w := range k.operands {
		if isElsewhere(w) || i == len(k.operands)-1 && i > 0 {
			continue
		}
		k.uploadFile(w)
	}
}

// posts adds a text that carries what a command read, or is read from a pipe.
func (k *call) posts() {
	for _, f := range k.flags {
		k.uploadFrom(f.value)
		if f.name == "F" && f.value.Value == "-" {
			k.mails()
		}
	}
}

// ssh adds what the command line for another machine carries.
func (k *call) ssh() {
	for _, w := range k.operands[min(1, len(k.operands)):] {
		k.uploadFrom(w)
	}
	k.upload(k.index, k.detail(), k.inputs(k.index))
}

// sentOver adds the files of this machine that command i reads from pipes on one that ssh reaches.
func (a *analysis) sentOver(i int) {
	c := &a.line.Commands[i]
	if strings.HasPrefix(c.Remote, "ssh") || strings.HasPrefix(c.Remote, "autossh") {
		files := slices.DeleteFunc(a.readBy(c.Stdin), func(p Path) bool { return p.Remote != "" })
		a.upload(i, c.Remote, files)
	}
}

// pythonModule adds what python -m does where it matters.
func (k *call) pythonModule() {
	f, ok := k.flag("m")
	if ok {
		switch f.value.Value {
		case "twine":
			k.run(publishing["twine"], k.after(f.value))
		}
		return
	}
	if len(k.operands) > 0 && path.Base(k.operands[0].Value) == "manage.py" {
		k.run(databases["manage.py"], k.operands[1:])
	}
}

// after returns the words that follow w.
func (k *call) after(w shell.Word) []shell.Word {
	for i, x := range k.cmd.Args {
		if x.Text == w.Text && x.Value == w.Value {
			return k.cmd.Args[i+1:]
		}
	}
	return nil
}
