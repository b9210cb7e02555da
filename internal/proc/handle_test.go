package proc

import (
	"context"
	"errors"
	"math"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

// A handle reports when its process has ended, with a pidfd and without.
func TestHandle(t *testing.T) {
	for _, numbered := range []bool{false, true} {
		cmd := rig.Start(t, rig.As("wait"))
		cmd.Line(t)
		h, err := Open(Process{PID: int32(cmd.Process.Pid)})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		if is, err := Look(h.PID); err != nil || is.Process != h.Process {
			t.Errorf("the handle is of %+v, and the process is %+v, %v", h.Process, is, err)
		}
		if numbered {
			h = &Handle{Process: h.Process}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if err := h.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) || !h.Alive() {
			t.Errorf("it has ended: %v", err)
		}
		if h, err = Open(h.Process); err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		if numbered {
			h = &Handle{Process: h.Process}
		}
		ended := make(chan error)
		go func() { ended <- h.Wait(t.Context()) }()
		if err := h.Signal(syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil || h.Alive() {
			t.Errorf("a zombie has not ended: %v", err)
		}
		cmd.End()
		if err := h.Signal(syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("signal one that was waited for: %v", err)
		}
		for range 2 {
			if err := h.Close(); err != nil || h.Alive() {
				t.Errorf("after Close: it lives, or a second Close fails: %v", err)
			}
		}
	}
}

// Open does not return a handle of another process with the same pid.
func TestOpenAnother(t *testing.T) {
	us, err := Look(int32(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []Process{{us.PID, us.Start + 1}, {PID: math.MaxInt32}, {PID: -1}, {}} {
		if h, err := Open(p); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("%+v: got %+v, %v", p, h, err)
		}
	}
	var none *Handle
	if none.Alive() || none.Wait(t.Context()) != nil || none.Signal(0) == nil || none.Close() != nil || none.File() != nil {
		t.Error("the handle of no process is one")
	}
}

// A signal goes to the processes that match, and to no others.
func TestSignalAll(t *testing.T) {
	meant, another := rig.Start(t, rig.As("wait")), rig.Start(t, rig.As("wait"))
	meant.Line(t)
	another.Line(t)
	is := func(p Info) bool { return int(p.PID) == meant.Process.Pid }
	if n := SignalAll(syscall.SIGKILL, is); n != 1 {
		t.Errorf("%d have got it", n)
	}
	eventually(t, "it ends", func() bool { return SignalAll(0, is) == 0 })
	if !(Process{int32(another.Process.Pid), startOf(t, another.Process.Pid)}).Alive() {
		t.Error("another has ended as well")
	}
}

func startOf(t *testing.T, pid int) uint64 {
	t.Helper()
	p, err := Read(int32(pid))
	if err != nil {
		t.Fatal(err)
	}
	return p.Start
}
