package main

import (
	"bytes"
	"io"
	"runtime"
	"sync"
	"testing"
)

// A long line is written without a copy of it, and behind what was ready before.
func TestLaneCopiesNoLongLine(t *testing.T) {
	r, w := io.Pipe()
	l := newLane(w)
	var wait sync.WaitGroup
	wait.Go(l.run)
	lines := [][]byte{[]byte("first"), bytes.Repeat([]byte("x"), 8<<20), []byte("last")}
	want := append(bytes.Join(lines, []byte("\n")), '\n')
	wait.Go(func() {
		var buf [64 << 10]byte
		for rest := want; len(rest) > 0; {
			n, err := r.Read(buf[:min(len(buf), len(rest))])
			if err != nil || !bytes.Equal(buf[:n], rest[:n]) {
				t.Errorf("read something else with %d bytes left: %v", len(rest), err)
				r.Close()
				return
			}
			rest = rest[n:]
		}
	})
	l.insert(lines[0])
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := l.push(lines[1]); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if err := l.push(lines[2]); err != nil {
		t.Fatal(err)
	}
	l.close()
	wait.Wait()
	if spent := after.TotalAlloc - before.TotalAlloc; spent > 4<<20 {
		t.Errorf("%d bytes of the heap were needed for a line of %d", spent, len(lines[1]))
	}
}

// Where a verdict is waited for a long line waits as any other does, and who wrote it
// is read on.
func TestLongLineBehindAVerdict(t *testing.T) {
	var w bytes.Buffer
	l := newLane(&w)
	place := l.take()
	line := bytes.Repeat([]byte("x"), long)
	if err := l.push(line); err != nil {
		t.Fatal(err)
	}
	clear(line) // it is the reader's again
	l.fill(place, []byte("decided"))
	l.close()
	l.run()
	if want := "decided\n" + string(bytes.Repeat([]byte("x"), long)) + "\n"; w.String() != want {
		t.Errorf("wrote %d bytes, want %d", w.Len(), len(want))
	}
}
