package supervise

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
)

func TestTail(t *testing.T) {
	tail := newTail()
	if got := tail.last(0); got != "" {
		t.Errorf("of nothing: %q", got)
	}
	for i := range 5000 {
		fmt.Fprintf(tail, "line %d\n", i+1)
	}
	lines := tail.Lines()
	if len(lines) != tailLines || lines[0].Number != 4001 || lines[0].Text != "line 4001" || lines[999].Text != "line 5000" {
		t.Errorf("%d lines from %+v", len(lines), lines[0])
	}
	for range 20 {
		fmt.Fprintln(tail, strings.Repeat("x", 10<<10))
	}
	total := 0
	for _, line := range tail.Lines() {
		total += len(line.Text)
	}
	if total > tailBytes || total < tailBytes-10<<10 {
		t.Errorf("%d bytes are held, want up to %d", total, tailBytes)
	}
	fmt.Fprintln(tail, strings.Repeat("y", 2*tailBytes)) // a line longer than the limit
	if lines := tail.Lines(); len(lines) != 1 || len(lines[0].Text) != 2*tailBytes {
		t.Errorf("%d lines are held", len(lines))
	}
	before := tail.mark()
	fmt.Fprintf(tail, "é%s\n", strings.Repeat("z", 300))
	fmt.Fprintf(tail, "  \n")
	if got := tail.last(before); len(got) != 203 || !strings.HasSuffix(got, "z...") {
		t.Errorf("last: %q", got)
	}
	if got := tail.last(tail.mark()); got != "" {
		t.Errorf("since the last: %q", got)
	}
}

func TestTailFollow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tail := newTail()
		fmt.Fprintln(tail, "old")
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan string)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for line := range tail.Follow(ctx, 0) {
				got <- fmt.Sprint(line.Number, " ", line.Text)
			}
		}()
		if s := <-got; s != "1 old" {
			t.Errorf("got %q", s)
		}
		synctest.Wait()
		fmt.Fprintln(tail, "new")
		if s := <-got; s != "2 new" {
			t.Errorf("got %q", s)
		}
		// A reader that is too slow misses lines and can detect it.
		for i := range 2500 {
			fmt.Fprintln(tail, i)
		}
		last, gaps := 2, 0
		for last < 2502 {
			var number, text int
			if _, err := fmt.Sscan(<-got, &number, &text); err != nil || number <= last || text != number-3 {
				t.Fatalf("line %d says %d after line %d, %v", number, text, last, err)
			}
			if number > last+1 {
				gaps++
			}
			last = number
		}
		if gaps == 0 {
			t.Error("no line was missed")
		}
		cancel()
		for {
			select {
			case <-got:
				continue
			case <-ended:
			}
			break
		}
	})
}
