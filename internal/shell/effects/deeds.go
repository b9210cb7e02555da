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
		if v, ok := w.Literal(); !ok || strings.Contains(v, "://") || strings.Contains(v, "@") {
			k.host(w)
		}
	}
}

// gitCheckout tells git checkout of files, which discards their changes, from
// git checkout of a branch.
func (k *call) gitCheckout() {
	_, force := k.flag("f")
	_, patch := k.flag("p")
	files := k.dashed && len(k.operands) > 0 && !patch
	for _, w := range k.operands {
		v, ok := w.Literal()
		files = files || ok && (v == "." || v == "*" || strings.HasPrefix(v, "./") || strings.HasPrefix(v, ":/"))
		files = files || w.Kind == shell.Pattern
	}
	if _, branch := k.flag("b"); branch {
		files = false
	}
	if force || files {
		k.deed(GitDiscard, k.index, k.detail())
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

// gitConfig adds the file that git config writes.
func (k *call) gitConfig() {
	if len(k.operands) < 2 {
		return
	}
	key, value := strings.ToLower(k.operands[0].Value), k.operands[1].Value
	switch {
	case strings.HasPrefix(key, "alias."):
		if command, ok := strings.CutPrefix(value, "!"); ok {
			k.codeLine(k.index, command)
		}
	case strings.HasSuffix(key, "command"), strings.HasSuffix(key, "pager"), strings.HasSuffix(key, "editor"), key == "core.fsmonitor", strings.HasPrefix(key, "filter."), key == "diff.external":
		k.codeLine(k.index, value)
	}
	name := ".git/config"
	if _, ok := k.flag("global"); ok {
		name = k.line.Home + "/.gitconfig"
	} else if _, ok := k.flag("system"); ok {
		name = "/etc/gitconfig"
	}
	k.write(k.index, shell.NewWord(name))
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
