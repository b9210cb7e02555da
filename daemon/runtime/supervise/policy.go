package supervise

import (
	"errors"
	"math/rand/v2"
	"time"
)

// Policy says how often and how soon a program that ended is restarted.
type Policy struct {
	// Restarts is the budget. If it is zero, the program has a single life.
	Restarts int
	// First is the delay before the first restart. Each further delay is twice as long, up to Most.
	// Each delay is shortened at random by up to a half, so that programs that ended together do
	// not restart together.
	First time.Duration // default: 250 ms
	Most  time.Duration // default: 30 s
	// Stable is how long a life must last to restore the whole budget.
	Stable time.Duration // default: 1 minute
}

func (p Policy) withDefaults() Policy {
	Default(&p.First, 250*time.Millisecond)
	Default(&p.Most, 30*time.Second)
	Default(&p.Stable, time.Minute)
	return p
}

// delay returns the delay before restart n, counted from 1. random is in [0, 1).
func (p Policy) delay(n int, random float64) time.Duration {
	d := p.First
	for ; n > 1 && d < p.Most; n-- {
		d *= 2
	}
	d = min(d, p.Most)
	return d - time.Duration(random*float64(d)/2)
}

// budget counts the restarts since the program was last stable.
type budget struct {
	policy Policy
	used   int
}

// spend takes one restart from the budget and returns the delay before it, or false if none is
// left.
func (b *budget) spend() (time.Duration, bool) {
	if b.used >= b.policy.Restarts {
		return 0, false
	}
	b.used++
	return b.policy.delay(b.used, rand.Float64()), true
}

func (b *budget) left() int { return b.policy.Restarts - b.used }

// permanent marks an error that a restart would not fix.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// Permanent wraps an error of Spec or Handshake that a restart would only repeat, such as an
// unsupported protocol version. The process then fails at once.
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
