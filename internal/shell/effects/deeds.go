package effects

import (
	"regexp"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/shell"
)

// gitRemote adds the host of a URL that git is given.
func (k *call) gitRemote() {
	for _, w := range k.operands[:min(1, len(k.operands))] {
		v, ok := w.Literal()
		if i := strings.IndexAny(v, ":/"); !ok || i > 0 && v[i] == ':' || strings.Contains(v, "@") { // also host:path
			k.host(w)
		}
	}
}

// gitFetch adds the branches of this repository that git fetch and git pull overwrite.
func (k *call) gitFetch() {
	k.gitRemote()
	_, force := k.flag("f")
	for _, w := range k.operands[min(1, len(k.operands)):] {
		from, to, _ := strings.Cut(w.Value+w.Prefix, ":")
		isBranch := !strings.HasPrefix(to, "refs/") || strings.HasPrefix(to, "refs/heads/") || to == "refs/*"
		if (force || strings.HasPrefix(from, "+")) && to != "" && isBranch {
			k.deed(GitDiscard, k.index, k.detail())
		}
	}
}

// patch reports whether git asks about each change, and whether a person answers.
func (k *call) patch() (asks, person bool) {
	_, asks = k.flag("p")
	return asks, asks && len(k.cmd.Stdin) == 0 && k.cmd.Input == nil
}

// gitCheckout tells git checkout of files, which discards their changes, from git checkout of a
// branch.
func (k *call) gitCheckout() {
	_, fromFile := k.flag("pathspec-from-file")
	_, moves := k.flag("B")
	asks, person := k.patch()
	if _, force := k.flag("f"); force || fromFile || moves || asks && !person {
		k.deed(GitDiscard, k.index, k.detail())
		return
	}
	_, creates := k.flag("b")
	_, orphan := k.flag("orphan")
	if creates || orphan || len(k.operands) == 0 || person {
		return
	}
	files := k.dashed || len(k.operands) > 1
	for _, w := range k.operands {
		v, ok := w.Literal()
		files = files || ok && (v == "." || v == "*" || strings.HasPrefix(v, "./") || strings.HasPrefix(v, ":/"))
		files = files || w.Kind == shell.Pattern || slices.ContainsFunc(w.From, k.listsFiles)
	}
	if files {
		k.deed(GitDiscard, k.index, k.detail())
	} else {
		k.deed(GitSwitch, k.index, k.detail())
	}
}

// listsFiles reports whether command i is one of git that names files, or what is changed in them.
func (k *call) listsFiles(i int) bool {
	return i >= 0 && i < len(k.line.Commands) && k.line.Commands[i].Program == "git" && slices.ContainsFunc(k.line.Commands[i].Args, func(w shell.Word) bool {
		return slices.Contains([]string{"ls-files", "diff", "diff-files", "diff-index", "status"}, w.Value)
	})
}

func (k *call) gitRestore() {
	_, staged := k.flag("S")
	_, tree := k.flag("W")
	_, fromFile := k.flag("pathspec-from-file")
	asks, person := k.patch()
	if (tree || !staged) && (fromFile || asks || len(k.operands) > 0) && !person {
		k.deed(GitDiscard, k.index, k.detail())
	}
}

// gitApply adds git apply that takes back what git diff says, also in a file that the line has written.
func (k *call) gitApply() {
	_, reverse := k.flag("R")
	_, cached := k.flag("cached")
	if reverse && !cached && (slices.ContainsFunc(k.cmd.Stdin, k.listsFiles) || k.appliesList()) {
		k.deed(GitDiscard, k.index, k.detail())
	}
}

// appliesList reports whether a patch may be what a command of git before this one has written, which
// says what is changed.
func (k *call) appliesList() bool {
	patches := k.pathsOf(k.operands, k.paths)
	for _, r := range k.cmd.Redirects {
		if r.Reads {
			patches = append(patches, k.paths(k.index, r.Target)...)
		}
	}
	if len(patches) == 0 {
		return false
	}
	for i := range k.index {
		if !k.listsFiles(i) {
			continue
		}
		written := slices.DeleteFunc(slices.Clone(k.effects.Writes), func(p Path) bool { return p.Command != i })
		for _, p := range patches {
			if slices.ContainsFunc(written, func(w Path) bool { return w.Kind != Exact || p.Kind != Exact || w.Name == p.Name }) {
				return true
			}
		}
	}
	return false
}

// gitDiff adds the files that git diff compares without a repository.
func (k *call) gitDiff() {
	if _, ok := k.flag("no-index"); ok {
		k.applyWords("R...")
	}
}

func (k *call) gitRm() {
	if _, cached := k.flag("cached"); cached {
		return
	}
	for _, w := range k.operands {
		k.delete(k.index, w)
	}
}

// gitConfig adds the file that git config writes, and what git will run.
func (k *call) gitConfig() {
	words := k.operands
	f, isFile := k.flag("f")
	if isFile {
		k.read(k.index, f.value)
	}
	if len(words) > 0 {
		switch words[0].Value {
		case "set":
			words = words[1:]
		case "get", "list", "unset", "edit", "get-color", "get-colorbool", "remove-section", "rename-section":
			return
		}
	}
	if len(words) < 2 || slices.ContainsFunc(k.flags, func(f flag) bool { return strings.HasPrefix(f.name, "get") || strings.HasPrefix(f.name, "unset") }) {
		return
	}
	file := shell.NewWord(".git/config")
	if _, ok := k.flag("global"); ok {
		file = shell.NewWord(k.line.Home + "/.gitconfig")
	} else if _, ok := k.flag("system"); ok {
		file = shell.NewWord("/etc/gitconfig")
	}
	if isFile {
		file = f.value
	}
	paths := k.paths(k.index, file)
	k.add(&k.effects.Writes, paths)
	for _, p := range paths {
		if isFile && !strings.HasSuffix(p.Name, "/.git/config") { // what is set there is judged below
			k.writeDeed(k.index, p)
		}
	}
	key, value := words[0].Value, words[1].Value+words[1].Prefix
	if strings.HasPrefix(strings.ToLower(key), "alias.") {
		command, isShell := strings.CutPrefix(value, "!")
		if !isShell {
			command = "git " + value
		}
		k.codeLine(k.index, command)
		return
	}
	command, namesFile := shell.GitSetting(key, value)
	if value == "" && words[1].Kind == shell.Unknown {
		command, namesFile = shell.GitSetting(key, "$unknown")
	}
	k.codeLine(k.index, command)
	if namesFile || command != "" && hides(command) {
		k.deed(GitHook, k.index, k.detail(), paths...)
	}
}

// hides reports whether a command line runs something by a path, which its text does not show.
func hides(command string) bool {
	line := shell.Parse(command, shell.Options{})
	return len(line.Opaque) > 0 || slices.ContainsFunc(line.Commands, func(c shell.Command) bool {
		name, _ := c.Name.Literal()
		return c.Script != nil || len(c.Code) > 0 || strings.Contains(name, "/") && !strings.HasPrefix(name, "/usr/") && !strings.HasPrefix(name, "/opt/") && !hasPlace(name, systemPlaces)
	})
}

// stopsService adds the services whose end leaves the machine open.
func (k *call) stopsService() {
	for _, w := range k.operands {
		switch strings.TrimSuffix(w.Value, ".service") {
		case "firewalld", "ufw", "iptables", "ip6tables", "nftables", "apparmor", "auditd", "fail2ban", "selinux", "falcon-sensor", "clamav-daemon", "rsyslog", "systemd-journald":
			k.deed(FirewallOff, k.index, k.detail())
		}
	}
}

// crontab adds the table that is read from a pipe.
func (k *call) crontab() {
	if _, listed := k.flag("l"); !listed && len(k.operands) == 0 && (len(k.cmd.Stdin) > 0 || k.cmd.Input != nil || len(k.cmd.Redirects) > 0) {
		k.deed(ServiceInstall, k.index, k.detail())
	}
}

// systemProcess are processes that keep a machine going: without them nobody can log in, or there is
// no network, no screen, no clock, no log and no container.
var systemProcess = regexp.MustCompile(`(^|[^\w.-])(systemd(-\w+)?|launchd|sshd|agetty|dbus-(daemon|broker)|NetworkManager|wpa_supplicant|dhclient|dhcpcd|crond|atd|r?syslogd|auditd|` +
	`(systemd-)?udevd|polkitd|firewalld|sssd|ntpd|chronyd|Xorg|Xwayland|gdm3?|lightdm|sddm|gnome-shell|WindowServer|loginwindow|dockerd|docker-proxy|containerd(-shim)?|kubelet)($|[^\w.-])`)

// processLists are programs that find processes.
var processLists = []string{"ps", "pgrep", "pidof", "top", "lsof"}

// kill adds the end of all processes, of the first, or of those that are found by the name of one of
// the system.
func (k *call) kill() {
	args, unknown := k.cmd.Args, false
	for i, w := range args {
		v, ok := w.Literal()
		if !ok {
			unknown = true
			continue
		}
		// The first word with a dash is the signal.
		signal := i == 0 && strings.HasPrefix(v, "-")
		if v == "-l" || v == "-L" || v == "-0" && i == 0 {
			return
		}
		if !signal && (v == "-1" || v == "1" && args[max(0, i-1)].Value != "-s" && args[max(0, i-1)].Value != "-n") && (i > 0 || v == "1") {
			k.deed(ProcessKill, k.index, k.detail())
		}
	}
	lists := func(c shell.Command) bool { return slices.Contains(processLists, c.Program) }
	if unknown && slices.ContainsFunc(k.line.Commands, lists) && systemProcess.MatchString(k.line.Text) {
		k.deed(ProcessKill, k.index, k.detail())
	}
}

// dockerAll adds docker rm of all containers.
func (k *call) dockerAll() {
	for _, w := range k.operands {
		for _, i := range w.From {
			c := k.line.Commands[max(i, 0)]
			if _, ok := k.flag("f"); ok && (c.Program == "docker" || c.Program == "podman") {
				for _, x := range c.Args {
					if v := x.Value; strings.HasPrefix(v, "-") && strings.Contains(v, "a") {
						k.deed(Infrastructure, k.index, k.detail())
					}
				}
			}
		}
	}
}

// dockerRun adds what a container gets of this machine.
func (k *call) dockerRun() {
	for _, f := range k.flags {
		place, readOnly := "", false
		switch v := f.value.Value; f.name {
		case "v":
			from, rest, _ := strings.Cut(v, ":")
			place, readOnly = from, strings.HasSuffix(rest, ":ro")
		case "mount":
			for item := range strings.SplitSeq(v, ",") {
				if key, value, _ := strings.Cut(item, "="); key == "source" || key == "src" {
					place = value
				}
			}
			readOnly = strings.Contains(v, "readonly") || strings.Contains(v, ",ro")
		}
		if !strings.HasPrefix(place, "/") {
			continue // a volume, or a folder that is not known
		}
		if place == "/" {
			k.deed(SystemFile, k.index, k.detail())
		}
		w := shell.NewWord(place)
		if k.read(k.index, w); !readOnly {
			k.write(k.index, w)
		}
	}
}

var (
	sqlDrops  = regexp.MustCompile(`(?i)\b(drop\s+(database|schema|table|user|role|tablespace|keyspace|collection|index\s+if|materialized\s+view)|truncate\s+(table\s+)?["\x60\w]|delete\s+from\s+[^\s;]+\s*(;|$)|alter\s+table\s+\S+\s+drop\s|flush\s+tables)`)
	sqlQuoted = regexp.MustCompile(`'(?:[^']|'')*'|--[^\n]*|/\*(?s:.*?)\*/`)
	mongoDrop = regexp.MustCompile(`(?i)\b(dropDatabase|dropCollection|drop|dropIndexes|remove|deleteMany)\s*\(\s*(\{\s*\}\s*)?\)`)
)

// texts returns what a client of a database is told to run.
func (k *call) texts() []string {
	var out []string
	add := func(w shell.Word) {
		if v, ok := w.Literal(); ok {
			out = append(out, v)
		} else {
			out = append(out, w.Prefix)
		}
	}
	for _, f := range k.flags {
		if f.has && f.role == 0 {
			add(f.value)
		}
	}
	for _, w := range k.operands {
		add(w)
	}
	if k.cmd.Input != nil {
		add(*k.cmd.Input)
	}
	return out
}

// sql adds statements that drop tables and their like.
func (k *call) sql() {
	for _, text := range k.texts() {
		k.embeds(databaseTexts, text)
	}
	if k.searched > maxSearched {
		return // which counts as destroying
	}
	for _, text := range k.texts() {
		if m := sqlDrops.FindString(sqlQuoted.ReplaceAllString(text, "''")); m != "" {
			k.deed(DatabaseDrop, k.index, m)
			return
		}
	}
}

func (k *call) redis() {
	words := append([]shell.Word{}, k.operands...)
	if k.cmd.Input != nil {
		for _, field := range strings.Fields(k.cmd.Input.Value) {
			words = append(words, shell.NewWord(field))
		}
	}
	for _, w := range words {
		switch strings.ToLower(w.Value) {
		case "flushall", "flushdb", "shutdown":
			k.deed(DatabaseDrop, k.index, k.detail())
		}
	}
}

func (k *call) mongo() {
	for _, text := range k.texts() {
		if m := mongoDrop.FindString(text); m != "" {
			k.deed(DatabaseDrop, k.index, m)
			return
		}
	}
}

// empties adds a file of which a redirection leaves nothing.
func (a *analysis) empties(i int, w shell.Word) {
	paths := a.paths(i, w)
	a.add(&a.effects.Deletes, paths)
}
