package soak

import "time"

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
			case w.tokens <- struct{}{}:
			case <-w.stop:
				return
			}
			if n == w.plan.messages {
				return
			}
		}
	}
}

// token waits until one more message may be sent; false says that the run is over.
func (w *world) token() bool {
	_, ok := <-w.tokens
	return ok && !w.stopped()
}

// drip offers a token now and then to whoever comes first.
func (w *world) drip(to chan<- struct{}, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-ticker.C:
		}
		select {
		case <-w.stop:
			return
		case to <- struct{}{}:
		}
	}
}
