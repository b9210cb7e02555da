package shell

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// gitTexts are the flags of git's commands whose value is a command line; or is a setting (c and config)
// or a folder with hooks (template), either of which brings one.
var gitTexts = map[string]string{
	"archive": "exec", "clone": "u upload-pack c config template", "difftool": "x extcmd", "fetch": "upload-pack", "fetch-pack": "exec upload-pack", "grep": "O open-files-in-pager",
	"init": "template", "instaweb": "b browser d httpd", "ls-remote": "exec upload-pack", "pull": "upload-pack", "push": "exec receive-pack", "send-email": "smtp-server sendmail-cmd to-cmd cc-cmd header-cmd",
	"send-pack": "exec receive-pack", "daemon": "access-hook",
}

// gitFiles are variables that name files or folders in which git finds what else it runs.
const gitFiles = "GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM GIT_EXEC_PATH GIT_TEMPLATE_DIR"

const (
	gitKey   = "GIT_CONFIG_KEY_"
	gitValue = "GIT_CONFIG_VALUE_"
)

// git evaluates git, and what its variables, settings and flags make it run.
func (e *evaluator) git(inv *invocation) result {
	in := *inv
	e.gitEnv(&in)
	values, aliases := map[string]Word{}, map[string]Word{}
	maps.Copy(aliases, e.aliases)
	for _, v := range in.fr.env {
		values[v.Name] = v.Value
	}
	for _, v := range in.fr.env {
		if n, ok := strings.CutPrefix(v.Name, gitKey); ok {
			e.gitSetting(&in, v.Value, values[gitValue+n], aliases)
		} else if v.Name == "GIT_CONFIG_PARAMETERS" {
			for _, w := range splitWords(v.Value) {
				key, setting := e.cutSetting(w)
				e.gitSetting(&in, key, setting, aliases)
			}
		} else if hasFlag(gitFiles, v.Name) {
			e.gitFile(&in, v.Name, v.Value, aliases)
		}
	}
	rest := e.gitFlags(&in, aliases)
	var alias result
	if len(rest) > 0 {
		e.gitPrograms(&in, rest[0].Value, rest[1:], aliases)
		// An alias has no effect if git has a command of that name.
		if body, ok := aliases[strings.ToLower(rest[0].Value)]; ok {
			alias = e.gitAlias(&in, strings.ToLower(rest[0].Value), body, rest[1:])
		}
	}
	r, ok := result{}, false
	if w, label, args, is := wrapperOf(&in); is {
		for _, v := range in.fr.env {
			e.codeVariable(v.Name, v.Value, in.st, in.fr, &in)
		}
		if label == "git submodule foreach" {
			in.st.dirs = []string{""}
		}
		r, ok = e.unwrap(&in, w, label, args)
	}
	if !ok {
		r = e.plain(&in)
	}
	return result{ok: inv.st, fail: inv.st, out: union(alias.out, r.out), text: alias.text}
}

// gitEnv adds to the variables of the call those of git that were assigned before, of which it is
// not known whether git gets them. What export gives to every program was evaluated there.
func (e *evaluator) gitEnv(inv *invocation) {
	has := map[string]bool{}
	for _, v := range inv.fr.env {
		has[v.Name] = true
	}
	env := slices.Clip(inv.fr.env)
	for b := inv.st.vars; b != nil; b = b.parent {
		if !strings.HasPrefix(b.name, "GIT_") || has[b.name] || b.value.isArray || hasFlag(codeVariables, b.name) || strings.HasPrefix(b.name, "GIT_AUTHOR_") || strings.HasPrefix(b.name, "GIT_COMMITTER_") {
			continue
		}
		if has[b.name] = true; !e.spend(len(b.name) + size(b.value.parts)) {
			return
		}
		env = append(env, Assign{b.name, newWord("$"+b.name, b.value.parts)})
	}
	inv.fr.env = env
}

// gitFile evaluates what a file of settings, or a folder of hooks, makes git run if the line itself
// wrote it. Of others it is not known.
func (e *evaluator) gitFile(inv *invocation, by string, place Word, aliases map[string]Word) {
	if v, known := place.Literal(); known && (v == "" || v == "/dev/null") || !e.enter() {
		return
	}
	defer e.leave()
	text, ok := e.written(place, inv.st)
	if isStdin(place) && inv.fr.input != nil {
		text, ok = *inv.fr.input, true
	}
	if ok {
		e.gitSettings(inv, text, aliases)
		return
	}
	found := false
	if len(inv.st.dirs) == 1 {
		for _, name := range slices.Sorted(maps.Keys(e.files)) {
			if path.Dir(name) == written(inv.st.dirs[0], place) {
				e.runText(e.files[name], nil, inv.st, e.inner(inv, "git"), inv)
				found = true
			}
		}
	}
	if !found {
		e.opaque(Opaque{Reason: Settings, Detail: by, Command: -1, Pos: inv.pos, Remote: inv.fr.remote})
	}
}

// gitSettings evaluates the text of a file of settings.
func (e *evaluator) gitSettings(inv *invocation, text string, aliases map[string]Word) {
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if header, ok := strings.CutPrefix(line, "["); ok {
			header, line, _ = strings.Cut(header, "]")
			name, between, has := strings.Cut(header, " ")
			if section = name; has {
				section += "." + strings.Trim(between, `"`)
			}
		}
		key, setting, _ := strings.Cut(line, "=")
		if key = strings.TrimSpace(key); key != "" && key[0] != '#' && key[0] != ';' {
			setting = strings.Trim(strings.TrimSpace(setting), `"`)
			e.gitSetting(inv, literalWord(section+"."+key), newWord(setting, e.fill(setting)), aliases)
		}
	}
}

// gitFlags takes the flags before git's command, and returns what follows them. A setting is added
// to the variables of the call, as git does for what it runs.
func (e *evaluator) gitFlags(inv *invocation, aliases map[string]Word) []Word {
	i := 0
	for i < len(inv.args) {
		w := inv.args[i]
		v, known := w.Literal()
		if !known {
			v = w.Prefix
		}
		if len(v) < 2 || v[0] != '-' {
			break
		}
		flag, kind := flagOf(v, globals["git"])
		value := Word{}
		i++
		switch {
		case kind == attached:
			value = newWord(w.Text, dropPrefix(w.parts, len(v)-len(valueIn(v, flag))))
		case kind == needed && i < len(inv.args):
			value = inv.args[i]
			i++
		case strings.HasPrefix(v, "--exec-path="):
			e.gitFile(inv, "--exec-path", newWord(w.Text, dropPrefix(w.parts, len("--exec-path="))), aliases)
		}
		switch flag {
		case "C":
			inv.st, _ = inv.st.cd(value, e.line.Follow)
		case "c", "config-env":
			key, setting := e.cutSetting(value)
			if flag == "config-env" {
				setting = inv.variable(setting)
			}
			n := fmt.Sprint("c", len(inv.fr.wrappers), ".", i)
			inv.fr.env = append(inv.fr.env, Assign{gitKey + n, key}, Assign{gitValue + n, setting})
			e.gitSetting(inv, key, setting, aliases)
		}
	}
	return inv.args[min(i, len(inv.args)):]
}

// variable returns the value of the variable that a word names.
func (inv *invocation) variable(w Word) Word {
	name, _ := w.Literal()
	for _, v := range slices.Backward(inv.fr.env) {
		if v.Name == name {
			return v.Value
		}
	}
	if v, ok := inv.st.lookup(name); ok {
		return newWord(w.Text, v.parts)
	}
	return newWord(w.Text, unknownPart("$"+name, name, nil))
}

// cutSetting splits key=value.
func (e *evaluator) cutSetting(w Word) (key, value Word) {
	name, setting, _ := strings.Cut(e.composed(w.parts), "=")
	return newWord(w.Text, e.fill(name)), newWord(w.Text, e.fill(setting))
}

// gitSetting evaluates what a setting makes git run.
func (e *evaluator) gitSetting(inv *invocation, name, value Word, aliases map[string]Word) {
	key, known := name.Literal()
	label := strings.ToLower(key)
	if alias, ok := strings.CutPrefix(label, "alias."); ok {
		aliases[alias] = value
		return
	}
	command, isFile := GitSetting(key, e.composed(value.parts))
	switch {
	case !known || isFile:
		e.gitFile(inv, name.Text, value, aliases)
	case command != "" && !slices.Contains(inv.fr.wrappers, label):
		e.runText(command, value.From, inv.st, e.inner(inv, label), inv)
	}
}

// gitAlias evaluates a command as if its alias were expanded. What git was told counts for the alias
// as well.
func (e *evaluator) gitAlias(inv *invocation, name string, body Word, args []Word) result {
	if slices.Contains(inv.fr.wrappers, "alias."+name) {
		return result{}
	}
	st := inv.st
	for _, v := range inv.fr.env {
		if strings.HasPrefix(v.Name, "GIT_") {
			st = st.bind(v.Name, value{parts: v.Value.parts})
		}
	}
	text := e.composed(body.parts)
	command, isShell := strings.CutPrefix(text, "!")
	if !isShell {
		command = "command git " + text
	}
	return e.runText(e.appended(command, args), body.From, st, e.inner(inv, "alias."+name), inv)
}

// gitPrograms evaluates the command lines that a command of git is given in its words.
func (e *evaluator) gitPrograms(inv *invocation, command string, args []Word, aliases map[string]Word) {
	if command == "config" {
		e.gitConfig(args)
	}
	for i, w := range args {
		v, known := w.Literal()
		if !known {
			v = w.Prefix
		}
		if transport := GitTransport(e.composed(w.parts)); transport != "" {
			e.runText(transport, w.From, inv.st, e.inner(inv, "git"), inv)
		}
		if len(v) < 2 || v[0] != '-' {
			continue
		}
		flag, kind := flagOf(v, gitTexts[command])
		value := Word{}
		switch {
		case kind == attached:
			value = newWord(w.Text, dropPrefix(w.parts, len(v)-len(valueIn(v, flag))))
		case kind == needed && i+1 < len(args):
			value = args[i+1]
		default:
			if _, address, ok := strings.Cut(v, "="); ok && GitTransport(address) != "" { // archive --remote=
				e.runText(GitTransport(address), w.From, inv.st, e.inner(inv, "git"), inv)
			}
			continue
		}
		switch flag {
		case "template":
			e.gitFile(inv, "--template", value, aliases)
		case "c", "config":
			key, setting := e.cutSetting(value)
			e.gitSetting(inv, key, setting, aliases)
		default:
			e.runText(e.composed(value.parts), value.From, inv.st, e.inner(inv, "git"), inv)
		}
	}
}

// gitConfig remembers an alias that git config sets.
func (e *evaluator) gitConfig(args []Word) {
	var words []Word
	for i := 0; i < len(args); i++ {
		if v, known := args[i].Literal(); !known || len(v) < 2 || v[0] != '-' {
			words = append(words, args[i])
		} else if _, kind := flagOf(v, "f file blob type default comment value"); kind == needed {
			i++
		}
	}
	if len(words) > 0 && words[0].Value == "set" {
		words = words[1:]
	}
	if len(words) < 2 {
		return
	}
	if name, ok := strings.CutPrefix(strings.ToLower(words[0].Value), "alias."); ok {
		e.aliases[name] = words[1]
	}
}

// gitRuns are the last parts of the names of settings whose value git runs.
const gitRuns = "command cmd textconv clean smudge process driver pager editor program askpass sshcommand fsmonitor external difffilter uploadpack receivepack packobjectshook " +
	"recentobjectshook tunnel smtpserver tocmd cccmd headercmd sendmailcmd httpd browser alternaterefscommand defaultkeycommand"

// GitSetting tells what a setting makes git run: a command line, which is empty for most of them, or
// what is in the file or folder that the value names.
func GitSetting(key, value string) (command string, isFile bool) {
	first, last := strings.IndexByte(key, '.'), strings.LastIndexByte(key, '.')
	if first < 0 || value == "" || value == "/dev/null" {
		return "", false
	}
	section, name, between := strings.ToLower(key[:first]), strings.ToLower(key[last+1:]), key[min(first+1, last):last]
	switch section + " " + name {
	case "core hookspath", "include path", "includeif path", "init templatedir":
		return "", true
	case "url insteadof", "url pushinsteadof":
		return GitTransport(between), false
	case "remote url", "remote pushurl", "submodule url":
		return GitTransport(value), false
	case "submodule update":
		if command, ok := strings.CutPrefix(value, "!"); ok {
			return command, false
		}
		return "", false
	case "core gitproxy":
		command, _, _ := strings.Cut(value, " for ")
		return command, false
	case "credential helper":
		command, isShell := strings.CutPrefix(value, "!")
		if !isShell && !strings.HasPrefix(value, "/") {
			command = "git credential-" + value
		}
		return command, false
	case "difftool path", "mergetool path", "browser path", "man path":
		return value, false
	}
	if section == "pager" || hasFlag(gitRuns, name) {
		return value, false
	}
	return "", false
}

// GitTransport returns the command line that git runs to reach an address, or "" for most of them.
func GitTransport(address string) string {
	text, ok := strings.CutPrefix(address, "ext::")
	if !ok {
		return ""
	}
	var words []string
	for word := range strings.SplitSeq(strings.NewReplacer("% ", "\x00", "%%", "%").Replace(text), " ") {
		words = append(words, Quote(strings.ReplaceAll(word, "\x00", " ")))
	}
	return strings.Join(words, " ")
}
