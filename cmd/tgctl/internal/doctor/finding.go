package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
)

// Severities of a finding.
const (
	gradeOK   = "ok"
	gradeWarn = "warn" // weakens the protection, or will need a person
	gradeFail = "fail" // something is unprotected, or refused that should not be
)

// finding is one thing that doctor reports, and one object of --json. Its id is that of
// a kind of finding or, with severity ok, the name of the part that was examined.
type finding struct {
	ID       string `json:"id"`
	Severity string `json:"severity"` // ok, warn, fail
	About    string `json:"about"`    // the file, directory, agent, server or program, if any
	What     string `json:"what"`     // one line
	Fix      string `json:"fix"`      // how to fix it, in one line; empty only if the severity is ok
}

// findingKind is a problem that doctor can find. The ids must not change: scripts and the
// documentation use them.
type findingKind struct {
	id       string // part.what
	severity string
	fix      string // the fix; {} stands for what the finding is about
}

const (
	restartIt  = "tgctl daemon restart"
	oneRelease = "install all three programs of one release in one folder"
)

// findingKinds lists every problem that doctor can find, in the order in which it looks.
var findingKinds = []findingKind{
	{"daemon.stopped", gradeFail, "tgctl daemon start"},
	{"daemon.unreachable", gradeFail, "see its log, and kill it if it does not answer; then: tgctl daemon start"},
	{"daemon.lock", gradeWarn, restartIt},
	{"daemon.warning", gradeWarn, "see: tgctl status"},

	{"version.daemon", gradeWarn, restartIt},
	{"version.shim", gradeWarn, oneRelease},
	{"version.no-shim", gradeFail, oneRelease},
	{"version.attached", gradeWarn, "restart the agent; see: tgctl ps"},

	{"service.failed", gradeFail, "see the log that tgctl daemon status names; then: tgctl daemon restart"},
	{"service.other", gradeWarn, restartIt},
	{"service.restarts", gradeWarn, "see the log that tgctl daemon status names"},
	{"service.linger", gradeWarn, "loginctl enable-linger"},

	{"log.errors", gradeWarn, "see: {}"},
	{"log.unreadable", gradeWarn, "see its permissions: ls -l {}"},

	{"folders.open", gradeFail, "see its owner: ls -ld {}"},
	{"folders.socket", gradeFail, restartIt},
	{"folders.config", gradeFail, "chmod go-w {}"},

	{"disk.full", gradeFail, "free space on the disk of {}: in production every call is denied if nothing can be recorded"},
	{"disk.low", gradeWarn, "free space on the disk of {}"},
	{"disk.readonly", gradeFail, "make it writable for its owner: ls -ld {}; check whether its file system is mounted read-only: df {}"},
	{"disk.unknown", gradeWarn, "check the disk: df {}"},

	{"clock.back", gradeWarn, "correct the clock; until then, records get a time in the past"},
	{"clock.stepped", gradeWarn, "use a time service to set the clock; then: " + restartIt},

	{"record.failing", gradeFail, "make the folder writable, or free space on its disk: {}; recording then resumes"},
	{"record.broken", gradeFail, "keep a copy of {}, then run: tgctl audit verify"},
	{"record.unreadable", gradeFail, "see its permissions: ls -l {}"},
	{"record.gap", gradeWarn, "see: tgctl audit --kind gap"},

	{"policy.invalid", gradeFail, "fix what tgctl policy check reports, then: tgctl daemon reload"},
	{"policy.unchecked", gradeWarn, "see: tgctl policy check"},
	{"policy.warning", gradeWarn, "see: tgctl policy check"},
	{"policy.changed", gradeWarn, "see the change: tgctl policy show; if it is intended: tgctl daemon reload"},
	{"policy.reload", gradeFail, "fix what tgctl policy check reports, then: tgctl daemon reload"},
	{"policy.development", gradeWarn, "set `profile: production` in {}, then: tgctl daemon reload"},
	{"policy.refused", gradeWarn, "fix the policy to match the tool's arguments: tgctl policy check"},
	{"policy.project", gradeFail, "see: tgctl policy check {}"},

	{"agents.ungoverned", gradeWarn, "tgctl protect {}"},
	{"agents.tools", gradeWarn, "tgctl protect --only tools {}"},
	{"agents.project", gradeWarn, "start the agent there with: tgctl wrap -- {}"},
	{"agents.beyond", gradeWarn, "remove them, or run them as programs; docs/agents.md says what can be governed"},
	{"agents.unreadable", gradeFail, "fix the file; its agent may fail to read it too"},
	{"agents.past", gradeFail, "see them: tgctl sessions; then end the agent and wrap it again"},
	{"agents.protection", gradeFail, "tgctl protect --repair {}"},

	{"leftovers.lines", gradeFail, "tgctl unwrap {}"},
	{"leftovers.wrap", gradeFail, "tgctl unwrap {}"},
	{"leftovers.backup", gradeWarn, "tgctl unwrap {}"},
	{"leftovers.lock", gradeWarn, "tgctl unwrap {}"},
	{"leftovers.temp", gradeWarn, "tgctl unwrap {}"},
	{"leftovers.copy", gradeWarn, "tgctl unwrap {}"},
	{"leftovers.altered", gradeWarn, "review it, then remove it: rm {}"},

	{"extension.failed", gradeFail, "see: tgctl ext show {}; then: tgctl restart {}"},
	{"extension.changed", gradeFail, "review its folder, then accept it: tgctl ext install DIR"},
	{"extension.missing", gradeFail, "install the program, then: tgctl restart {}"},

	{"shared.failed", gradeFail, "see: tgctl logs {}; then: tgctl restart {}"},
	{"remote.failed", gradeWarn, "check that the server runs, and its address in the agent's configuration; see: tgctl ps"},

	{"login.wanted", gradeWarn, "tgctl login {}"},
	{"login.failing", gradeWarn, "see the daemon's log; if it stays so: tgctl login {}"},
	{"login.ending", gradeWarn, "tgctl login {}"},
	{"login.unreadable", gradeFail, "move logins.json in the state folder away, then log in again: tgctl login"},
	{"login.file", gradeWarn, "start or unlock a Secret Service, such as GNOME Keyring or KWallet; then log out of all servers and log in again: tgctl login"},

	{"phone.unreadable", gradeWarn, "set it up again: tgctl notify --via ntfy --setup"},
	{"phone.unreachable", gradeWarn, "check that the server runs and that this machine reaches it; another one: tgctl notify --via ntfy --setup"},

	{"fleet.stopped", gradeWarn, "systemctl --user enable --now tg-fleet, or: tgctl fleet run"},
	{"fleet.failing", gradeWarn, "see: tgctl fleet status; if it stays so, ask your administrator"},
	{"fleet.fork", gradeFail, "tell your administrator: your log or what was sent of it was changed; see: tgctl fleet status"},
	{"fleet.refused", gradeFail, "tell your administrator; see: tgctl fleet status"},

	{"approver.not-enrolled", gradeFail, "tgctl presence enrol"},
	{"approver.locked", gradeWarn, "if it was not you, an agent may be guessing: end your agents; see: tgctl presence"},
	{"approver.recovered", gradeWarn, "if it was not you: tgctl presence rotate; see: tgctl audit --kind presence"},

	{"kernel.pidfd", gradeWarn, "use Linux 5.3 or later; in a container, allow pidfd_open"},
	{"kernel.peer", gradeWarn, "use Linux 6.5 or later"},
	{"kernel.ptrace", gradeWarn, "sudo sysctl kernel.yama.ptrace_scope=1"},
	{"kernel.other", gradeWarn, "do not give an untrusted agent a shell on this machine"},

	{"hooks.passed", gradeFail, "tgctl protect --repair {}; then: tgctl doctor"},
	{"hooks.silent", gradeFail, "tgctl protect --repair {}; then: tgctl doctor"},
	{"hooks.unrecorded", gradeFail, "see: tgctl status; then: tgctl protect --repair {}"},

	{"canary.untried", gradeFail, "first fix the daemon or its programs, then: tgctl doctor"},
	{"canary.passed", gradeFail, "end your agents, since calls are not judged, and report it as SECURITY.md says"},
	{"canary.silent", gradeFail, "see the daemon's log; agents' calls get no answer either"},
	{"canary.accident", gradeFail, "fix the cause; until then the policies can't be evaluated"},
	{"canary.unrecorded", gradeFail, "see: tgctl status; then: tgctl audit verify"},
}

// addFinding adds a finding about the thing named by about, which may be empty.
func (x *examination) addFinding(id, about, format string, args ...any) {
	x.addFindingWithFix(id, about, "", format, args...)
}

// addFindingWithFix is addFinding with a more specific fix; if fix is empty, that of the kind is
// used.
func (x *examination) addFindingWithFix(id, about, fix, format string, args ...any) {
	i := slices.IndexFunc(findingKinds, func(a findingKind) bool { return a.id == id })
	fix = cmp.Or(fix, strings.ReplaceAll(findingKinds[i].fix, "{}", ui.Word(about)))
	x.found = append(x.found, finding{ID: id, Severity: findingKinds[i].severity, About: about, What: ui.OneLine(fmt.Sprintf(format, args...)), Fix: ui.OneLine(fix)})
}

// addOK adds a finding of severity ok for a part, unless the part has a finding already.
func (x *examination) addOK(part, format string, args ...any) {
	if !slices.ContainsFunc(x.found, func(f finding) bool { return partOf(f.ID) == part }) {
		x.found = append(x.found, finding{ID: part, Severity: gradeOK, What: ui.OneLine(fmt.Sprintf(format, args...))})
	}
}

func (x *examination) has(id string) bool {
	return slices.ContainsFunc(x.found, func(f finding) bool { return f.ID == id })
}

// count returns the number of findings of a severity.
func (x *examination) count(severity string) int {
	return len(ui.Filter(x.found, func(f finding) bool { return f.Severity == severity }))
}

// partOf returns the part that a finding belongs to.
func partOf(id string) string {
	part, _, _ := strings.Cut(id, ".")
	return part
}

// addFindingFromError is addFinding for an error whose message may end with what to do about it.
func (x *examination) addFindingFromError(id, about, format string, err error) {
	what, fix := err.Error(), ""
	if i := strings.LastIndex(what, "; "); i >= 0 {
		what, fix = what[:i], strings.TrimPrefix(what[i+2:], "run: ")
	}
	x.addFindingWithFix(id, about, fix, format, what)
}
