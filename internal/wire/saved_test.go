package wire

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// halting is a window whose source is read in pieces, and fails after each.
type halting struct {
	window
	pieces []string
}

var errHalt = errors.New("halt")

func (h *halting) Fill() error {
	if len(h.pieces) == 0 {
		return io.EOF
	}
	if h.pieces[0] == "" {
		h.pieces = h.pieces[1:]
		return errHalt
	}
	h.buf = append(h.buf[:h.end:h.end], h.pieces[0]...)
	h.end = len(h.buf)
	h.pieces[0] = ""
	return nil
}

// A reader that is restored in the middle of a text reads what the first one would have
// read.
func TestReaderGoesOnFromItsState(t *testing.T) {
	text := `{"jsonrpc":"2.0","id":"torn","method":"a` + "\n" + `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n" + `"}` + "\n" +
		`{"jsonrpc":"2.0","id":2,"method":"ping"}` + "\n" +
		`{"jsonrpc":"2.0","id":3,"method":"x","params":{"text":"` + strings.Repeat("x", 100) + `"}}` + "\n" +
		`{"jsonrpc":"2.0","text":"` + strings.Repeat("{", 100) + `","result":{},"id":"four"}` + "\n" +
		`{"jsonrpc":"2.0","id":5,"method":"` + strings.Repeat("y", 100) + "\n" + `"}` + "\n" + `{"jsonrpc":"2.0","id":6,"method":"ping"}` + "\n"
	want := readInParts(t, NewReader(strings.NewReader(text), 64), nil)
	for _, size := range []int{1, 2, 3, 7, 50, 1000} {
		h := &halting{}
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			h.pieces = append(h.pieces, rest[:n])
			rest = rest[n:]
		}
		if got := readInParts(t, nil, h); got != want {
			t.Errorf("in pieces of %d:\n%s\nwant\n%s", size, got, want)
		}
	}
}

// readInParts reads with r, or through h with a new restored reader after each line and
// each failure.
func readInParts(t *testing.T, r *Reader, h *halting) string {
	t.Helper()
	var all strings.Builder
	var l Line
	if h != nil {
		r = NewReaderOf(h, 64)
	}
	for {
		err := r.Next(&l)
		if err == io.EOF {
			return all.String()
		}
		if err == nil {
			reason := ""
			if l.Refusal != nil {
				reason = l.Refusal.Reason
			}
			fmt.Fprintf(&all, "%.30s %v %s %v %s\n", l.Data, l.TooLong, l.ID, l.Answers, reason)
		} else if !errors.Is(err, errHalt) {
			t.Fatal(err)
		}
		if h == nil {
			continue
		}
		next := NewReaderOf(h, 64)
		if err := next.Restore(r.State()); err != nil {
			t.Fatal(err)
		}
		r = next
	}
}

// Restore rejects any state that a reader can't continue from.
func FuzzReaderState(f *testing.F) {
	r := NewReader(strings.NewReader(`{"id":"`+strings.Repeat("x", 100)+"\n"), 64)
	var l Line
	_ = r.Next(&l)
	f.Add(r.State(), "x\"}\n{}\n")
	f.Fuzz(func(t *testing.T, state []byte, text string) {
		r := NewReader(strings.NewReader(text), 64)
		if r.Restore(state) != nil {
			return
		}
		for r.Next(&l) == nil {
			if len(l.Data) > 64 && !l.TooLong {
				t.Errorf("a line of %d bytes", len(l.Data))
			}
		}
	})
}
