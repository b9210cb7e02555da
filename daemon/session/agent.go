package session

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/proc"
)

// Known is what is known of the agent behind a shim: what the system says of its
// process, looked at when the shim joined, and what has happened since. What is
// not known is empty.
type Known struct {
	Executable string
	Cwd        string
	TTY        string
	Project    string    // top of the git repository that the agent works in, else the folder it works in
	Calls      int64     // judged for the agent, with this daemon
	Since      time.Time // the wrap was opened, or the agent's first shim joined
	Servers    []string  // ids that its shims have had, in order
	// Hash returns the hex SHA-256 of the executable. It waits for a second at
	// most, the first time that the program is seen.
	Hash func() (string, error)
}

// agent is what the system says of the process that started a shim.
type agent struct {
	executable, cwd, tty, project string
	program                       *program
}

// run is what the shims of one agent have in common: those of a wrap, or those
// that one process has started.
type run struct {
	since   time.Time
	calls   atomic.Int64
	servers atomic.Pointer[[]string]
	shims   int // that are joined; the registry's mutex guards it
}

// maxServers is how many servers of a run are remembered.
const maxServers = 256

// know is what Known returns of a shim. It does not change.
type know struct {
	agent *agent
	run   *run
}

// Known returns what is known of the agent behind an attachment, or false for
// one that has not joined. It looks things up and does nothing else.
func (r *Registry) Known(attachment string) (Known, bool) {
	v, ok := r.known.Load(attachment)
	if !ok {
		return Known{}, false
	}
	k := v.(know)
	return Known{
		Executable: k.agent.executable, Cwd: k.agent.cwd, TTY: k.agent.tty, Project: k.agent.project,
		Calls: k.run.calls.Load(), Since: k.run.since, Servers: *k.run.servers.Load(), Hash: k.agent.program.hash,
	}, true
}

// behind looks at the process behind a shim, which must still be what it was
// when the shim came. Of a process that can't be looked at nothing is known.
func (r *Registry) behind(h *Hello) *agent {
	r.mu.Lock()
	shim, _, _ := r.member(*h)
	wrapped := r.sessions[shim.Session] != nil
	r.mu.Unlock()
	return r.lookAt(h.Parent, &shim, wrapped)
}

// lookAt looks at the process that has started a shim. wrapped says that the shim is
// of a wrap.
func (r *Registry) lookAt(parent Process, shim *gate.Shim, wrapped bool) *agent {
	a := &agent{}
	if parent.PID != 0 {
		if p, err := proc.Look(parent.PID); err == nil && p.Process == parent {
			a.executable, a.cwd, a.tty, a.program = p.Exe, p.Cwd, p.TTY, r.programs.of(p)
		}
	}
	// A wrap says where it was opened; what a shim says of itself is not asked.
	folder := a.cwd
	if wrapped {
		folder = shim.Project
	}
	a.project = repository(folder)
	return a
}

// repository is the top of the git repository that a folder lies in, else the
// folder.
func repository(folder string) string {
	if !filepath.IsAbs(folder) {
		return ""
	}
	for at := filepath.Clean(folder); ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return at
		}
		if at == filepath.Dir(at) {
			return folder
		}
	}
}

// belong makes a shim part of its run. r.mu is held.
func (r *Registry) belong(j *Joined) {
	key, since := r.runOf(j)
	one := r.runs[key]
	if one == nil {
		one = &run{since: since}
		one.servers.Store(&[]string{})
		r.runs[key] = one
	}
	one.shims++
	servers := *one.servers.Load()
	if at, there := slices.BinarySearch(servers, j.Shim.Server); !there && len(servers) < maxServers {
		more := slices.Insert(slices.Clone(servers), at, j.Shim.Server)
		one.servers.Store(&more)
	}
	j.run, j.key, j.Shim.Calls = one, key, &one.calls
	r.known.Store(j.Shim.Attachment, know{j.agent, one})
}

// leave takes a shim out of its run. A wrap's run goes with the wrap, any other
// with its last shim. r.mu is held.
func (r *Registry) leave(j *Joined) {
	r.known.Delete(j.Shim.Attachment)
	if j.run.shims--; j.run.shims == 0 && r.sessions[j.Shim.Session] == nil {
		delete(r.runs, j.key)
	}
}

// endRun lets go of the run of a wrap that has ended, when none of its shims is
// left. r.mu is held.
func (r *Registry) endRun(session string) {
	if one := r.runs[runOfSession(session)]; one != nil && one.shims == 0 {
		delete(r.runs, runOfSession(session))
	}
}

func runOfSession(id string) string { return "session " + id }

// runOf names the run of a shim, and says when it began if it is new. r.mu is
// held.
func (r *Registry) runOf(j *Joined) (key string, since time.Time) {
	if s := r.sessions[j.Shim.Session]; s != nil {
		return runOfSession(s.Spec.ID), s.Opened
	}
	if j.Parent.PID != 0 {
		return fmt.Sprintf("process %d %d", j.Parent.PID, j.Parent.Start), j.Since
	}
	return "attachment " + j.Shim.Attachment, j.Since
}
