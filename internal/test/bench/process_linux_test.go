package main

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

// noProcess is greater than any pid of Linux.
const noProcess = 1<<22 + 1

// cpu agrees with getrusage, including threads that have ended.
func TestCPU(t *testing.T) {
	own := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before, clock := own(), cpu(os.Getpid())
	n := 0
	for own()-before < 100*time.Millisecond {
		n++
	}
	took, told := own()-before, cpu(os.Getpid())-clock
	if told < took/2 || told > 2*took+time.Second {
		t.Errorf("the clock says %v, getrusage %v", told, took)
	}
	s := testSessions(t)["floor"]
	if _, err := s.pipeline(governed.method, governed.tool, 10, 1); err != nil {
		t.Fatal(err)
	}
	if cpu(s.pid()) <= 0 {
		t.Error("a process that has worked has taken no time")
	}
	if got := rig.Children(s.pid()); len(got) != 1 || cpu(got[0]) <= 0 {
		t.Errorf("the children of the copier are %v", got)
	}
	if got := cpu(noProcess); got != 0 {
		t.Errorf("a process that is none has taken %v", got)
	}
}

func TestMemory(t *testing.T) {
	s := testSessions(t)["direct"]
	if _, err := s.pipeline(governed.method, "size-8000000", 2, 1); err != nil {
		t.Fatal(err)
	}
	m := memoryOf(s.pid())
	if m.resident < 8 || m.share <= 0 || m.share > m.resident || m.peak < m.resident {
		t.Errorf("after an answer of 8 MB the server holds %+v", m)
	}
	if m := memoryOf(noProcess); m != (memory{}) {
		t.Errorf("a process that is none holds %+v", m)
	}
}
