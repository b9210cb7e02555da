package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"
)

// newTestLane is a lane into a pipe, which run serves until the test ends.
func newTestLane(t *testing.T) (*lane, *bufio.Scanner) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	l := newLane(w)
	var wait sync.WaitGroup
	wait.Go(l.run)
	t.Cleanup(func() {
		l.close()
		wait.Wait()
		w.Close()
		r.Close()
	})
	return l, bufio.NewScanner(r)
}

// Whoever waits for a lane to be idle goes on when the last place is filled,
// by whatever way its line is written. It once slept to the end of its patience,
// and a shim whose agent had left took two seconds to follow.
func TestLaneIsIdleAtOnce(t *testing.T) {
	for name, line := range map[string][]byte{
		"short": []byte(`{}`), "long": make([]byte, 2*pipeBuf), "given up": nil,
	} {
		t.Run(name, func(t *testing.T) {
			l, read := newTestLane(t)
			p := l.take()
			go func() {
				for l.idlers.Load() == 0 {
					time.Sleep(time.Millisecond)
				}
				l.fill(p, line)
			}()
			begun := time.Now()
			l.idle(patience)
			if waited := time.Since(begun); waited > patience/2 {
				t.Errorf("waited %v", waited)
			}
			if line != nil && (!read.Scan() || read.Text() != string(line)) {
				t.Errorf("read %d bytes, want %d", len(read.Bytes()), len(line))
			}
		})
	}
}

// Places are written in the order in which they were taken, whatever the order
// in which they are filled, and by whom.
func TestLaneKeepsOrder(t *testing.T) {
	l, read := newTestLane(t)
	const n = 500
	var wait sync.WaitGroup
	for i := range n {
		line := []byte(fmt.Sprint(i))
		switch i % 4 {
		case 0:
			p := l.take()
			wait.Go(func() { l.fill(p, line) })
		case 1:
			if err := l.push(line); err != nil {
				t.Fatal(err)
			}
		case 2:
			l.insert(line)
		case 3:
			_ = l.later(0, func() []byte { return line })
		}
	}
	for i := range n {
		if !read.Scan() || read.Text() != fmt.Sprint(i) {
			t.Fatalf("line %d is %q", i, read.Text())
		}
	}
	wait.Wait()
}

// counting counts what is written to it.
type counting struct {
	bytes.Buffer
	writes int
}

func (c *counting) Write(b []byte) (int, error) {
	c.writes++
	return c.Buffer.Write(b)
}

// Small lines that are ready leave in one write, in their order; a large one, and
// one that is made only then, are written for themselves.
func TestLaneWritesTogether(t *testing.T) {
	var w counting
	l := newLane(&w)
	large := bytes.Repeat([]byte("x"), together)
	var want []byte
	for i := range 100 {
		line := fmt.Append(nil, "line ", i)
		switch i {
		case 30:
			line = large
			l.insert(line)
		case 60:
			_ = l.later(0, func() []byte { return line })
		case 80:
			l.fill(l.take(), nil)
			continue
		default:
			l.more.Store(true)
			if err := l.push(line); err != nil {
				t.Fatal(err)
			}
		}
		want = append(append(want, line...), '\n')
	}
	if w.writes > 0 {
		t.Errorf("%d writes while more was on its way", w.writes)
	}
	l.close()
	l.run()
	if !bytes.Equal(w.Bytes(), want) {
		t.Errorf("wrote %d bytes, want %d", w.Len(), len(want))
	}
	if w.writes > 5 {
		t.Errorf("%d writes, want 5", w.writes)
	}
}
