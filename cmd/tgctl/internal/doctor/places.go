package doctor

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/host"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// Free space below which doctor reports a finding, in bytes and in files.
const (
	roomAtEase  = 1 << 30
	filesAtEase = 1000
)

// lookAtFolders finds files and directories that others could read or change.
func (x *examination) lookAtFolders() {
	for _, dir := range []string{x.paths.State, x.paths.Runtime} {
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			continue // no daemon has run yet
		}
		x.unsafe("folders.open", dir, sock.CheckFolder(dir))
	}
	if st := x.status; st != nil {
		for _, path := range []string{st.GetControlSocket(), st.GetShimSocket()} {
			x.unsafe("folders.socket", path, sock.CheckSocket(path))
		}
	}
	for _, path := range x.configFiles() {
		info, err := os.Stat(path)
		if err == nil && info.Mode().Perm()&0o022 != 0 {
			x.addFinding("folders.config", path, "others may change the configuration: %s has mode %04o", path, info.Mode().Perm())
		}
	}
	x.addOK("folders", "private to you: %s and %s", x.paths.State, x.paths.Runtime)
}

// unsafe adds a finding about a file or directory if err is not nil.
func (x *examination) unsafe(id, path string, err error) {
	if err != nil {
		x.addFindingFromError(id, path, "%s", err)
	}
}

// configFiles returns the files of the configuration in force, with the directory of the
// main file.
func (x *examination) configFiles() []string {
	all := []string{x.paths.Config, x.paths.ConfigFile()}
	for _, f := range x.status.GetSet().GetFiles() {
		if f.GetPath() != x.paths.ConfigFile() {
			all = append(all, f.GetPath())
		}
	}
	return all
}

// auditDir returns the directory of the audit log.
func (x *examination) auditDir() string { return cmp.Or(x.status.GetAuditDir(), x.paths.AuditDir()) }

// lookAtDisk checks the free space for the state and the audit log.
func (x *examination) lookAtDisk() {
	var seen []host.Space
	least := host.Unlimited
	for _, dir := range []string{x.paths.State, x.auditDir()} {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := x.writable(dir); err != nil {
			x.addFinding("disk.readonly", dir, "can't write to %s: %v", dir, err)
		}
		room, err := x.space(dir)
		if slices.Contains(seen, room) {
			continue // the same file system
		}
		seen, least = append(seen, room), min(least, room.Free)
		switch {
		case err != nil:
			x.addFinding("disk.unknown", dir, "can't read the free space: %v", err)
		case room.Free < host.RoomToRecord:
			x.addFinding("disk.full", dir, "%d MB are free for %s", room.Free>>20, dir)
		case room.Files < filesAtEase:
			x.addFinding("disk.low", dir, "%s can take %d more files", dir, room.Files)
		case room.Free < roomAtEase:
			x.addFinding("disk.low", dir, "%d MB are free for %s", room.Free>>20, dir)
		}
	}
	if len(seen) == 0 {
		x.addOK("disk", "nothing is stored yet")
	}
	x.addOK("disk", "%d GB are free for the state and the audit log", least>>30)
}

// clockSlack is how much two clocks may differ.
const clockSlack = time.Minute

// lookAtClock finds out whether the clock was set. Approvals expire by a clock that
// nobody can set; records have the time of the other.
func (x *examination) lookAtClock() {
	if segment := x.lastSegment(); segment != "" {
		if info, err := os.Stat(segment); err == nil && info.ModTime().After(x.Now().Add(clockSlack)) {
			x.addFinding("clock.back", "", "the last record is %v in the future: the clock was set back", info.ModTime().Sub(x.Now()).Round(time.Second))
		}
	}
	if st := x.status; st != nil {
		age, err := x.age(st.GetPid())
		by := x.Now().Sub(st.GetStarted().AsTime()) - age
		if err == nil && by.Abs() > clockSlack {
			x.addFinding("clock.stepped", "", "the clock was set by %v since the daemon started: recorded times are off", by.Round(time.Second))
		}
	}
	x.addOK("clock", "it agrees with the audit log and with the daemon")
}

// lastSegment returns the path of the newest file of the audit log, empty if there is
// none.
func (x *examination) lastSegment() string {
	numbers, err := record.Segments(x.auditDir())
	if err != nil || len(numbers) == 0 {
		return ""
	}
	return filepath.Join(x.auditDir(), record.SegmentName(numbers[len(numbers)-1]))
}

// lookAtRecord verifies the end of the audit log, where a program that hides its traces
// would begin.
func (x *examination) lookAtRecord() {
	if failure := x.status.GetAuditFailure(); failure != "" {
		x.addFinding("record.failing", x.auditDir(), "nothing can be recorded, so every governed call is denied: %s", failure)
	}
	dir := x.auditDir()
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		x.addOK("record", "there is no audit log yet")
		return
	}
	segment := x.lastSegment()
	if segment == "" {
		segment = dir // verifying it reports what is wrong
	}
	head, err := record.ReadHead(dir)
	if err != nil {
		x.addFinding("record.broken", dir, "can't read where the audit log ends: %v", err)
		return
	}
	var options record.VerifyOptions
	if head != nil {
		options.Heads = []record.Head{*head}
	}
	report, err := record.Verify([]string{segment}, options)
	switch {
	case err != nil:
		x.addFinding("record.unreadable", segment, "can't read the audit log: %v", err)
	case report.Bad != nil:
		x.addFinding("record.broken", segment, "the audit log is not as it was written: %v", report.Bad)
	case report.Gaps > 0:
		x.addFinding("record.gap", segment, "the audit log has %s where it could not be written", ui.Plural(report.Gaps, "place", "places"))
	}
	x.addOK("record", "verified records %d to %d, the last; to verify all: tgctl audit verify", report.First, report.Last.Seq)
}
