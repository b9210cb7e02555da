package session

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/proc"
)

// Known describes the agent behind a shim: its process, as the system showed it when the shim
// joined, and its activity since. Fields that are not known are empty.
type Known struct {
	Executable string
	Cwd        string
	TTY        string
	Project    string    // top of the git repository that the agent works in, or its working directory
	Calls      int64     // judged for the agent by this daemon
	Since      time.Time // when the wrap was opened or the agent's first shim joined
	Servers    []string  // ids of the servers that its shims have used, sorted
	// Hash returns the hex SHA-256 of the executable. It blocks for at most a second, while the
	// hash of a new program is computed.
	Hash func() (string, error)
}

// agent describes the process that started a shim, as the system showed it.
type agent struct {
	executable, cwd, tty, project string
	program                       *program
}

// run is shared by the shims of one agent: those of a wrap, or those that one process started.
type run struct {
	since   time.Time
	calls   atomic.Int64
	servers atomic.Pointer[[]string]
	shims   int // that are attached; guarded by the registry's mutex
}

// maxServers is how many servers are remembered for a run.
const maxServers = 256

// knownSource is the source of Known for a shim. It is immutable.
type knownSource struct {
	agent *agent
	run   *run
}

// Known returns what is known of the agent behind an attachment, or false if the attachment has not
// joined. It does no I/O.
func (r *Registry) Known(attachment string) (Known, bool) {
	v, ok := r.known.Load(attachment)
	if !ok {
		return Known{}, false
	}
	k := v.(knownSource)
	return Known{
		Executable: k.agent.executable, Cwd: k.agent.cwd, TTY: k.agent.tty, Project: k.agent.project,
		Calls: k.run.calls.Load(), Since: k.run.since, Servers: *k.run.servers.Load(), Hash: k.agent.program.hash,
	}, true
}

// behind inspects the process that started a shim. The process must still be the one that was there
// when the shim came. If it can't be inspected, the result is empty.
func (r *Registry) behind(h *Hello) *agent {
	r.mu.Lock()
	shim, _, _ := r.member(*h)
	wrapped := r.sessions[shim.Session] != nil
	r.mu.Unlock()
	return r.lookAt(h.Parent, &shim, wrapped)
}

// lookAt inspects the process that started a shim. wrapped reports whether the shim belongs to a
// wrap.
func (r *Registry) lookAt(parent Process, shim *gate.Shim, wrapped bool) *agent {
	a := &agent{}
	if parent.PID != 0 {
		if p, err := proc.Look(parent.PID); err == nil && p.Process == parent {
			a.executable, a.cwd, a.tty, a.program = p.Exe, p.Cwd, p.TTY, r.programs.of(p)
		}
	}
	// A wrap says where it was opened; the shim's own claim is not used.
	folder := a.cwd
	if wrapped {
		folder = shim.Project
	}
	a.project = repository(folder)
	return a
}

// repository returns the top of the git repository that contains folder, or folder itself.
func repository(folder string) string {
	if !filepath.IsAbs(folder) {
		return ""
	}
	return config.Root(filepath.Clean(folder))
}

// belong adds a shim to its run. r.mu must be held.
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
	r.known.Store(j.Shim.Attachment, knownSource{j.agent, one})
}

// leave removes a shim from its run. The run of a wrap is deleted with the wrap, any other run with
// its last shim. r.mu must be held.
func (r *Registry) leave(j *Joined) {
	r.known.Delete(j.Shim.Attachment)
	if j.run.shims--; j.run.shims == 0 && r.sessions[j.Shim.Session] == nil {
		delete(r.runs, j.key)
	}
}

// endRun deletes the run of a wrap that has ended, if it has no shims left. r.mu must be held.
func (r *Registry) endRun(session string) {
	if one := r.runs[runOfSession(session)]; one != nil && one.shims == 0 {
		delete(r.runs, runOfSession(session))
	}
}

func runOfSession(id string) string { return "session " + id }

// runOf returns the key of a shim's run, and the start time that the run gets if it is new. r.mu
// must be held.
func (r *Registry) runOf(j *Joined) (key string, since time.Time) {
	if s := r.sessions[j.Shim.Session]; s != nil {
		return runOfSession(s.Spec.ID), s.Opened
	}
	if j.Parent.PID != 0 {
		return fmt.Sprintf("process %d %d", j.Parent.PID, j.Parent.Start), j.Since
	}
	return "attachment " + j.Shim.Attachment, j.Since
}
