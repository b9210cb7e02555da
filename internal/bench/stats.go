package main

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// spread is what a figure was over the turns of a run: its median, and the
// quartiles between which half of the turns lie. That of a ratio is the ratio of medians.
type spread struct {
	Median float64 `json:"median"`
	Low    float64 `json:"q1"`
	High   float64 `json:"q3"`
	Turns  int     `json:"turns"`
}

// over is the spread of what each turn found; nil for no turns.
func over(turns []float64) *spread {
	if len(turns) == 0 {
		return nil
	}
	return &spread{Median: median(turns), Low: quantile(turns, .25), High: quantile(turns, .75), Turns: len(turns)}
}

// once is a figure that is taken once, and has no spread worth the name.
func once(v float64) *spread { return over([]float64{v}) }

// value is the median, zero for nothing.
func (s *spread) value() float64 {
	if s == nil {
		return 0
	}
	return s.Median
}

// median is the middle of all, and the mean of the two middle ones where there are
// two; zero for none.
func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	all = slices.Sorted(slices.Values(all))
	if n := len(all); n%2 == 0 {
		return (all[n/2-1] + all[n/2]) / 2
	}
	return all[len(all)/2]
}

// quantile is the smallest of all that at least the part q of them does not exceed;
// zero for none. It is always one of them.
func quantile[T cmp.Ordered](all []T, q float64) T {
	if len(all) == 0 {
		var none T
		return none
	}
	all = slices.Sorted(slices.Values(all))
	return all[min(len(all)-1, max(0, int(math.Ceil(float64(len(all))*q))-1))]
}

// compared are figures of the same turns, for each way by its place.
type compared map[int][]float64

// note takes the figure of a turn.
func (c compared) note(place int, figure float64) { c[place] = append(c[place], figure) }

// added is what a way costs over direct, turn by turn: what was the matter with the
// machine in a turn was so for both. It is nil when one of the two has fewer turns.
func (c compared) added(place int) []float64 {
	if len(c[place]) != len(c[direct]) {
		return nil
	}
	var all []float64
	for turn, v := range c[place] {
		all = append(all, v-c[direct][turn])
	}
	return all
}

// timesAdded is how many times what the floor adds is added by the gate: the ratio of
// the two medians, with the quartiles of what it was turn by turn. It is nil when the
// floor added nothing.
func (c compared) timesAdded() *spread { return ratioOf(c.added(ours), c.added(floor)) }

// timesFloor is the figure of the gate as a part of the floor's, likewise.
func (c compared) timesFloor() *spread { return ratioOf(c[ours], c[floor]) }

// ratioOf takes the ratio of medians, which anybody can check against a table. The
// median of ratios would pair what has nothing to do with each other: on which
// processor the one was woken in a turn, and the other.
func ratioOf(figures, others []float64) *spread {
	var all []float64
	for turn, other := range others {
		if other > 0 {
			all = append(all, figures[turn]/other)
		}
	}
	r, base := over(all), median(others)
	if r == nil || base <= 0 {
		return nil
	}
	r.Median = median(figures) / base
	return r
}

// row is the spreads of the ways that are always compared, and what the gate adds.
func (c compared) row() row {
	return row{Direct: over(c[direct]), Floor: over(c[floor]), Ours: over(c[ours]), Added: over(c.added(ours))}
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
