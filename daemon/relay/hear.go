package relay

// What a server says must be in the daemon's memory before the agent can act on it. Otherwise
// a place that one server planted would count as the agent's own when it reaches another
// server. Of a very long line only the head and the tail are inspected: no model reads all of
// it, and inspecting it must not cost as much as carrying it. It is inspected in overlapping
// pieces, so that no name is lost at a boundary.
const (
	maxHeardWhole = 64 << 10 // maximum length of a line that is inspected as a whole
	heardPiece    = 31 << 10
	heardTwice    = 512 // bytes that consecutive pieces share
	maxHeard      = 512 << 10
	heardTail     = maxHeard / 4
)

// pass forwards a message without judging it. If hear is set, the message is inspected first,
// and recorded if record is set.
func (t *turn) pass(line []byte, method string, record, hear bool) {
	if hear {
		t.observeAndRecord(line, method, record)
	}
	t.forward(line)
}

// observeAndRecord inspects a line of method, and records it if record is set.
func (t *turn) observeAndRecord(line []byte, method string, record bool) {
	t.unlocked(func() {
		t.hear(line, method)
		if record {
			t.gate.RecordMessage(t.ctx, t.side, method, line)
		}
	})
}

func (t *turn) hear(line []byte, method string) {
	if len(line) <= maxHeardWhole {
		t.gate.ObserveMessage(t.side, method, line, 0)
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
			t.gate.ObserveMessage(t.side, method, part[at:min(at+heardPiece, len(part))], said)
		}
	}
}
