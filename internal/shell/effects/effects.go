// Package effects says what the commands of a line do: which files they read,
// write and delete, which hosts they reach, and what of it is hard to undo or
// opens a door. What programs do with their words is data, in the tables of
// this package; a program that no table has does nothing that is known.
package effects

import (
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/shell"
)

// Effects are what a line does, as far as its text tells.
type Effects struct {
	Reads   []Path
	Writes  []Path
	Deletes []Path
	Runs    []Path // files that are executed as programs of a shell or an interpreter
	Hosts   []Host
	Deeds   []Deed
	Moves   []Move

	Truncated bool // there was more than is listed
}

const (
	maxPaths = 20000 // of each kind
	maxDeeds = 500
)

// A Host is a machine that a command reaches.
type Host struct {
	Name    string // "" if it is not known
	Text    string // the word that names it
	Command int
}

// Kind is what sort of deed a deed is.
type Kind string

// The kinds of deeds.
const (
	DeleteRecursive  Kind = "delete-recursive"       // a tree of files goes
	OverwriteDevice  Kind = "overwrite-device"       // a disk, partition or volume is written, formatted or removed
	SystemFile       Kind = "system-file"            // a file of the operating system is written or deleted
	LoginFile        Kind = "login-file"             // what runs, or who gets in, at the next login
	ServiceInstall   Kind = "service-install"        // what runs later or at the next start
	GitForcePush     Kind = "git-force-push"         // commits of others go
	GitDiscard       Kind = "git-discard"            // work that no commit has, or no branch holds, goes
	GitSwitch        Kind = "git-switch"             // the same, if the word of git checkout is a file and no branch
	GitHook          Kind = "git-hook"               // what git runs by itself
	DatabaseDrop     Kind = "database-drop"          // tables or databases go
	Infrastructure   Kind = "infrastructure-destroy" // machines, volumes, clusters, buckets go
	PermissionLoosen Kind = "permission-loosen"      // more people may do more with files
	OwnerChange      Kind = "owner-change"           // a tree of files gets another owner
	ProcessKill      Kind = "process-kill"           // the machine, or all processes of a user, go
	CodeFromNetwork  Kind = "code-from-network"      // what a host sends is run
	PackagePublish   Kind = "package-publish"        // something is published
	DataUpload       Kind = "data-upload"            // files are sent to a host
	HistoryTamper    Kind = "history-tamper"         // the traces of what was done go
	FirewallOff      Kind = "firewall-off"           // a protection of the machine is switched off
	UserManagement   Kind = "user-management"        // accounts and their passwords change
	ForkBomb         Kind = "fork-bomb"              // it starts processes without end
)

// A Deed is something that a person may want to be asked about.
type Deed struct {
	Kind    Kind
	Command int    // index of Line.Commands, or -1
	Paths   []Path // what it touches, if it is about files
	Detail  string // what says so, as the command has it
	Remote  string // where, if not on this machine
}

// Of returns the effects of a line.
func Of(line *shell.Line) *Effects {
	a := &analysis{line: line, effects: &Effects{}, downloads: map[string]bool{}, aliases: map[string]alias{}}
	a.fetched, a.readsOf = map[int]bool{}, map[int][]Path{}
	for i := range line.Commands {
		a.command(i)
	}
	for _, o := range line.Opaque {
		a.opaque(o)
	}
	return a.effects
}

// analysis collects the effects of one line.
type analysis struct {
	line      *shell.Line
	effects   *Effects
	downloads map[string]bool // files that came from the network
	searched  int             // bytes of texts that were searched for commands
	nested    int             // texts inside of code that are being looked at
	fetched   map[int]bool    // whether the output of a command comes from a host
	readsOf   map[int][]Path  // what each command reads
	aliases   map[string]alias
	compared  int
}

func (a *analysis) deed(kind Kind, i int, detail string, paths ...Path) {
	d := Deed{Kind: kind, Command: i, Paths: paths, Detail: detail}
	if i >= 0 && i < len(a.line.Commands) {
		d.Remote = a.line.Commands[i].Remote
	}
	if len(a.effects.Deeds) >= maxDeeds {
		a.effects.Truncated = true
		return
	}
	if !slices.ContainsFunc(a.effects.Deeds, func(e Deed) bool {
		return e.Kind == d.Kind && e.Command == d.Command && slices.Equal(e.Paths, d.Paths)
	}) {
		a.effects.Deeds = append(a.effects.Deeds, d)
	}
}

func (a *analysis) read(i int, w shell.Word) {
	paths := a.paths(i, w)
	a.add(&a.effects.Reads, paths)
	if a.readsOf != nil && len(a.readsOf[i]) < maxDeeds {
		a.readsOf[i] = append(a.readsOf[i], paths...)
	}
}

func (a *analysis) write(i int, w shell.Word) {
	a.writePaths(i, a.paths(i, w))
}

func (a *analysis) writePaths(i int, paths []Path) {
	a.add(&a.effects.Writes, paths)
	for _, p := range paths {
		a.writeDeed(i, p)
	}
}

func (a *analysis) delete(i int, w shell.Word) {
	paths := a.entries(i, w)
	a.add(&a.effects.Deletes, paths)
	for _, p := range paths {
		if kind := kindOfDelete(p, a.line.Home); kind != "" {
			a.deed(kind, i, p.Text, p)
		}
	}
}

// add adds paths to one list of the effects.
func (a *analysis) add(list *[]Path, paths []Path) {
	if len(*list)+len(paths) > maxPaths {
		a.effects.Truncated = true
		return
	}
	*list = append(*list, paths...)
}

func (a *analysis) writeDeed(i int, p Path) {
	if kind := kindOfWrite(p, a.line.Home); kind != "" {
		a.deed(kind, i, p.Text, p)
	}
}

// command adds what one command does.
func (a *analysis) command(i int) {
	c := &a.line.Commands[i]
	for _, r := range c.Redirects {
		a.redirect(i, r)
	}
	for _, v := range c.Env {
		a.variable(i, v)
	}
	if c.Script != nil {
		a.script(i, *c.Script)
	}
	for _, code := range c.Code {
		a.code(i, code)
	}
	a.program(i, c)
	for _, r := range c.Redirects {
		if _, ok := devTCP(r.Target); ok && shell.IsShell(c.Program) {
			a.deed(CodeFromNetwork, i, r.Target.Text)
		} else if ok && r.Writes {
			a.upload(i, r.Target.Text, append(a.inputs(i), a.readsOf[i]...))
		}
	}
	a.executed(i, c)
	a.sentOver(i)
}

// redirect adds what a redirection reads or writes.
func (a *analysis) redirect(i int, r shell.Redirect) {
	if host, ok := devTCP(r.Target); ok {
		a.effects.Hosts = append(a.effects.Hosts, Host{Name: host, Text: r.Target.Text, Command: i})
		return
	}
	if r.Reads {
		a.read(i, r.Target)
	}
	if r.Writes && !isStandardDevice(r.Target) {
		a.write(i, r.Target)
		if c := &a.line.Commands[i]; !strings.HasSuffix(r.Op, ">>") && !r.Reads && len(c.Dirs) > 0 && a.isSilent(i) {
			a.empties(i, r.Target)
		}
		if a.fetches(i) {
			a.downloaded(i, r.Target)
		}
	}
}

// isSilent reports whether command i surely prints nothing, so that it empties a file to which its
// output goes. A command that prints replaces what was in the file, which is what it is run for.
func (a *analysis) isSilent(i int) bool {
	c := &a.line.Commands[i]
	if !c.IsGroup {
		return printsNothing(c)
	}
	inside := 0
	for j := i + 1; j < len(a.line.Commands) && inside <= maxInside; j++ {
		of := &a.line.Commands[j]
		if of.Pos < c.Pos || of.End > c.End {
			break
		}
		if inside++; !of.IsGroup && !printsNothing(of) {
			return false
		}
	}
	return inside > 0 && inside <= maxInside // none are inside of a call of a function: they stand where it is defined
}

// maxInside is how many commands of a group are looked at to see that none of them prints.
const maxInside = 16

// printsNothing is isSilent for a command that is no group.
func printsNothing(c *shell.Command) bool {
	var words []string
	for _, w := range c.Args {
		v, known := w.Literal()
		if !known {
			return false
		}
		words = append(words, v)
	}
	switch c.Program {
	case "":
		return c.Name.Text == "" // otherwise it is not known which one it is
	case ":", "true", "false":
		return true
	case "printf":
		return len(words) == 1 && words[0] == "" || len(words) == 2 && words[0] == "--" && words[1] == ""
	case "echo":
		return len(words) > 0 && words[0] == "-n" && strings.Join(words[1:], "") == ""
	case "cat":
		return len(words) > 0 && !slices.ContainsFunc(words, func(v string) bool { return v != "/dev/null" }) ||
			len(words) == 0 && slices.ContainsFunc(c.Redirects, func(r shell.Redirect) bool { return r.Op == "<" && r.Target.Value == "/dev/null" })
	}
	return false
}

// variable adds what a variable for one command does.
func (a *analysis) variable(i int, v shell.Assign) {
	switch v.Name {
	case "HISTFILE", "HISTSIZE":
		a.deed(HistoryTamper, i, v.Name)
	case "LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "BASH_ENV", "ENV", "PYTHONSTARTUP", "GIT_SSH", "SSH_ASKPASS", "SUDO_ASKPASS":
		a.script(i, v.Value)
	}
}
