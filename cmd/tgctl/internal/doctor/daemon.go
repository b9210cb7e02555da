package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/host"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/programs"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/proc"
	"github.com/thoughtgate/thoughtgated/internal/service"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// lookAtDaemon reports on the daemon itself, and the warnings of the daemon that no other
// part of doctor finds.
func (x *examination) lookAtDaemon() {
	x.lookAtLock()
	st := x.status
	for _, warning := range st.GetWarnings() {
		if x.foundElsewhere(warning) {
			continue
		}
		x.addFindingFromError("daemon.warning", "", "%s", errors.New(warning))
	}
	x.addOK("daemon", "running since %s, pid %d, %s", display.Moment(st.GetStarted().AsTime(), x.Now()), st.GetPid(), st.GetBuild())
}

// foundElsewhere reports whether doctor finds the cause of a warning itself when it looks
// at the policies, extensions or logins. Those findings have more detail.
func (x *examination) foundElsewhere(warning string) bool {
	source := x.status.GetSet().GetSource()
	switch {
	case source == "" && strings.HasPrefix(warning, "there is no configuration file"),
		strings.HasPrefix(warning, "the extension ") && strings.Contains(warning, " is not run: "),
		strings.Contains(warning, " wants a login: "),
		x.status.GetSet().GetProfile() == "development" && strings.HasPrefix(warning, "the development profile"):
		return true
	}
	for _, f := range x.status.GetSet().GetFiles() {
		if strings.HasPrefix(warning, f.GetPath()+" has changed") || strings.HasPrefix(warning, f.GetPath()+":") {
			return true
		}
	}
	return false
}

// lookAtLock compares the pid in the lock with that of the daemon that answers. If they
// differ, a second daemon could start.
func (x *examination) lookAtLock() {
	path := x.paths.LockFile()
	if at := x.status.GetControlSocket(); at != "" && at != x.paths.ControlSocket() {
		return // another instance, with a lock elsewhere
	}
	text, err := os.ReadFile(path)
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text))) // 0 if it is not a number
	switch {
	case errors.Is(err, fs.ErrNotExist) && x.client != nil:
		x.addFinding("daemon.lock", path, "the daemon's lock file is missing: a second daemon could start")
	case err != nil && x.client != nil:
		x.addFinding("daemon.lock", path, "can't read the daemon's lock file: %v", err)
	case x.client != nil && pid != int(x.status.GetPid()):
		x.addFinding("daemon.lock", path, "pid %d answers, but the lock file names pid %d: a second daemon could start or is running", x.status.GetPid(), pid)
	case x.client == nil && err == nil && pid > 0:
		if p, err := proc.Look(int32(pid)); err == nil && p.Name == connect.DaemonName {
			x.addFindingWithFix("daemon.lock", path, "kill "+strconv.Itoa(pid)+"; then: tgctl daemon start", "pid %d holds the daemon's lock but does not answer", pid)
		}
	}
}

// lookAtVersions finds programs of other releases than this one.
func (x *examination) lookAtVersions(ctx context.Context) {
	if st := x.status; st != nil && st.GetBuild() != ui.Release {
		x.addFinding("version.daemon", "", "the daemon is %s, but tgctl is %s", st.GetBuild(), ui.Release)
	}
	var err error
	if x.shim, err = x.Sibling("tg-shim"); err != nil {
		x.addFinding("version.no-shim", "", "no server can be started: %v", err)
		return
	}
	switch version, err := x.version(ctx, x.shim); {
	case err != nil:
		x.addFinding("version.no-shim", x.shim, "can't start %s, so no server can be started: %v", x.shim, err)
	case version != ui.Release:
		x.addFinding("version.shim", x.shim, "%s is %s, but tgctl is %s", x.shim, version, ui.Release)
	}
	if x.client == nil {
		x.addOK("version", "tg-shim and tgctl are %s", ui.Release)
		return
	}
	processes, err := x.client.ListProcesses(ctx)
	if err != nil {
		x.addFinding("daemon.unreachable", "", "the daemon does not report which servers it governs: %v", err)
		return
	}
	old := ui.Filter(processes, func(p *pb.Process) bool { return programs.IsShim(p) && p.GetBuild() != x.status.GetBuild() })
	if len(old) > 0 {
		x.addFinding("version.attached", "", "servers behind a tg-shim of another version than the daemon: %s", strings.Join(ui.Unique(ui.Map(old, (*pb.Process).GetServer)), ", "))
	}
	x.addOK("version", "thoughtgated, tg-shim and tgctl are %s", ui.Release)
}

// lookAtService reports who starts the daemon.
func (x *examination) lookAtService(ctx context.Context) {
	s, err := x.machine.service(ctx)
	switch {
	case errors.Is(err, service.ErrNone):
		x.addOK("service", "%v: tgctl starts the daemon when needed", err)
		return
	case err != nil:
		x.addOK("service", "unknown: %v", err)
		return
	}
	x.service = s
	switch {
	case !s.Installed():
		x.addOK("service", "the daemon is not installed in %s: tgctl starts it when needed", s.Manager)
		return
	case s.Failed:
		x.addFinding("service.failed", "", "%s has stopped trying to start the daemon", s.Manager)
	case x.status != nil && !connect.StartedBy(x.status.GetPid(), s.PID):
		x.addFinding("service.other", "", "the running daemon was not started by %s: it is not restarted if it fails", s.Manager)
	}
	if s.Restarts > 0 {
		x.addFinding("service.restarts", "", "%s restarted the daemon after a failure, %s", s.Manager, ui.Plural(uint32(s.Restarts), "time", "times"))
	}
	if remote := x.Getenv("SSH_CONNECTION") != "" || x.Getenv("XDG_SESSION_TYPE") == "tty"; s.Enabled && remote && !s.Lingers {
		x.addFinding("service.linger", "", "the daemon ends when you log out of this machine; calls of agents that you leave running then fail")
	}
	x.addOK("service", "%s starts the daemon, which %s when you log out", s.Manager, ui.Choose(s.Lingers, "keeps running", "ends"))
}

// logAge is how far back errors in the daemon's log are reported.
const logAge = 24 * time.Hour

// lookAtLog counts the errors in the daemon's log.
func (x *examination) lookAtLog(ctx context.Context) {
	log := host.Log{Service: x.service.Installed() && x.service.Manager == "systemd" && (x.status == nil || x.service.PID == int(x.status.GetPid())), File: x.paths.LogFile(), Since: x.Now().Add(-logAge)}
	command := "less " + ui.Word(log.File)
	if log.Service {
		command = "journalctl --user -u thoughtgated -p err --since -24h"
	}
	lines, err := x.errors(ctx, log)
	switch {
	case err != nil:
		x.addFinding("log.unreadable", log.File, "can't read the daemon's log: %v", err)
	case len(lines) > 0:
		x.addFindingWithFix("log.errors", log.File, "see: "+command, "the daemon logged %s within a day, the last one: %s", ui.Plural(uint32(len(lines)), "error", "errors"), lines[len(lines)-1])
	}
	x.addOK("log", "the daemon logged no errors within a day")
}
