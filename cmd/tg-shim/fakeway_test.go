package main

import (
	"strings"
	"sync"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// fakeWay is a shared server at a daemon that a test plays: what is written into
// it goes to the shim, what the shim writes comes out of lines.
type fakeWay struct {
	gate   *fakeGate
	shim   *remote // whose end the lines come to
	lines  chan string
	opened chan *pb.Open

	mu      sync.Mutex // guards what follows; taken before the gate's
	kept    bool
	wrote   uint64
	reads   []string
	partial string // of a line that is being written
	away    bool   // no shim has opened it on the stream that there is
}

func (w *fakeWay) welcome(m *pb.Welcome) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	m.Shared, m.Kept, m.Wrote = true, w.kept, w.wrote
	w.away = true
}

func (w *fakeWay) heed(up *pb.Up) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch m := up.GetMsg().(type) {
	case *pb.Up_Open:
		w.opened <- m.Open
		w.kept, w.away = true, false
		for at := m.Open.GetTook(); at < uint64(len(w.reads)); at++ {
			w.send(at)
		}
	case *pb.Up_Write:
		if w.wrote++; m.Write.GetSeq() != w.wrote {
			w.lines <- "a line that comes twice, or too soon"
		}
		w.lines <- string(m.Write.GetLine())
		w.gate.say(&pb.Down{Msg: &pb.Down_Wrote{Wrote: &pb.Wrote{Seq: w.wrote}}})
	}
}

func (w *fakeWay) send(at uint64) {
	w.gate.say(&pb.Down{Msg: &pb.Down_Read{Read: &pb.Read{Seq: at + 1, Line: []byte(w.reads[at])}}})
}

// Write has the server write. As a pipe does, it returns when that has been read.
func (w *fakeWay) Write(b []byte) (int, error) {
	n := w.write(b)
	if n > 0 {
		waitWhile(&w.shim.changed, patience, func() bool { return !w.shim.over && (w.shim.came < n || len(w.shim.lines) > 0) })
	}
	return len(b), nil
}

// write returns how many lines there are, 0 when there is no new one or they have
// nowhere to go.
func (w *fakeWay) write(b []byte) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.partial += string(b)
	before := len(w.reads)
	for {
		line, rest, whole := strings.Cut(w.partial, "\n")
		if !whole {
			break
		}
		w.partial = rest
		w.reads = append(w.reads, line)
		if !w.away {
			w.send(uint64(len(w.reads) - 1))
		}
	}
	if w.away || len(w.reads) == before {
		return 0
	}
	return uint64(len(w.reads))
}

// restart makes the next daemon another one.
func (w *fakeWay) restart() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept, w.wrote, w.reads = false, 0, nil
}

func (w *fakeWay) Close() error { return nil }
