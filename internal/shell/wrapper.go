package shell

import "strings"

// wrapper is a program that runs another one, which it is given as words.
type wrapper struct {
	values     string // flags with a value
	skip       int    // operands before the command
	assigns    bool   // NAME=VALUE before the command
	privileged bool
	text       string // flags whose value is a command line
	split      string // flags whose value is split into words, which come first
	dir        string // flags that say where the command runs
	remote     bool   // the command runs elsewhere; its place is the last operand that is skipped
	joined     bool   // the words are joined to a text for a shell
	plain      bool   // the wrapper itself is recorded as well
	stdin      bool   // without a command it is a shell that reads its input
	after      string // words after which the command stands, wherever they are
	optional   bool   // without -- the first operand is not a command
}

// wrappers are keyed by the program, or the program and the words that have to
// follow.
var wrappers = map[string]wrapper{
	"sudo":     {values: "u g h p C r t T R D U a c user group host prompt close-from role type chroot chdir other-user auth-type login-class command-timeout", assigns: true, privileged: true, dir: "D chdir", stdin: true},
	"doas":     {values: "u C a", privileged: true, stdin: true},
	"pkexec":   {values: "user", privileged: true},
	"run0":     {values: "u user g group D chdir unit property", privileged: true, dir: "D chdir"},
	"su":       {values: "s shell g group G supp-group w", text: "c command session-command", skip: 99, privileged: true, plain: true, stdin: true},
	"runuser":  {values: "u user s shell g group G", text: "c command", skip: 0, privileged: true},
	"gosu":     {skip: 1},
	"su-exec":  {skip: 1},
	"setpriv":  {values: "reuid regid groups inh-caps ambient-caps bounding-set securebits selinux-label apparmor-profile"},
	"capsh":    {},
	"env":      {values: "u unset C chdir argv0 a default-signal", assigns: true, split: "S split-string", dir: "C chdir"},
	"nohup":    {},
	"nice":     {values: "n adjustment"},
	"ionice":   {values: "c n class classdata"},
	"chrt":     {values: "T P D", skip: 1},
	"taskset":  {skip: 1},
	"timeout":  {values: "s k signal kill-after", skip: 1},
	"gtimeout": {values: "s k signal kill-after", skip: 1},
	"stdbuf":   {values: "i o e input output error"},
	"gstdbuf":  {values: "i o e input output error"},
	"unbuffer": {},
	"setsid":   {},
	"setarch":  {}, "linux32": {}, "linux64": {}, "i386": {}, "i686": {}, "x86_64": {}, "aarch64": {},
	"prlimit":     {values: "p o pid output"},
	"numactl":     {values: "N m C i p cpunodebind membind physcpubind interleave preferred"},
	"cpulimit":    {values: "l p e c limit pid exe cpu"},
	"ld.so":       {values: "library-path preload audit inhibit-rpath argv0"},
	"daemonize":   {values: "a c e o p l u E"},
	"dbus-launch": {}, "gnome-terminal": {optional: true},
	"faketime":  {values: "p", skip: 1},
	"sg":        {skip: 1, text: "c", joined: true},
	"chpst":     {values: "u U e / n l L m d o p f c r t"},
	"setuidgid": {skip: 1}, "envuidgid": {skip: 1}, "envdir": {skip: 1},
	"tsp":         {values: "L N D W"},
	"time":        {values: "f o format output"},
	"gtime":       {values: "f o format output"},
	"chronic":     {},
	"caffeinate":  {values: "t w"},
	"strace":      {values: "a e E I o O p P s S u X trace output string-limit user env attach"},
	"ltrace":      {values: "a A D e F l n o p s u w x"},
	"valgrind":    {},
	"perf stat":   {values: "e o r x"},
	"perf record": {values: "e o F g c p t C"}, "perf trace": {values: "e o p t C"},
	"watch":            {values: "n interval q equexit", joined: true},
	"flock":            {values: "w E timeout wait conflict-exit-code", text: "c command", skip: 1},
	"script":           {values: "t T I O B E m timing log-in log-out log-io", text: "c command", skip: 99},
	"chroot":           {values: "userspec groups", skip: 1, remote: true},
	"unshare":          {values: "S G w R root wd setuid setgid propagation"},
	"nsenter":          {values: "t target S G r w setuid setgid", privileged: true},
	"fakeroot":         {values: "l s i b lib faked"},
	"proot":            {values: "r b q w R S rootfs bind"},
	"firejail":         {},
	"xvfb-run":         {values: "n e f p s w server-num error-file auth-file xauth-protocol server-args wait"},
	"dbus-run-session": {values: "config-file dbus-daemon"},
	"systemd-run":      {values: "u p t E H M unit property slice setenv on-active on-boot on-calendar on-startup on-unit-active uid gid working-directory timer-property description host machine", plain: true, dir: "working-directory"},
	"systemd-inhibit":  {values: "what who why mode"},
	"busybox":          {}, "toybox": {},
	"rlwrap":   {values: "f H C D"},
	"torsocks": {}, "proxychains": {values: "f"}, "proxychains4": {values: "f"},
	"arch":   {values: "e d"},
	"winpty": {}, "catchsegv": {}, "softlimit": {values: "a c d f l m o p r s t"},
	"entr": {text: "s"}, "ccache": {}, "sccache": {},
	"exec":      {values: "a"},
	"hyperfine": {values: "w r m M s p c n i warmup runs min-runs max-runs setup prepare cleanup export-json export-markdown", joined: true},
	"at":        {values: "f q t", skip: 99, plain: true, stdin: true},
	"batch":     {skip: 99, plain: true, stdin: true},

	"ssh":                   {values: "B b c D E e F I i J L l m O o P p Q R S W w", skip: 1, remote: true, joined: true, plain: true, stdin: true},
	"autossh":               {values: "M B b c D E e F I i J L l m O o P p Q R S W w", skip: 1, remote: true, joined: true, plain: true, stdin: true},
	"sshpass":               {values: "p f d P"},
	"mosh":                  {values: "p ssh predict port", skip: 1, remote: true, plain: true},
	"adb shell":             {remote: true, joined: true, plain: true},
	"vagrant ssh":           {text: "c command", skip: 99, remote: true, plain: true},
	"gcloud compute ssh":    {text: "command", values: "zone project", skip: 99, remote: true, plain: true},
	"docker exec":           {values: "e w u env workdir user detach-keys env-file", skip: 1, remote: true, plain: true},
	"docker run":            {values: dockerRun, skip: 1, remote: true, plain: true},
	"docker compose exec":   {values: "e w u env workdir user index", skip: 1, remote: true, plain: true},
	"docker compose run":    {values: "e w u v p l env workdir user volume publish name entrypoint label", skip: 1, remote: true, plain: true},
	"docker-compose exec":   {values: "e w u env workdir user index", skip: 1, remote: true, plain: true},
	"docker-compose run":    {values: "e w u v p l env workdir user volume publish name entrypoint label", skip: 1, remote: true, plain: true},
	"docker container run":  {values: dockerRun, skip: 1, remote: true, plain: true},
	"docker container exec": {values: "e w u env workdir user", skip: 1, remote: true, plain: true},
	"kubectl exec":          {values: "c n container namespace context pod-running-timeout filename f kubeconfig", skip: 1, remote: true, plain: true},
	"oc exec":               {values: "c n container namespace", skip: 1, remote: true, plain: true},
	"lxc exec":              {values: "env cwd user group", skip: 1, remote: true, plain: true},
	"multipass exec":        {values: "d working-directory", skip: 1, remote: true, plain: true},
	"wsl":                   {values: "d distribution u user cd"},

	"npx":  {values: "p package c call w workspace", text: "c call"},
	"bunx": {}, "pnpx": {},
	"npm exec":  {values: "p package w workspace", text: "c call"},
	"npm x":     {values: "p package w workspace", text: "c call"},
	"pnpm exec": {}, "pnpm dlx": {}, "yarn exec": {}, "yarn dlx": {values: "p package"}, "bun x": {},
	"bundle exec": {}, "poetry run": {}, "pipenv run": {}, "hatch run": {}, "pdm run": {},
	"uv run": {values: "with p python extra group env-file project directory with-requirements"}, "uvx": {values: "from with p python"},
	"conda run": {values: "n p name prefix cwd"}, "mamba run": {values: "n p name prefix cwd"},
	"pixi run": {}, "rustup run": {skip: 1}, "mise exec": {optional: true}, "asdf exec": {}, "direnv exec": {skip: 1},
	"nix-shell":   {values: "p I A packages argstr arg", text: "run command", skip: 99},
	"nix develop": {optional: true, after: "-c --command"}, "nix shell": {optional: true, after: "-c --command"},
	"xterm": {optional: true, after: "-e"}, "urxvt": {optional: true, after: "-e"}, "konsole": {optional: true, after: "-e"}, "alacritty": {optional: true, after: "-e --command"},
	"gdb":    {optional: true, after: "--args -args"},
	"dotenv": {values: "e f"}, "op run": {values: "env-file"}, "aws-vault exec": {values: "d duration", skip: 1},
	"doppler run": {values: "p c project config"}, "infisical run": {values: "env path"},
	"git bisect run": {}, "git submodule foreach": {joined: true},
	"git rebase":        {text: "x exec", skip: 99, plain: true, values: "onto s X strategy strategy-option"},
	"git filter-branch": {text: "tree-filter index-filter msg-filter env-filter commit-filter parent-filter tag-name-filter setup", skip: 99, plain: true},
	"tmux new-session":  {values: "s n c x y t F e", joined: true, dir: "c"}, "tmux new": {values: "s n c x y t F e", joined: true, dir: "c"},
	"tmux run-shell": {values: "d t c", joined: true}, "tmux run": {values: "d t c", joined: true}, "tmux neww": {values: "n c t F e", joined: true, dir: "c"},
	"tmux splitw": {values: "c t l p F e", joined: true, dir: "c"}, "tmux send": {values: "t N", joined: true},
	"tmux new-window": {values: "n c t F e", joined: true, dir: "c"}, "tmux split-window": {values: "c t l p F e", joined: true, dir: "c"},
	"tmux send-keys": {values: "t N", joined: true, remote: false},
	"screen":         {values: "S c e h p s t T U r d R x"},
}

const dockerRun = "a c e h l m p u v w add-host annotation attach blkio-weight cap-add cap-drop cgroup-parent cgroupns cidfile cpu-period cpu-quota cpus " +
	"cpuset-cpus cpuset-mems device dns entrypoint env env-file expose gpus group-add health-cmd hostname ip ipc isolation label link log-driver log-opt memory " +
	"memory-swap mount name network net network-alias pid pids-limit platform publish pull restart runtime security-opt shm-size stop-signal stop-timeout sysctl " +
	"tmpfs ulimit user userns uts volume volume-driver volumes-from workdir"

// globals are the flags with a value that stand before a subcommand.
var globals = map[string]string{
	"docker":  "H c l host context config log-level tlscacert tlscert tlskey f file p project-name profile env-file project-directory",
	"kubectl": "n s namespace context kubeconfig cluster user server token as", "oc": "n namespace context",
	"git": "C c git-dir work-tree namespace config-env attr-source shallow-file", "npm": "C prefix w workspace", "pnpm": "C dir F filter", "yarn": "cwd",
	"uv": "directory project", "docker-compose": "f p file project-name", "gcloud": "project zone account", "tmux": "L S f", "adb": "s H P t",
}

// each are the programs that run a command for each of many things, by the name of the one that they
// read their words as.
var each = map[string]string{
	"find": "find", "gfind": "find", "fd": "find", "fdfind": "find",
	"xargs": "xargs", "gxargs": "xargs",
	"parallel": "parallel", "sem": "parallel",
}

// wrapperName returns the name by which wrappers and globals have a program.
func wrapperName(program string) string {
	switch {
	case strings.HasPrefix(program, "ld-linux"), strings.HasPrefix(program, "ld-musl"):
		return "ld.so"
	case program == "podman", program == "nerdctl":
		return "docker"
	}
	return program
}

// GlobalFlags returns the flags with a value that stand before a subcommand of program, without
// dashes and separated by spaces.
func GlobalFlags(program string) string { return globals[program] }

// RunsCode reports whether a program may run another one, or code, that it is given or that its words
// or files name, or changes the shell itself.
func RunsCode(program string) bool {
	name := wrapperName(program)
	if _, ok := interpreterOf(program); ok || isShell[program] || builtins[program] != nil || each[program] != "" || globals[name] != "" || strings.HasPrefix(program, "ld-") {
		return true
	}
	for words := range wrappers {
		if first, _, _ := strings.Cut(words, " "); first == name {
			return true
		}
	}
	_, flags := programFlags[program]
	return flags
}

// wrapperOf returns the wrapper that inv calls, and what follows its name.
func wrapperOf(inv *invocation) (w wrapper, label string, args []Word, ok bool) {
	program := wrapperName(inv.program)
	if w, ok := wrappers[program]; ok {
		return w, program, inv.args, true
	}
	label, args = program, inv.args
	for range 2 {
		i := skipFlags(args, globals[program])
		if i >= len(args) || args[i].Kind != Literal {
			return wrapper{}, "", nil, false
		}
		label += " " + args[i].Value
		args = args[i+1:]
		if w, ok := wrappers[label]; ok {
			return w, label, args, true
		}
	}
	return wrapper{}, "", nil, false
}

// skipFlags returns the index of the first operand.
func skipFlags(args []Word, values string) int {
	i := 0
	for i < len(args) {
		v, ok := args[i].Literal()
		if !ok || len(v) < 2 || v[0] != '-' {
			return i
		}
		if v == "--" {
			return i + 1
		}
		_, value := flagOf(v, values)
		i++
		if value == needed {
			i++
		}
	}
	return i
}

type valueKind int

const (
	none valueKind = iota
	attached
	needed // the next word
)

// flagOf returns the flag with a value in v, and where its value is. Long ones
// can be abbreviated.
func flagOf(v, values string) (flag string, kind valueKind) {
	if name, ok := strings.CutPrefix(v, "--"); ok {
		name, _, has := strings.Cut(name, "=")
		full := longFlag(name, values)
		switch {
		case full == "":
			return name, none
		case has:
			return full, attached
		}
		return full, needed
	}
	for i := 1; i < len(v); i++ {
		if hasFlag(values, v[i:i+1]) {
			if i+1 < len(v) {
				return v[i : i+1], attached
			}
			return v[i : i+1], needed
		}
	}
	return v[1:], none
}

// longFlag returns the flag of the list that name is or abbreviates.
func longFlag(name, list string) string {
	found := ""
	for item := range strings.SplitSeq(list, " ") {
		if item == name {
			return item
		}
		if len(item) > 1 && len(name) > 1 && strings.HasPrefix(item, name) {
			found = item
		}
	}
	return found
}
