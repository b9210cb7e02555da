package proc

import (
	"os"
	"os/exec"
	"slices"
	"testing"
)

func TestBelow(t *testing.T) {
	var all []Info
	for pid, parent := range map[int32]int32{1: 0, 2: 1, 5: 2, 6: 5, 7: 1, 8: 9, 9: 8, 10: 2, 11: 10, 12: 7} {
		all = append(all, Info{Process: Process{PID: pid}, PPID: parent})
	}
	var got []int32
	for _, p := range Below(all, 10, map[int32]bool{2: true}, func(p Info) bool { return p.PID == 7 }) {
		got = append(got, p.PID)
	}
	slices.Sort(got)
	if !slices.Equal(got, []int32{5, 6, 7, 12}) {
		t.Errorf("below 2 and with 7, but not 10: %v", got)
	}
}

// A new child is seen, and its start is between that of this process and now.
func TestAll(t *testing.T) {
	cmd := exec.Command("sh", "-c", "read line")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		in.Close()
		_ = cmd.Wait()
	}()
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	us, err := Look(int32(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range Below(all, 0, map[int32]bool{us.PID: true}, nil) {
		if p.PID == int32(cmd.Process.Pid) {
			if p.Start < us.Start || p.Start > Now() {
				t.Errorf("it began at %d, we at %d, and now is %d", p.Start, us.Start, Now())
			}
			return
		}
	}
	t.Error("it is not among them")
}

func TestKin(t *testing.T) {
	const self = 50
	leader := Info{Process: Process{100, 1000}, PPID: self, Group: 100, Session: 10}
	never := func(Info) bool { return false }
	for _, test := range []struct {
		name    string
		table   []Info
		known   map[int32]uint64 // besides the leader
		adopted func(Info) bool
		want    []int32
	}{
		{"children and theirs, whatever the order", []Info{
			{Process: Process{103, 1003}, PPID: 102, Group: 103, Session: 103},
			leader,
			{Process: Process{102, 1002}, PPID: 101, Group: 100, Session: 10},
			{Process: Process{101, 1001}, PPID: 100, Group: 100, Session: 10},
			{Process: Process{200, 1001}, PPID: self, Group: 200, Session: 10},
		}, nil, never, []int32{101, 102, 103}},
		{"members of the group that lost their parent", []Info{
			{Process: Process{101, 1001}, PPID: 1, Group: 100, Session: 10},
			{Process: Process{102, 1001}, PPID: 1, Group: 77, Session: 10},
		}, nil, never, []int32{101}},
		{"a group of the same number from before", []Info{
			{Process: Process{60, 999}, PPID: 1, Group: 100, Session: 10},
		}, nil, never, nil},
		{"the leader's number now belongs to somebody else", []Info{
			{Process: Process{100, 5000}, PPID: 1, Group: 100, Session: 100},
			{Process: Process{101, 5001}, PPID: 100, Group: 100, Session: 100},
		}, nil, never, nil},
		{"the session of one that was known and has gone", []Info{
			{Process: Process{301, 1100}, PPID: 1, Group: 301, Session: 300},
		}, map[int32]uint64{300: 1050}, never, []int32{301}},
		{"that session's number taken by another", []Info{
			{Process: Process{300, 7000}, PPID: 1, Group: 300, Session: 300},
			{Process: Process{301, 7001}, PPID: 1, Group: 301, Session: 300},
		}, map[int32]uint64{300: 1050}, never, nil},
		{"one known and still there, and its child", []Info{
			{Process: Process{300, 1050}, PPID: 1, Group: 300, Session: 300},
			{Process: Process{301, 1060}, PPID: 300, Group: 301, Session: 301},
		}, map[int32]uint64{300: 1050}, never, []int32{300, 301}},
		{"adopted, and what it started", []Info{
			leader,
			{Process: Process{400, 900}, PPID: self, Group: 400, Session: 400},
			{Process: Process{401, 901}, PPID: 400, Group: 400, Session: 400},
			{Process: Process{500, 901}, PPID: self, Group: 500, Session: 500},
		}, nil, func(p Info) bool { return p.PID == 400 }, []int32{400, 401}},
		{"never we ourselves, init or the dead", []Info{
			{Process: Process{1, 1}, PPID: 0},
			{Process: Process{self, 2000}, PPID: 1, Group: 100, Session: 10},
			{Process: Process{101, 1001}, PPID: 100, Group: 100, Zombie: true},
			leader,
		}, nil, func(p Info) bool { return p.PID <= self }, nil},
	} {
		known := map[int32]uint64{leader.PID: leader.Start}
		for pid, start := range test.known {
			known[pid] = start
		}
		var got []int32
		for _, p := range Kin(test.table, self, leader.Process, known, test.adopted) {
			got = append(got, p.PID)
		}
		slices.Sort(got)
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}
