package effects

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/shell"
)

// devTCP returns the host of bash's /dev/tcp/host/port.
func devTCP(w shell.Word) (string, bool) {
	for _, prefix := range []string{"/dev/tcp/", "/dev/udp/"} {
		if rest, ok := w.After(prefix); ok {
			host, _, _ := strings.Cut(rest.Value+rest.Prefix, "/")
			return host, true
		}
	}
	return "", false
}

// isStandardDevice reports whether writing to w changes nothing.
func isStandardDevice(w shell.Word) bool {
	v, ok := w.Literal()
	switch v {
	case "/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/zero", "/dev/full", "/dev/stdin", "/dev/console", "/dev/ptmx":
		return ok
	}
	return ok && (strings.HasPrefix(v, "/dev/fd/") || strings.HasPrefix(v, "/dev/pts/") || strings.HasPrefix(v, "/proc/self/fd/"))
}

// IsStream reports whether a path is one of the three streams of the program that uses it. What they
// lead to stands in the line, or is given by whoever runs it.
func IsStream(p Path) bool {
	return p.Kind == Exact && slices.Contains([]string{"/proc/self/fd/0", "/proc/self/fd/1", "/proc/self/fd/2"}, p.Name)
}

// environment is where the variables of a process can be read.
const environment = "/proc/self/environ"

var blockDevice = regexp.MustCompile(`^/dev/(sd|hd|vd|xvd|nvme|mmcblk|disk|rdisk|dm-|md|loop|sr|nbd|mapper/|disk/|zd|ram|mem|kmem|port|fd\d)`)

// loginNames are files in a home directory that run, or let somebody in, at
// login.
var loginNames = map[string]bool{
	".bashrc": true, ".bash_profile": true, ".bash_login": true, ".bash_logout": true, ".bash_aliases": true, ".profile": true, ".zshrc": true, ".zshenv": true, ".zprofile": true,
	".zlogin": true, ".zlogout": true, ".kshrc": true, ".mkshrc": true, ".cshrc": true, ".tcshrc": true, ".login": true, ".xprofile": true, ".xinitrc": true, ".xsession": true, ".xsessionrc": true,
	".bash_completion": true, ".direnvrc": true, ".config/direnv/direnvrc": true, ".forward": true, ".procmailrc": true,
	".pam_environment": true, ".rhosts": true, ".shosts": true, ".config/fish/config.fish": true,
	".ssh/authorized_keys": true, ".ssh/authorized_keys2": true, ".ssh/rc": true, ".ssh/environment": true, ".ssh/config": true,
}

// servicePlaces hold what starts by itself.
var servicePlaces = []string{
	"/etc/systemd/", "/etc/init.d/", "/etc/cron", "/etc/rc", "/etc/xdg/autostart/", "/var/spool/cron/", "/usr/lib/systemd/", "/lib/systemd/", "/etc/inittab", "/etc/init/", "/usr/local/lib/systemd/", "/etc/bash_completion.d/", "/usr/local/share/zsh/site-functions/",
	"/Library/LaunchAgents/", "/Library/LaunchDaemons/", "/etc/profile.d/", "/etc/udev/rules.d/", "/var/spool/at/",
}

var homeServices = []string{".config/systemd/user/", ".config/autostart/", "Library/LaunchAgents/", ".config/fish/conf.d/", ".config/environment.d/",
	".config/fish/functions/", ".config/fish/completions/", ".bashrc.d/", ".profile.d/", ".bash_completion.d/", ".local/share/bash-completion/completions/", ".zfunc/", ".oh-my-zsh/custom/",
	".config/plasma-workspace/env/", ".config/autostart-scripts/", ".local/share/systemd/user/", ".local/share/dbus-1/services/", ".local/share/applications/", ".config/git/hooks/",
	// What programs run when a person starts them.
	".vimrc", ".vim/plugin/", ".config/nvim/init.", ".config/nvim/plugin/", ".emacs", ".emacs.d/init.el", ".tmux.conf", ".config/tmux/tmux.conf", ".screenrc", ".gdbinit", ".lldbinit", ".psqlrc", ".sqliterc",
	".pythonrc", ".irbrc", ".pryrc", ".Rprofile", ".lessfilter", ".mailcap", ".pip.conf", ".pip/pip.conf", ".config/pip/pip.conf", ".config/openbox/autostart", ".config/i3/config", ".config/sway/config", ".config/hypr/hyprland.conf", ".config/awesome/rc.lua",
}

// treeServices are below a work tree, and run when an editor opens it, or a program of it starts.
var treeServices = regexp.MustCompile(`/\.vscode/tasks\.json$|/site-packages/(?:[^/]+\.pth|(?:site|user)customize\.py)$`)

// systemPlaces belong to the operating system.
var systemPlaces = []string{
	"/etc/", "/bin/", "/sbin/", "/lib/", "/lib32/", "/lib64/", "/usr/bin/", "/usr/sbin/", "/usr/lib/", "/usr/lib64/", "/usr/libexec/", "/usr/include/", "/usr/share/", "/boot/", "/sys/", "/proc/",
	"/System/", "/var/lib/", "/var/spool/", "/efi/", "/run/systemd/",
}

var loginSystem = []string{
	"/etc/passwd", "/etc/shadow", "/etc/gshadow", "/etc/group", "/etc/sudoers", "/etc/doas.conf", "/etc/pam.d/", "/etc/profile", "/etc/bash", "/etc/zsh", "/etc/environment",
	"/etc/ssh/", "/etc/security/", "/etc/ld.so.preload", "/etc/login.defs", "/etc/shells", "/etc/securetty", "/etc/hosts.allow", "/etc/hosts.deny",
}

var historyNames = map[string]bool{
	".bash_history": true, ".zsh_history": true, ".history": true, ".sh_history": true, ".python_history": true, ".psql_history": true, ".mysql_history": true, ".local/share/fish/fish_history": true,
}

// gitPlace fits what makes git run something in a repository: hooks, and settings.
var gitPlace = regexp.MustCompile(`(?i)(^|/)\.git/(modules/.+/)?(hooks(/|$)|config(\.worktree)?$|info/attributes$)`)

// inHome returns the part of a path below a home directory.
func inHome(p Path, home string) (string, bool) {
	name := p.Name
	if p.Kind == Unknown {
		name = p.Tail
		if i := strings.LastIndex(name, "/."); i >= 0 { // $dir/.ssh/authorized_keys
			return strings.TrimPrefix(strings.Replace(name[i:], "/", "", 1), "/"), true
		}
		return "", false
	}
	if p.Kind == Below {
		return "", false
	}
	if rest, ok := strings.CutPrefix(name, home); ok && home != "" && strings.HasPrefix(rest, "/") {
		return rest[1:], true
	}
	for _, dir := range []string{"/root/", "/var/root/"} {
		if rest, ok := strings.CutPrefix(name, dir); ok {
			return rest, true
		}
	}
	for _, dir := range []string{"/home/", "/Users/"} {
		if rest, ok := strings.CutPrefix(name, dir); ok {
			if _, rest, ok := strings.Cut(rest, "/"); ok {
				return rest, true
			}
		}
	}
	return "", false
}

// kindOfWrite returns the deed that writing to a path is, or "".
func kindOfWrite(p Path, home string) Kind {
	if p.Kind == Unknown && !strings.Contains(p.Tail, "/") {
		return ""
	}
	if blockDevice.MatchString(p.Name) && p.Kind != Unknown {
		return OverwriteDevice
	}
	if rest, ok := inHome(p, home); ok {
		if p.Kind == Unknown {
			rest = tailInHome(p.Tail)
		}
		switch {
		case loginNames[rest]:
			return LoginFile
		case historyNames[rest]:
			return HistoryTamper
		case hasPlace(rest, homeServices):
			return ServiceInstall
		}
	}
	if gitPlace.MatchString(p.Name + p.Tail) {
		return GitHook
	}
	if treeServices.MatchString(p.Name + p.Tail) {
		return ServiceInstall
	}
	if p.Kind == Unknown || isStandardName(p.Name) {
		return ""
	}
	switch {
	case hasPlace(p.Name, loginSystem):
		return LoginFile
	case hasPlace(p.Name, servicePlaces):
		return ServiceInstall
	case strings.HasPrefix(p.Name, "/var/log/") && (strings.HasSuffix(p.Name, "tmp") || strings.Contains(p.Name, "log")) && isLog(p.Name):
		return HistoryTamper
	case hasPlace(p.Name, systemPlaces):
		return SystemFile
	case p.Name == "/usr" || strings.HasPrefix(p.Name, "/usr/") && strings.Count(p.Name, "/") == 2 && p.Name != "/usr/local":
		return SystemFile
	}
	return ""
}

// KindOfPlace returns what it means to write to the file name, an absolute path without links, if its
// content then runs by itself or lets somebody in: ServiceInstall, LoginFile or GitHook. Otherwise it
// returns "".
func KindOfPlace(name, home string) Kind {
	switch kind := kindOfWrite(Path{Kind: Exact, Name: name}, home); kind {
	case ServiceInstall, LoginFile, GitHook:
		return kind
	}
	return ""
}

// tailInHome returns what an unknown path may be below a home directory.
func tailInHome(tail string) string {
	if i := strings.Index(tail, "/."); i >= 0 {
		return tail[i+1:]
	}
	return strings.TrimPrefix(tail, "/")
}

// isLog reports whether name is a log that says who did what.
func isLog(name string) bool {
	switch path.Base(name) {
	case "auth.log", "secure", "wtmp", "btmp", "utmp", "lastlog", "faillog", "syslog", "messages", "audit.log", "kern.log":
		return true
	}
	return false
}

func isStandardName(name string) bool {
	return isStandardDevice(shell.NewWord(name)) || strings.HasPrefix(name, "/dev/shm/") || name == "/dev/fd" || name == "/dev/shm"
}

func hasPlace(name string, places []string) bool {
	for _, place := range places {
		if strings.HasPrefix(name, place) || name == strings.TrimSuffix(place, "/") && strings.HasSuffix(place, "/") {
			return true
		}
	}
	return false
}

// kindOfDelete returns the deed that deleting a path is, or "".
func kindOfDelete(p Path, home string) Kind {
	kind := kindOfWrite(p, home)
	if p.Kind != Unknown && strings.HasPrefix(p.Name, "/var/log/") {
		return HistoryTamper
	}
	switch kind {
	case OverwriteDevice:
		return SystemFile
	case GitHook:
		return ""
	}
	return kind
}
