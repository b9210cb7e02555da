package relay

import "slices"

// queue is the pending output of one side, in order. Offsets count everything that was ever
// added.
type queue struct {
	items      []item // oldest first
	start, end uint64 // offsets of items
	replies    uint64 // bytes of items that are replies
}

// item is one line with its end: the line itself, or its place in the input of the other side.
type item struct {
	line   []byte // nil: it is in the input
	offset uint64
	n      uint64
	seq    uint64 // it was judged under; 0 if it was not judged
	reply  bool   // a reply of the session to something the side wrote
}

func (q *queue) add(i item) error {
	if i.n == 0 {
		return corruptError("an empty line is pending")
	}
	q.items = append(q.items, i)
	q.end += i.n
	if i.reply {
		q.replies += i.n
	}
	return nil
}

// size returns the number of pending bytes.
func (q *queue) size() uint64 { return q.end - q.start }

// drop removes what was delivered, which is everything up to offset.
func (q *queue) drop(offset uint64) {
	n := 0
	for ; n < len(q.items) && q.start+q.items[n].n <= offset; n++ {
		q.start += q.items[n].n
		if q.items[n].reply {
			q.replies -= q.items[n].n
		}
	}
	switch left := len(q.items) - n; {
	case left == 0 && cap(q.items) > 4*maxAtOnce:
		q.items = nil
	case left <= maxAtOnce: // few to move, and the memory serves again
		q.items = slices.Delete(q.items, 0, n)
	default:
		clear(q.items[:n])
		q.items = q.items[n:]
	}
}

// refers reports whether an item refers to the input.
func (q *queue) refers() bool {
	for i := range q.items {
		if q.items[i].line == nil {
			return true
		}
	}
	return false
}

// terminated returns a copy of line with its line end.
func terminated(line []byte) []byte { return append(withRoom(line), '\n') }
