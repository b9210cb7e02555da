package relay

// queue is what one side is owed, in order. Offsets count all that it was ever
// owed.
type queue struct {
	items      []item // oldest first
	start, end uint64 // of items
	replies    uint64 // bytes of items that are replies
}

// item is one line and its end: the line itself, or where it stands in the input of
// the other side.
type item struct {
	line   []byte // nil: it stands in the input
	offset uint64
	n      uint64
	seq    uint64 // it was judged under; 0 when it was not
	reply  bool   // it is ours, to what the side has written itself
}

func (q *queue) add(i item) error {
	if i.n == 0 {
		return damaged("a line of no bytes is owed")
	}
	q.items = append(q.items, i)
	q.end += i.n
	if i.reply {
		q.replies += i.n
	}
	return nil
}

// size is how many bytes are owed.
func (q *queue) size() uint64 { return q.end - q.start }

// drop forgets what was delivered, which is all up to offset.
func (q *queue) drop(offset uint64) {
	for len(q.items) > 0 && q.start+q.items[0].n <= offset {
		q.start += q.items[0].n
		if q.items[0].reply {
			q.replies -= q.items[0].n
		}
		q.items[0] = item{}
		q.items = q.items[1:]
	}
}

// refers reports whether an item stands in the input.
func (q *queue) refers() bool {
	for i := range q.items {
		if q.items[i].line == nil {
			return true
		}
	}
	return false
}

// terminated returns a copy of line with its line end.
func terminated(line []byte) []byte { return append(line[:len(line):len(line)], '\n') }
