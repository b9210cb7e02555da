package relay

// What a server says has to be in the daemon's memory before the agent can act on
// it, or a place that one server planted would be the agent's own when it comes back
// through another. Of a very long line only the head and the tail are looked at: no
// model reads all of it, and to look at it must not cost as much as to carry it. It
// is looked at in pieces that share a little, so that no name is lost where one ends.
const (
	maxHeardWhole = 64 << 10 // how long a line may be that is looked at in one
	heardPiece    = 31 << 10
	heardTwice    = 512 // of each piece, with the one behind it
	maxHeard      = 512 << 10
	heardTail     = maxHeard / 4
)

// pass writes a message on that is not judged, after it was looked at and noted
// where that is wanted.
func (t *turn) pass(line []byte, method string, record, hear bool) {
	if hear {
		t.note(line, method, record)
	}
	t.forward(line)
}

// note looks at a line of method, and puts it on record where that is wanted.
func (t *turn) note(line []byte, method string, record bool) {
	t.unlocked(func() {
		t.hear(line, method)
		if record {
			t.gate.Message(t.ctx, t.side, method, line)
		}
	})
}

func (t *turn) hear(line []byte, method string) {
	if len(line) <= maxHeardWhole {
		t.gate.Hear(t.side, method, line, 0)
		return
	}
	head, end, missing := line, []byte(nil), 0
	if len(line) > maxHeard {
		head, end, missing = line[:maxHeard-heardTail], line[len(line)-heardTail:], len(line)-maxHeard
	}
	for i, part := range [][]byte{head, end} {
		for at := 0; at+heardTwice < len(part); at += heardPiece - heardTwice {
			said := uint64(0)
			if at+heardPiece >= len(part) && (i == 1 || end == nil) { // the last one
				said = uint64(missing)
			}
			t.gate.Hear(t.side, method, part[at:min(at+heardPiece, len(part))], said)
		}
	}
}
