package facts

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	"github.com/thoughtgate/thoughtgated/internal/shell"
	"github.com/thoughtgate/thoughtgated/internal/shell/effects"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// The tools of an agent itself, those of the server [agenthook.Server], are known: what they do
// follows from their arguments, and nothing is inferred from their names. Each call that is about
// files becomes a command line that does the same, so that one table says what all of them do: a
// tool that deletes a file is as rm.
//
// The arguments stay on this machine unless the line reaches another one. So only then a secret in
// them is a fact.

// calledTool returns the name of the tool whose verbs count: "" for the agent's own tools. A call of
// an MCP server's tool that the agent reports is one of that tool.
func calledTool(c *gate.Call) string {
	switch {
	case !isOwnTool(c):
		return c.Subject
	case c.Subject == agenthook.MCP:
		in := rawjson.Read(c.Arguments())
		if tool := in.OptionalText("tool"); in.Err() == nil {
			return tool
		}
		return c.Subject
	}
	return ""
}

// isOwnTool reports whether c is a call of a tool of the agent itself.
func isOwnTool(c *gate.Call) bool {
	return c.Server == agenthook.Server && c.Side == wire.FromAgent && mcp.SubjectKind(c.Method) == mcp.Tool
}

// textOf returns a member that is a text.
func textOf(in rawjson.Object, name string) (string, bool) {
	text, err := rawjson.Text(in.Get(name))
	return text, err == nil
}

// ownTool examines the arguments of one of the agent's own tools.
func (l *inspection) ownTool() {
	in := rawjson.Read(l.call.Arguments())
	line, members := l.lineOf(in)
	if in.Err() != nil {
		line, members = nil, nil
	}
	l.local = l.call.Subject == agenthook.Spawn || line != nil
	if line != nil {
		l.line(line, func() string { return members[0] })
	}
	l.walk.raw = l.call.Arguments()
	if err := l.walk.run(ownMembers{l, members}); err != nil {
		l.add(Secret, "the arguments could not be read completely", "")
	}
}

// ownMembers walks the arguments of a call of the agent's own tools. Of the members that its line
// stands for, and of contents of files, only what leaves the machine matters.
type ownMembers struct {
	*inspection
	known []string
}

func (o ownMembers) value(w *walk, kind jsontext.Kind, v span) {
	name := string(w.nameAt(0))
	switch {
	case !slices.Contains(o.known, name):
		o.inspection.value(w, kind, v)
	case kind == '"' && !o.local:
		o.text(w.said(v), manner{secrets: true}, o.path)
	}
}

// lineOf returns the command line that does what the call does, and the members that it stands
// for. It returns nil if there is none: then all arguments are examined as texts.
func (l *inspection) lineOf(in rawjson.Object) (*shell.Line, []string) {
	dir := l.directory(in)
	home := l.finder.own.home
	name, hasPath := textOf(in, "path")
	if rest, ok := strings.CutPrefix(name, "~/"); ok && home != "" {
		name = home + "/" + rest
	}
	line := &fileLine{shell.Line{Home: home}, dir}
	members := []string{"path", "cwd"}
	switch tool := l.call.Subject; {
	case tool == agenthook.Shell:
		if command, ok := commandOf(in); ok {
			return shell.Parse(command, shell.Options{Dir: dir, Home: home}), []string{"command", "cwd"}
		}
		return nil, members[1:]
	case tool == agenthook.Search && hasPath:
		line.add("cat", name)
		members = append(members, "query")
	case tool == agenthook.Search:
		return nil, []string{"query", "cwd"}
	case tool == agenthook.Read && hasPath:
		line.add("cat", name)
	case tool == agenthook.Delete && hasPath:
		line.add("rm", name)
	case tool == agenthook.Write && in.Has("patch"):
		patch, _ := textOf(in, "patch")
		if err := line.patch(patch); err != nil || hasPath {
			l.oddPatch(patch)
		}
		if hasPath {
			line.add("touch", name)
		}
		members = append(members, "patch")
	case tool == agenthook.Write && hasPath:
		line.add("touch", name)
		members = append(members, "content", "contents", "file_text", "old_string", "new_string", "old_str", "new_str", "edits")
	default:
		return nil, members[1:]
	}
	return &line.Line, members
}

// fileLine is a command line that is put together from what a tool does to files.
type fileLine struct {
	shell.Line
	dir string
}

func (f *fileLine) add(program string, paths ...string) {
	c := shell.Command{Program: program, Name: shell.NewWord(program), Args: []shell.Word{shell.NewWord("--")}, Dirs: []string{f.dir}}
	for _, p := range paths {
		c.Args = append(c.Args, shell.NewWord(p))
	}
	f.Commands = append(f.Commands, c)
}

// patch adds what a patch does.
func (f *fileLine) patch(text string) error {
	files, err := effects.ParsePatch(text)
	for _, file := range files {
		switch {
		case file.Op == effects.PatchDelete:
			f.add("rm", file.Name)
		case file.To != "":
			f.add("mv", file.Name, file.To)
		default:
			f.add("touch", file.Name)
		}
	}
	return err
}

// oddPatch examines a patch that can't be read. The agent's tool may be less strict.
func (l *inspection) oddPatch(patch string) {
	at := func() string { return "patch" }
	l.text([]byte(patch), manner{places: true}, at)
	l.ours([]byte(patch), false, at)
	l.addDetail(Opaque, "a patch that could not be read", at)
	if strings.Contains(strings.ToLower(patch), "delete file") {
		l.addDetail(Destroys, "deletes files by a patch that could not be read", at)
	}
}

// commandOf returns the command line of a shell's call. Some agents give a list of words.
func commandOf(in rawjson.Object) (string, bool) {
	if command, ok := textOf(in, "command"); ok {
		return command, true
	}
	words, err := rawjson.Elements(in.Get("command"))
	if err != nil || len(words) == 0 {
		return "", false
	}
	quoted := make([]string, len(words))
	for i, raw := range words {
		word, err := rawjson.Text(raw)
		if err != nil {
			return "", false
		}
		quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " "), true
}

// directory returns the folder in which a call is executed, or "" if it is not known. What the
// agent says counts only if there is such a folder.
func (l *inspection) directory(in rawjson.Object) string {
	project := l.call.Project
	if !in.Has("cwd") {
		return project
	}
	dir, ok := textOf(in, "cwd")
	switch {
	case !ok || dir == "":
		return ""
	case !path.IsAbs(dir) && project == "":
		return ""
	case !path.IsAbs(dir):
		dir = path.Join(project, dir)
	}
	to := (&candidate{look: l, own: l.finder.own}).follow("/", dir)
	if !to.exists || to.named != "" {
		return ""
	}
	return path.Clean(dir)
}

// line adds the facts of a command line.
func (l *inspection) line(line *shell.Line, at where) {
	e := effects.Of(line)
	seen := map[string]bool{}
	for i, list := range [][]effects.Path{e.Reads, e.Runs, e.Writes, e.Deletes} {
		removes := i == 3
		for _, p := range list {
			if key := fmt.Sprint(i == 0, removes, p.Name, "\x00", p.Text); !seen[key] && !l.isCanceled() {
				seen[key] = true
				l.touches(p, removes, i == 0 && isSearch(p), at)
			}
		}
	}
	if l.pathsOnly {
		return
	}
	for _, c := range line.Commands {
		if c.Remote != "" {
			l.addDetail(Remote, "runs on another system: "+l.shown(c.Remote), at)
			l.local = false
		}
	}
	sends := false
	for _, d := range e.Deeds {
		l.deed(&d, line, e, at)
		sends = sends || d.Kind == effects.DataUpload || d.Kind == effects.PackagePublish
	}
	l.hosts(e.Hosts, sends)
	l.unseen(line, e, at)
	l.losses(line, e, at)
}

// isSearch reports whether a path stands for what a search in a folder finds.
func isSearch(p effects.Path) bool {
	return p.Kind == effects.Pattern && strings.Contains(p.Name, "**")
}

// touches examines a path that the line reads, writes or deletes. That something of ours may be
// among the files that a search reads does not name it; the folder that is searched is a path too.
func (l *inspection) touches(p effects.Path, removes, search bool, at where) {
	if p.Remote != "" {
		return
	}
	name := p.Name + p.Tail
	for _, name := range []string{name, strings.ReplaceAll(name, "*", "")} {
		if what, is := placeOf([]byte(name)); is && !l.pathsOnly {
			l.add(SecretPlace, "names "+what+", where credentials are kept", at())
			break
		}
	}
	if p.Kind == effects.Below || p.Kind == effects.Unknown {
		name = p.Text
	}
	if search {
		return
	}
	before := l.removes
	l.removes = removes
	l.ours([]byte(name), false, at)
	l.removes = before
}

// deed adds the facts for what a command does that is not about files to be lost.
func (l *inspection) deed(d *effects.Deed, line *shell.Line, e *effects.Effects, at where) {
	text := l.shown(d.Detail)
	if d.Remote != "" {
		text += ", on " + l.shown(d.Remote)
	}
	switch d.Kind {
	case effects.CodeFromNetwork:
		l.addDetail(NetworkCode, "runs what another machine sends: "+text, at)
	case effects.ServiceInstall:
		l.addDetail(Installs, "changes what runs by itself: "+text, at)
	case effects.LoginFile, effects.UserManagement:
		l.addDetail(Installs, "changes what runs at login, or who gets in: "+text, at)
	case effects.SystemFile:
		l.addDetail(Installs, "changes the operating system: "+text, at)
	case effects.FirewallOff:
		l.addDetail(Installs, "switches off a protection of the machine: "+text, at)
	case effects.PermissionLoosen, effects.OwnerChange:
		if l.isAnyBeyond(d.Paths) {
			l.addDetail(Installs, "changes who may use files outside of the project: "+text, at)
		}
	case effects.PackagePublish:
		l.addDetail(Sends, "publishes: "+text, at)
	case effects.DataUpload:
		if reachesOnlyHere(e.Hosts, d.Command) {
			return
		}
		l.addDetail(Sends, "sends files: "+text, at)
		if slices.ContainsFunc(d.Paths, func(p effects.Path) bool { return p.Remote == "" && !l.isInProject(p) }) {
			l.addDetail(Uploads, "sends files from outside of the project: "+text, at)
		}
		l.local = false
	case effects.DeleteRecursive, effects.GitDiscard, effects.GitForcePush: // see losses
	case effects.DatabaseDrop:
		l.addDetail(Destroys, "drops what a database holds: "+text, at)
	case effects.Infrastructure:
		l.addDetail(Destroys, "removes infrastructure: "+text, at)
	case effects.OverwriteDevice:
		l.addDetail(Destroys, "overwrites a disk: "+text, at)
	case effects.HistoryTamper:
		l.addDetail(Destroys, "removes traces of what was done: "+text, at)
	default:
		l.addDetail(Destroys, "ends processes of the system: "+text, at)
	}
}

// isInProject reports whether a path is surely in the project.
func (l *inspection) isInProject(p effects.Path) bool {
	if l.call.Project == "" {
		return false
	}
	r := p.In(l.call.Project)
	return r == effects.Inside || r == effects.Whole && (p.Name == l.call.Project || p.Kind == effects.Pattern && certain(p) == l.call.Project)
}

// isAnyBeyond reports whether any path may be outside of the project, and is not temporary.
func (l *inspection) isAnyBeyond(paths []effects.Path) bool {
	return len(paths) == 0 || slices.ContainsFunc(paths, func(p effects.Path) bool { return p.Remote != "" || !p.Temp && !l.isInProject(p) })
}

// hosts compares the machines that the line reaches with the memory.
func (l *inspection) hosts(hosts []effects.Host, sends bool) {
	if l.recall != nil {
		l.recall.sends = sends
	}
	for _, h := range hosts {
		l.local = l.local && isThisMachine(h.Name)
		l.recall.argument(&l.walk, []byte("url"), []byte(h.Name), false)
	}
}

// reachesOnlyHere reports whether a command reaches this machine and no other.
func reachesOnlyHere(hosts []effects.Host, command int) bool {
	here := false
	for _, h := range hosts {
		if h.Command == command {
			if !isThisMachine(h.Name) {
				return false
			}
			here = true
		}
	}
	return here
}

func isThisMachine(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && (ip.IsLoopback() || ip.IsUnspecified())
}

// unseen adds facts for what the text of the line does not show.
func (l *inspection) unseen(line *shell.Line, e *effects.Effects, at where) {
	for _, o := range line.Opaque {
		l.addDetail(Opaque, opaqueBecause[o.Reason]+": "+l.shown(o.Detail), at)
		if o.Reason != shell.Unparsed && o.Reason != shell.Limit {
			continue
		}
		if name := destroyerIn(line.Text[judgedUpTo(line, o.Pos):]); name != "" {
			l.addDetail(Destroys, "names "+name+" in a part that could not be read", at)
		}
	}
	if e.Truncated {
		l.addDetail(Destroys, "does more than could be examined", at)
	}
}

var opaqueBecause = map[shell.Reason]string{
	shell.Unparsed:    "a part could not be read",
	shell.Limit:       "a part was not examined",
	shell.CommandName: "a program that is known only when it runs",
	shell.Eval:        "commands that are known only when they run",
	shell.Stdin:       "runs what another command writes",
	shell.Decoded:     "runs what is hidden by an encoding",
	shell.Sourced:     "runs a file in this shell",
	shell.Recursive:   "calls itself",
}

// judgedUpTo returns the end of the last command before an error.
func judgedUpTo(line *shell.Line, pos int) int {
	end := 0
	for _, c := range line.Commands {
		if c.End <= pos {
			end = max(end, c.End)
		}
	}
	return min(end, len(line.Text))
}

// destroyerIn returns a word of text that names a program that can destroy, or "". find does so only
// with -delete; what it executes is a word of its own.
func destroyerIn(text string) string {
	deletes := strings.Contains(text, "-delete")
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r <= ' ' || strings.ContainsRune("\"'`;|&<>(){}=$", r) }) {
		if name := path.Base(word); effects.CanDestroy(name) && (deletes || strings.TrimPrefix(name, "g") != "find") {
			return name
		}
	}
	return ""
}

// addDetail adds a fact, or what made it true once more.
func (l *inspection) addDetail(name, detail string, at where) {
	const longest = 1000
	for i := range l.facts {
		f := &l.facts[i]
		if f.Name != name || f.Member != at() {
			continue
		}
		if !strings.Contains(f.Detail, detail) && len(f.Detail)+len(detail) < longest {
			f.Detail += "; " + detail
		}
		return
	}
	l.add(name, detail, at())
}

// shown returns a part of a command for a person, without the secrets in it.
func (l *inspection) shown(text string) string {
	return string(unquoted(Redact(quoted(text, true), nil, func([]byte) string { return "…" })))
}
