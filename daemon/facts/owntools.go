package facts

import (
	"fmt"
	"iter"
	"net/netip"
	"os"
	"path"
	"regexp"
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
		args := rawjson.Read(c.Arguments())
		if tool := args.OptionalText("tool"); args.Err() == nil {
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
func textOf(args rawjson.Object, name string) (string, bool) {
	text, err := rawjson.Text(args.Get(name))
	return text, err == nil
}

// ownTool examines the arguments of one of the agent's own tools.
func (in *inspection) ownTool() {
	args := rawjson.Read(in.call.Arguments())
	line, members := in.lineOf(args)
	if args.Err() != nil {
		line, members = nil, nil
	}
	in.local = in.call.Subject == agenthook.Spawn || line != nil
	if line != nil {
		in.line(line, func() string { return members[0] })
	}
	in.walk.raw = in.call.Arguments()
	if err := in.walk.run(ownMembers{in, members}); err != nil {
		in.add(gate.FactSecret, "the arguments could not be read completely", "")
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
func (in *inspection) lineOf(args rawjson.Object) (*shell.Line, []string) {
	dir := in.directory(args)
	home := in.finder.own.home
	name, hasPath := textOf(args, "path")
	if rest, ok := strings.CutPrefix(name, "~/"); ok && home != "" {
		name = home + "/" + rest
	}
	options := shell.Options{Dir: dir, Home: home}
	if !in.finder.own.past {
		options.Follow = in.leads
	}
	line := &fileLine{shell.Line{Home: home, Follow: options.Follow}, options.Dirs()}
	members := []string{"path", "cwd"}
	switch tool := in.call.Subject; {
	case tool == agenthook.Shell:
		if command, ok := commandOf(args); ok {
			return shell.Parse(command, options), []string{"command", "cwd"}
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
	case tool == agenthook.Write && args.Has("patch"):
		patch, _ := textOf(args, "patch")
		if err := line.patch(patch); err != nil || hasPath {
			in.oddPatch(patch)
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
	dirs []string
}

func (f *fileLine) add(program string, paths ...string) {
	c := shell.Command{Program: program, Name: shell.NewWord(program), Args: []shell.Word{shell.NewWord("--")}, Dirs: f.dirs}
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
func (in *inspection) oddPatch(patch string) {
	at := func() string { return "patch" }
	in.text([]byte(patch), manner{places: true}, at)
	in.ours([]byte(patch), false, at)
	in.addDetail(gate.FactOpaque, "a patch that could not be read", at)
	if strings.Contains(strings.ToLower(patch), "delete file") {
		in.addDetail(gate.FactDestroys, "deletes files by a patch that could not be read", at)
	}
}

// commandOf returns the command line of a shell's call. Some agents give a list of words.
func commandOf(args rawjson.Object) (string, bool) {
	if command, ok := textOf(args, "command"); ok {
		return command, true
	}
	words, err := rawjson.Elements(args.Get("command"))
	if err != nil || len(words) == 0 {
		return "", false
	}
	quoted := make([]string, len(words))
	for i, raw := range words {
		word, err := rawjson.Text(raw)
		if err != nil {
			return "", false
		}
		quoted[i] = shell.Quote(word)
	}
	return strings.Join(quoted, " "), true
}

// directory returns the folder in which a call is executed, with . and .. as written, or "" if it is
// not known. What the agent says counts only if there is such a folder.
func (in *inspection) directory(args rawjson.Object) string {
	project := in.call.Project
	if !args.Has("cwd") {
		return project
	}
	dir, ok := textOf(args, "cwd")
	switch {
	case !ok || dir == "":
		return ""
	case !path.IsAbs(dir) && project == "":
		return ""
	case !path.IsAbs(dir):
		dir = project + "/" + dir
	}
	to := (&candidate{inspection: in, own: in.finder.own}).follow("/", dir)
	if !to.exists || to.named != "" {
		return ""
	}
	return dir
}

// leads returns where an absolute path leads, and whether there is a folder; see [shell.Options].
func (in *inspection) leads(name string) (end string, isFolder bool) {
	if len(name) > longestFollow {
		return path.Clean(name), false
	}
	to := (&candidate{inspection: in, own: in.finder.own}).resolve("/", name)
	if to.named != "" && strings.Contains(name, "..") { // otherwise the path is examined as it is
		in.addOurs(to.named, atTop)
	}
	if to.named != "" || to.end == "" {
		return path.Clean(name), false
	}
	return to.end, to.isFolder
}

// line adds the facts of a command line.
func (in *inspection) line(line *shell.Line, at where) {
	e := effects.Of(line)
	seen := map[string]bool{}
	for i, list := range [][]effects.Path{e.Reads, e.Runs, e.Writes, e.Deletes} {
		removes := i == 3
		for _, p := range list {
			key := fmt.Sprint(i == 0, removes, p.Name, "\x00", p.Text)
			if seen[key] || in.isCanceled() || isIdentity(line, p) {
				continue
			}
			seen[key] = true
			in.touches(line, p, removes, i == 0 && isSearch(p), at)
		}
	}
	in.makes(line, e.Writes)
	if in.pathsOnly {
		return
	}
	for _, c := range line.Commands {
		if c.Remote != "" {
			in.addDetail(gate.FactRemote, "runs on another system: "+in.shown(c.Remote), at)
			in.local = false
		}
	}
	sends := false
	for _, d := range e.Deeds {
		in.deed(&d, line, e, at)
		sends = sends || d.Kind == effects.DataUpload || d.Kind == effects.PackagePublish
	}
	in.hosts(e.Hosts, sends)
	in.unseen(line, e, at)
	in.losses(line, e, at)
	if in.call.Subject == agenthook.Shell {
		args := rawjson.Read(in.call.Arguments())
		in.call.Grain = in.grain(line, e, args.Has("cwd") && args.Err() == nil)
	}
}

// programAt returns the name of the program of whose words p is one.
func programAt(line *shell.Line, p effects.Path) string {
	return effects.PlainName(line.Commands[p.Command].Program)
}

// isIdentity reports whether a path is the key that ssh is told to log in with, which it does not
// send.
func isIdentity(line *shell.Line, p effects.Path) bool {
	c := &line.Commands[p.Command]
	i := slices.IndexFunc(c.Args, func(w shell.Word) bool { return w.Value == "-i" })
	return (c.Program == "ssh" || c.Program == "scp" || c.Program == "sftp") && i >= 0 && i+1 < len(c.Args) && c.Args[i+1].Text == p.Text
}

// makes keeps the files that the call makes, for Forwarded: an agent may delete what it made. What
// it moves to a new name it has not made.
func (in *inspection) makes(line *shell.Line, writes []effects.Path) {
	in.call.Sends = nil
	for _, p := range writes {
		to, known := in.led[relativePath{"/", p.Name}]
		if p.Kind != effects.Exact || !known || to.exists || len(in.call.Sends) >= mostPlaces {
			continue
		}
		switch programAt(line, p) {
		case "mv", "ln", "git":
		default:
			in.call.Sends = append(in.call.Sends, in.finder.ownTool("file", to.end))
		}
	}
}

// hasMade reports whether a path is a file that a call of the session has made.
func (in *inspection) hasMade(name string) bool {
	end, _, _ := follow(in.ctx, "/", name)
	info, err := os.Lstat(end)
	return err == nil && info.Mode().IsRegular() && in.keeps("file", end)
}

// keeps reports whether Forwarded has kept a path for what a call of the session did.
func (in *inspection) keeps(what, name string) bool {
	return in.recall != nil && in.recall.memory.has(&in.recall.memory.made, in.finder.ownTool(what, name))
}

// isSearch reports whether a path stands for what a search in a folder finds.
func isSearch(p effects.Path) bool {
	return p.Kind == effects.Pattern && strings.Contains(p.Name, "**")
}

// touches examines a path that the line reads, writes or deletes. That something of ours may be
// among the files that a search reads does not name it; the folder that is searched is a path too.
func (in *inspection) touches(line *shell.Line, p effects.Path, removes, search bool, at where) {
	if p.Remote != "" || effects.IsStream(p) {
		return
	}
	name := p.Name + p.Tail
	for _, name := range []string{name, strings.ReplaceAll(name, "*", "")} {
		if what, is := placeOf([]byte(name)); is && !in.pathsOnly {
			in.add(gate.FactSecretPlace, "names "+what+", where credentials are kept", at())
			break
		}
	}
	if what, is := placeMatched(p, programAt(line, p)); is && !in.pathsOnly {
		in.add(gate.FactSecretPlace, "may name "+what+", where credentials are kept", at())
	}
	if p.Kind == effects.Below || p.Kind == effects.Unknown {
		name = p.Text
	}
	isFound := p.Kind == effects.Pattern && (p.Text == "{}" || strings.HasSuffix(p.Text, " …")) // as it is, so that it exists
	if search || isFound && in.findsNoneOfOurs(name) {
		return
	}
	before := in.removes
	in.removes, in.entries = removes, removes
	in.ours([]byte(name), false, at)
	in.removes, in.entries = before, false
}

// deed adds the facts for what a command does that is not about files to be lost.
func (in *inspection) deed(d *effects.Deed, line *shell.Line, e *effects.Effects, at where) {
	text := in.shown(d.Detail)
	if d.Remote != "" {
		text += ", on " + in.shown(d.Remote)
	}
	switch d.Kind {
	case effects.CodeFromNetwork:
		in.addDetail(gate.FactNetworkCode, "runs what another machine sends: "+text, at)
	case effects.ServiceInstall, effects.LoginFile, effects.UserManagement:
		in.installs(d.Kind, text, at)
	case effects.SystemFile:
		in.addDetail(gate.FactInstalls, "changes the operating system: "+text, at)
	case effects.FirewallOff:
		in.addDetail(gate.FactInstalls, "switches off a protection of the machine: "+text, at)
	case effects.PermissionLoosen, effects.OwnerChange:
		if in.isAnyBeyond(d.Paths) {
			in.addDetail(gate.FactInstalls, "changes who may use files outside of the project: "+text, at)
		}
	case effects.PackagePublish:
		in.addDetail(gate.FactSends, "publishes: "+text, at)
	case effects.DataUpload:
		if reachesOnlyHere(e.Hosts, d.Command) {
			return
		}
		in.addDetail(gate.FactSends, "sends files: "+text, at)
		if slices.ContainsFunc(d.Paths, func(p effects.Path) bool { return p.Remote == "" && !in.isInProject(p) }) {
			in.addDetail(gate.FactUploads, "sends files from outside of the project: "+text, at)
		}
		in.local = false
	case effects.GitHook:
		if slices.ContainsFunc(d.Paths, func(p effects.Path) bool { return (!p.Temp || in.isInProject(p)) && programAt(line, p) != "mkdir" }) {
			in.installs(d.Kind, text, at)
		}
	case effects.DeleteRecursive, effects.GitDiscard, effects.GitSwitch, effects.GitForcePush: // see losses
	case effects.DatabaseDrop:
		in.addDetail(gate.FactDestroys, "drops what a database holds: "+text, at)
	case effects.Infrastructure:
		in.addDetail(gate.FactDestroys, "removes infrastructure: "+text, at)
	case effects.OverwriteDevice:
		in.addDetail(gate.FactDestroys, "overwrites a disk: "+text, at)
	case effects.HistoryTamper:
		in.addDetail(gate.FactDestroys, "removes traces of what was done: "+text, at)
	default:
		in.addDetail(gate.FactDestroys, "ends processes of the system: "+text, at)
	}
}

// installs adds the fact that something will run by itself, or that somebody gets in.
func (in *inspection) installs(kind effects.Kind, text string, at where) {
	what := "changes what runs by itself: "
	switch kind {
	case effects.LoginFile, effects.UserManagement:
		what = "changes what runs at login, or who gets in: "
	case effects.GitHook:
		what = "changes what git runs by itself: "
	}
	in.addDetail(gate.FactInstalls, what+text, at)
}

// isInProject reports whether a path surely leads to the project.
func (in *inspection) isInProject(p effects.Path) bool {
	if in.call.Project == "" || p.Kind == effects.Unknown || p.Kind == effects.Below && strings.Contains(p.Tail, "..") {
		return false
	}
	to := (&candidate{inspection: in, own: in.finder.own}).follow("/", certain(p))
	project := in.finder.own.project(in.ctx, in.call.Project, in.call.Waited)
	return to.named == "" && (to.end == project || isBelow(to.end, project))
}

// isAnyBeyond reports whether any path may be outside of the project, and is not temporary.
func (in *inspection) isAnyBeyond(paths []effects.Path) bool {
	return len(paths) == 0 || slices.ContainsFunc(paths, func(p effects.Path) bool { return p.Remote != "" || !p.Temp && !in.isInProject(p) })
}

// hosts compares the machines that the line reaches with the memory.
func (in *inspection) hosts(hosts []effects.Host, sends bool) {
	if in.recall != nil {
		in.recall.sends = sends
	}
	for _, h := range hosts {
		in.local = in.local && isThisMachine(h.Name)
		in.recall.argument(&in.walk, []byte("url"), []byte(h.Name), false)
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
func (in *inspection) unseen(line *shell.Line, e *effects.Effects, at where) {
	for _, o := range line.Opaque {
		in.addDetail(gate.FactOpaque, opaqueBecause[o.Reason]+": "+in.shown(o.Detail), at)
		switch rest := line.Text[judgedUpTo(line, o.Pos):]; o.Reason {
		case shell.Limit:
			in.addDetail(gate.FactDestroys, "is too long or too nested to be read: "+in.shown(o.Detail), at)
		case shell.Unparsed:
			in.addDetail(gate.FactDestroys, "has a part that could not be read: "+in.shown(o.Detail), at)
		case shell.Incomplete: // no shell that reads it as we do runs it
			in.incomplete(rest, at)
		}
	}
	if e.Truncated {
		in.addDetail(gate.FactDestroys, "does more than could be examined", at)
	}
}

var opaqueBecause = map[shell.Reason]string{
	shell.Unparsed:    "a part could not be read",
	shell.Incomplete:  "a part ends too early",
	shell.Limit:       "a part was not examined",
	shell.CommandName: "a program that is known only when it runs",
	shell.Eval:        "commands that are known only when they run",
	shell.Stdin:       "runs what another command writes",
	shell.Decoded:     "runs what is hidden by an encoding",
	shell.Sourced:     "runs a file in this shell",
	shell.Recursive:   "calls itself",
	shell.Settings:    "a file that is named says what else runs",
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

// incomplete examines the words of a part that ends too early for a shell to run it.
func (in *inspection) incomplete(rest string, at where) {
	if name := destroyerIn(rest); name != "" {
		in.addDetail(gate.FactDestroys, "names "+name+" in a part that could not be read", at)
	}
	if pipeToShell.MatchString(rest) {
		in.addDetail(gate.FactDestroys, "runs a shell in a part that could not be read", at)
	}
	for word := range wordsOf(rest) {
		if what, is := placeOf([]byte(word)); is {
			in.add(gate.FactSecretPlace, "names "+what+", where credentials are kept", at())
		}
		if strings.HasPrefix(word, "~/") || strings.HasPrefix(word, "/") {
			for _, d := range effects.Of(shell.Parse("touch "+word, shell.Options{Home: in.finder.own.home})).Deeds {
				if d.Kind == effects.LoginFile || d.Kind == effects.ServiceInstall {
					in.deed(&d, nil, nil, at)
				}
			}
		}
	}
}

var pipeToShell = regexp.MustCompile(`\|\s*(?:sudo\s+)?(?:\S*/)?(?:ba|da|z|k)?sh\b`)

// destroyerIn returns a word of text that names a program that can destroy, or "". find does so only
// with -delete; what it executes is a word of its own. So is what git does: the first word after its
// flags.
func destroyerIn(text string) string {
	deletes := strings.Contains(text, "-delete")
	words := slices.Collect(wordsOf(text))
	for i, word := range words {
		name := path.Base(word)
		switch effects.PlainName(name) {
		case "find":
			if deletes {
				return name
			}
		case "git":
			command := slices.IndexFunc(words[i+1:], func(w string) bool { return !strings.HasPrefix(w, "-") })
			if command < 0 || effects.GitCanDestroy(words[i+1+command]) {
				return name
			}
		default:
			if effects.CanDestroy(name) {
				return name
			}
		}
	}
	return ""
}

// wordsOf returns the words of a text whose grammar is not known.
func wordsOf(text string) iter.Seq[string] {
	return strings.FieldsFuncSeq(text, func(r rune) bool { return r <= ' ' || strings.ContainsRune("\"'`;|&<>(){}=$", r) })
}

// addDetail adds a fact, or what made it true once more.
func (in *inspection) addDetail(name, detail string, at where) {
	const longest = 1000
	for i := range in.facts {
		f := &in.facts[i]
		if f.Name != name || f.Member != at() {
			continue
		}
		if !strings.Contains(f.Detail, detail) && len(f.Detail)+len(detail) < longest {
			f.Detail += "; " + detail
		}
		return
	}
	in.add(name, detail, at())
}

// shown returns a part of a command for a person, without the secrets in it.
func (in *inspection) shown(text string) string {
	return string(unquoted(Redact(quoted(text, true), nil, func([]byte) string { return "…" })))
}
