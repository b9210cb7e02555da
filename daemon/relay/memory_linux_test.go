package relay

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// pages returns how many bytes of memory the system holds for the session.
func (s *stage) pages(t *testing.T) int64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Fstat(int(s.memory.File().Fd()), &st); err != nil {
		t.Fatal(err)
	}
	return st.Blocks * 512
}

func heapInUse() uint64 {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// After a line of 9 MB has passed, none of it is left in memory, in either direction.
func TestLongLinesLeaveNothing(t *testing.T) {
	const most = 2 << 20
	s := newStage(t, play{})
	s.steps("judged "+aCall, "return "+aResult)
	pages, heap := s.pages(t), heapInUse()
	long := strings.Repeat("x", 9<<20)
	s.steps(`judged {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"text":"`+long+`"}}}`,
		`return {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"`+long+`"}]}}`,
		"agent> "+strings.Replace(aCall, `"id":1`, `"id":5`, 1))
	long = ""
	s.steps("submit "+strings.Replace(aCall, `"id":1`, `"id":5`, 1), "pending")
	s.judge.forget()
	for len(s.judge.observations) > 0 {
		<-s.judge.observations
	}
	if err := s.until("the memory of the session is given back", func() bool { return s.pages(t) <= pages+most }); err != nil {
		t.Errorf("%v: %d bytes, %d before", err, s.pages(t), pages)
	}
	if err := s.until("the heap is given back", func() bool { return heapInUse() <= heap+most }); err != nil {
		t.Errorf("%v: %d bytes, %d before", err, heapInUse(), heap)
	}
}
