package handover_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/test/rig"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// The places of what is kept of a session, by the ends of their names.
const (
	agentInput   = ".0"
	agentOutput  = ".1"
	serverInput  = ".2"
	serverOutput = ".3"
	drained      = ".4"
	toAgent      = ".5"
	toServer     = ".6"
	memory       = ".7"
)

// If anything of a session is planted or altered while no daemon runs, that session ends with
// a record that says why, and nothing of it is delivered. Other sessions continue.
func TestAlteredWhileKept(t *testing.T) {
	t.Parallel()
	const damaged = "is corrupt or was altered"
	for name, test := range map[string]struct {
		alter  func(t *testing.T, f *os.File) *os.File
		at     string
		reason string
	}{
		"journal": {at: memory, reason: damaged, alter: func(t *testing.T, f *os.File) *os.File {
			write(t, f, 3*8, 0xff) // its end
			return f
		}},
		"positions": {at: memory, reason: damaged, alter: func(t *testing.T, f *os.File) *os.File {
			write(t, f, 4*8, 0x7f) // of the agent's input
			return f
		}},
		"written to the staging pipe of the agent":  {at: toAgent, reason: damaged, alter: plant},
		"written to the staging pipe of the server": {at: toServer, reason: damaged, alter: plant},
		"other memory without seals":                {at: memory, reason: "were lost with a previous daemon", alter: unsealed},
		"no memory":                                 {at: memory, reason: "were lost with a previous daemon", alter: otherPipe},
		"another agent's input":                     {at: agentInput, reason: damaged, alter: otherPipe},
		"another agent's output":                    {at: agentOutput, reason: damaged, alter: otherPipe},
		"another server's output":                   {at: serverOutput, reason: damaged, alter: otherPipe},
		"another pipe for what is drained":          {at: drained, reason: damaged, alter: otherPipe},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := rig.NewFixture(t)
			h.Configure(rig.Configuration)
			h.StartDaemon()
			p, other := start(t, h), start(t, h)
			for _, p := range []*pair{p, other} {
				p.says(p.call(1, "echo"))
				p.answers(1, "echo")
			}
			var mine string // what the names of the session's descriptors begin with
			input, err := os.Stat(fmt.Sprintf("/proc/%d/fd/0", p.Server.PID))
			if err != nil {
				t.Fatal(err)
			}
			h.KillDaemon()
			p.says(p.call(2, "echo"))
			h.AlterKept(func(f *os.File) *os.File {
				if info, err := f.Stat(); err == nil && os.SameFile(info, input) {
					mine = strings.TrimSuffix(f.Name(), serverInput)
				}
				return f
			})
			h.AlterKept(func(f *os.File) *os.File {
				if f.Name() == mine+test.at {
					return test.alter(t, f)
				}
				return f
			})
			h.StartDaemon()
			if _, ok := p.Wait(rig.Timeout); !ok {
				t.Fatal("the shim runs still")
			}
			for side, in := range map[string]*rig.Inbox{"agent": p.Agent, "server": p.Server.Inbox} {
				for end := time.Now().Add(rig.Timeout); !in.Ended() && time.Now().Before(end); time.Sleep(time.Millisecond) {
				}
				if lines, tail := in.Since(1); len(lines)+len(tail) > 0 || !in.Ended() {
					t.Errorf("the %s reads %q and %q; ended: %v", side, lines, tail, in.Ended())
				}
			}
			if reasons := lost(t, h); len(reasons) != 1 || !strings.Contains(reasons[0], test.reason) {
				t.Errorf("on record are %q, want one with %q", reasons, test.reason)
			}
			other.says(other.call(2, "echo"))
			other.answers(2, "echo")
		})
	}
}

// lost returns the reasons for which sessions were lost.
func lost(t *testing.T, h *rig.Fixture) (reasons []string) {
	t.Helper()
	c := control(t, h)
	for end := time.Now().Add(rig.Timeout); len(reasons) == 0 && time.Now().Before(end); time.Sleep(time.Millisecond) { // tg-shim has exited a little earlier
		for r, err := range c.ReadAudit(t.Context(), &pb.AuditQuery{Kind: "detach", Verdict: "lost"}) {
			if err != nil {
				t.Fatal(err)
			}
			reasons = append(reasons, string(r.GetLine()))
		}
	}
	return reasons
}

func write(t *testing.T, f *os.File, at int64, what ...byte) {
	t.Helper()
	all := make([]byte, 8)
	for i := range all {
		all[i] = what[0]
	}
	if _, err := f.WriteAt(all, at); err != nil {
		t.Error(err)
	}
}

func plant(t *testing.T, f *os.File) *os.File {
	t.Helper()
	if _, err := unix.Write(int(f.Fd()), []byte(`{"jsonrpc":"2.0","method":"planted"}`+"\n")); err != nil {
		t.Error(err)
	}
	return f
}

// unsealed returns a copy of memory that can be truncated.
func unsealed(t *testing.T, f *os.File) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("planted", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	other := os.NewFile(uintptr(fd), f.Name())
	info, err := f.Stat()
	if err == nil {
		err = other.Truncate(info.Size())
	}
	head := make([]byte, 1<<20)
	if err == nil {
		_, err = f.ReadAt(head, 0)
	}
	if err == nil || errors.Is(err, io.EOF) {
		_, err = other.WriteAt(head, 0)
	}
	if err != nil {
		t.Error(err)
	}
	return other
}

// otherPipe returns an end of another pipe, of the same kind.
func otherPipe(t *testing.T, f *os.File) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	mine, theirs := r, w
	if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0); err == nil && flags&unix.O_ACCMODE == unix.O_WRONLY {
		mine, theirs = w, r
	}
	t.Cleanup(func() { theirs.Close() })
	fd, err := unix.FcntlInt(mine.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	mine.Close()
	return os.NewFile(uintptr(fd), f.Name())
}
