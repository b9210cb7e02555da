package supervise

import (
	"errors"
	"math/rand/v2"
	"time"
)

// Policy is how often and how soon a program that ended is started again.
type Policy struct {
	// Restarts is the budget. Zero means that the program has one life.
	Restarts int
	// First is the wait before the first restart; each further one is twice as
	// long, up to Most. Each is shortened by up to a half at random, so that
	// what fell together does not rise together.
	First time.Duration // 250 ms when zero
	Most  time.Duration // 30 s when zero
	// Stable is how long a life must last to give the whole budget back.
	Stable time.Duration // one minute when zero
}

func (p Policy) withDefaults() Policy {
	if p.First <= 0 {
		p.First = 250 * time.Millisecond
	}
	if p.Most <= 0 {
		p.Most = 30 * time.Second
	}
	if p.Stable <= 0 {
		p.Stable = time.Minute
	}
	return p
}

// delay is the wait before restart n, counted from 1. random is in [0, 1).
func (p Policy) delay(n int, random float64) time.Duration {
	d := p.First
	for ; n > 1 && d < p.Most; n-- {
		d *= 2
	}
	d = min(d, p.Most)
	return d - time.Duration(random*float64(d)/2)
}

// budget counts the restarts since the program was last well.
type budget struct {
	policy Policy
	used   int
}

// spend takes one restart and returns the wait before it, false when none is
// left.
func (b *budget) spend() (time.Duration, bool) {
	if b.used >= b.policy.Restarts {
		return 0, false
	}
	b.used++
	return b.policy.delay(b.used, rand.Float64()), true
}

func (b *budget) left() int { return b.policy.Restarts - b.used }

// permanent marks an error that another start would not mend.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// Permanent wraps an error of Spec or Handshake that another start would only
// repeat, as a program that speaks another version of the protocol: the process
// fails at once.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanent{err}
}

func isPermanent(err error) bool {
	var p permanent
	return errors.As(err, &p)
}
