package soak

import "time"

// token lets one message go, and says of which kind.
type token int

const (
	anything token = iota // what agents ask for all the time
	hold                  // a call that is held for a person
	large                 // a call with large arguments or a large result
)

// kind is that of the nth message. What is seldom is so by the number of messages: a machine that
// is slow with them must not have more of it in a minute, in which the daemon lets only so many
// questions be asked.
func (p plan) kind(n int64) token {
	switch {
	case n%p.holds == 0:
		return hold
	case n%p.larges == p.larges/2:
		return large
	}
	return anything
}

// pace lets so many messages go in a second.
func (w *world) pace() {
	var leak plant
	defer leak.uproot()
	defer close(w.tokens)
	const tick = 10 * time.Millisecond
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for owed := 0.0; !w.stopped(); {
		select {
		case <-w.stop:
			return
		case <-ticker.C:
		}
		for owed = min(owed+float64(w.plan.rate)*tick.Seconds(), 64); owed >= 1; owed-- {
			n := w.sent.Add(1)
			if n%100 == 0 {
				if err := leak.grow(w.plan.plant); err != nil {
					w.Error(err)
					return
				}
			}
			select {
			case w.tokens <- w.plan.kind(n):
			case <-w.stop:
				return
			}
			if n == w.plan.messages {
				return
			}
		}
	}
}

// next waits until one more message may be sent; false says that the run is over.
func (w *world) next() (token, bool) {
	t, ok := <-w.tokens
	return t, ok && !w.stopped()
}
