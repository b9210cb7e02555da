package main

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// kept are files that share a descriptor. They stay open: the second to be
// closed, or collected, would close what another test has opened by then.
var kept []*os.File

// One socket may be both standard input and output: making the one wait in
// another way would break the other.
func TestPollableLeavesASharedSocketAlone(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[1])
	second, err := unix.Dup(pair[0])
	if err != nil {
		t.Fatal(err)
	}
	in, out := os.NewFile(uintptr(pair[0]), "in"), os.NewFile(uintptr(second), "out")
	defer out.Close()
	kept = append(kept, in)
	for _, shared := range []bool{true, false} {
		var others []*os.File
		if shared {
			others = []*os.File{out}
		}
		file, restore := pollable(in, others...)
		kept = append(kept, file)
		flags, err := unix.FcntlInt(uintptr(second), unix.F_GETFL, 0)
		if err != nil {
			t.Fatal(err)
		}
		if waits := flags&unix.O_NONBLOCK == 0; waits != shared {
			t.Errorf("shared %v: the other end waits: %v", shared, waits)
		}
		restore()
	}
}
