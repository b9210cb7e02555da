package relay

import "github.com/thoughtgate/thoughtgated/internal/wire"

// events calls yield with events that lead to s, until yield returns false.
func (s *state) events(yield func(event) bool) {
	for _, side := range []wire.Side{fromAgent, fromServer} {
		q := &s.out[side]
		if !yield(&delivered{side, q.start}) || !yield(&consumed{side, s.taken[side]}) ||
			s.seqs[side] > 0 && !yield(&numbered{s.seqs[side]}) || len(s.framed[side]) > 0 && !yield(&framed{side, s.framed[side]}) {
			return
		}
		for _, i := range q.items {
			var e event = &queued{side, i.line, i.seq, i.reply}
			if i.line == nil {
				e = &passed{side, i.offset, i.n}
			}
			if !yield(e) {
				return
			}
		}
		if !s.openEvents(side, yield) {
			return
		}
	}
	s.otherEvents(yield)
}

// openEvents is events for the open requests of a side. Cancelled ones come in the order of
// their cancellation.
func (s *state) openEvents(side wire.Side, yield func(event) bool) bool {
	for _, r := range s.open[side] {
		if !r.cancelled && !yield(&opened{*r}) {
			return false
		}
	}
	for _, key := range s.cancelled[side] {
		if r := s.open[side][key]; r != nil && r.cancelled && !yield(&opened{*r}) {
			return false
		}
	}
	return true
}

func (s *state) otherEvents(yield func(event) bool) {
	if !yield(&began{s.initialized, s.modern}) {
		return
	}
	for _, w := range s.waiting {
		if !yield(&held{*w}) {
			return
		}
	}
	for seq, outcome := range s.outcomes {
		if !yield(&ended{seq, outcome}) {
			return
		}
	}
	for _, e := range append(s.agreed.events(), s.tasks.events()...) {
		if !yield(e) {
			return
		}
	}
}
