package child

import (
	"slices"
	"testing"
)

func TestKin(t *testing.T) {
	const self = 50
	leader := proc{pid: 100, ppid: self, pgid: 100, sid: 10, start: 1000}
	never := func(proc) bool { return false }
	for _, test := range []struct {
		name    string
		table   []proc
		known   map[int]uint64 // beside the leader
		adopted func(proc) bool
		want    []int
	}{
		{"children and theirs, whatever the order", []proc{
			{pid: 103, ppid: 102, pgid: 103, sid: 103, start: 1003},
			leader,
			{pid: 102, ppid: 101, pgid: 100, sid: 10, start: 1002},
			{pid: 101, ppid: 100, pgid: 100, sid: 10, start: 1001},
			{pid: 200, ppid: self, pgid: 200, sid: 10, start: 1001},
		}, nil, never, []int{101, 102, 103}},
		{"members of the group that lost their parent", []proc{
			{pid: 101, ppid: 1, pgid: 100, sid: 10, start: 1001},
			{pid: 102, ppid: 1, pgid: 77, sid: 10, start: 1001},
		}, nil, never, []int{101}},
		{"a group of the same number from before", []proc{
			{pid: 60, ppid: 1, pgid: 100, sid: 10, start: 999},
		}, nil, never, nil},
		{"the leader's number now belongs to somebody else", []proc{
			{pid: 100, ppid: 1, pgid: 100, sid: 100, start: 5000},
			{pid: 101, ppid: 100, pgid: 100, sid: 100, start: 5001},
		}, nil, never, nil},
		{"the session of one that was known and has gone", []proc{
			{pid: 301, ppid: 1, pgid: 301, sid: 300, start: 1100},
		}, map[int]uint64{300: 1050}, never, []int{301}},
		{"that session's number taken by another", []proc{
			{pid: 300, ppid: 1, pgid: 300, sid: 300, start: 7000},
			{pid: 301, ppid: 1, pgid: 301, sid: 300, start: 7001},
		}, map[int]uint64{300: 1050}, never, nil},
		{"one known and still there, and its child", []proc{
			{pid: 300, ppid: 1, pgid: 300, sid: 300, start: 1050},
			{pid: 301, ppid: 300, pgid: 301, sid: 301, start: 1060},
		}, map[int]uint64{300: 1050}, never, []int{300, 301}},
		{"adopted, and what it started", []proc{
			leader,
			{pid: 400, ppid: self, pgid: 400, sid: 400, start: 900},
			{pid: 401, ppid: 400, pgid: 400, sid: 400, start: 901},
			{pid: 500, ppid: self, pgid: 500, sid: 500, start: 901},
		}, nil, func(p proc) bool { return p.pid == 400 }, []int{400, 401}},
		{"never we ourselves, init or the dead", []proc{
			{pid: 1, ppid: 0, start: 1},
			{pid: self, ppid: 1, pgid: 100, sid: 10, start: 2000},
			{pid: 101, ppid: 100, pgid: 100, start: 1001, zombie: true},
			leader,
		}, nil, func(p proc) bool { return p.pid <= self }, nil},
	} {
		known := map[int]uint64{leader.pid: leader.start}
		for pid, start := range test.known {
			known[pid] = start
		}
		var got []int
		for _, p := range kin(test.table, self, leader, known, test.adopted) {
			got = append(got, p.pid)
		}
		slices.Sort(got)
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

func TestClan(t *testing.T) {
	var f clan
	f.begin()
	f.began(proc{start: 20})
	if !f.alone(false) {
		t.Error("one child is not alone")
	}
	f.begin() // forked, but not yet known
	if f.alone(false) {
		t.Error("alone while another is being started")
	}
	f.began(proc{start: 10})
	if _, first := f.origin(); first != 10 {
		t.Errorf("first start %d, want 10", first)
	}
	if f.end() {
		t.Error("the first of two to end is said to be the last")
	}
	if f.alone(true) {
		t.Error("one that has ended is alone though another lives")
	}
	if !f.end() || !f.alone(true) {
		t.Error("the last is not said to be it")
	}
}
