package main

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// spread summarizes a figure over the turns of a run: its median and quartiles. For a ratio,
// Median is the ratio of the medians.
type spread struct {
	Median float64 `json:"median"`
	Low    float64 `json:"q1"`
	High   float64 `json:"q3"`
	Turns  int     `json:"turns"`
}

// over returns the spread of the figures of the turns; nil if there are none.
func over(turns []float64) *spread {
	if len(turns) == 0 {
		return nil
	}
	return &spread{Median: median(turns), Low: quantile(turns, .25), High: quantile(turns, .75), Turns: len(turns)}
}

// once returns the spread of a figure that was measured only once.
func once(v float64) *spread { return over([]float64{v}) }

// value returns the median, zero for nil.
func (s *spread) value() float64 {
	if s == nil {
		return 0
	}
	return s.Median
}

// median returns the median of all, or zero if all is empty.
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

// quantile returns the q-quantile of all: the smallest element that at least the fraction q of
// them does not exceed, or zero if all is empty.
func quantile[T cmp.Ordered](all []T, q float64) T {
	if len(all) == 0 {
		var none T
		return none
	}
	all = slices.Sorted(slices.Values(all))
	return all[min(len(all)-1, max(0, int(math.Ceil(float64(len(all))*q))-1))]
}

// compared holds the figures of each way in the same turns, by the place of the way.
type compared map[int][]float64

// note adds the figure of a turn.
func (c compared) note(place int, figure float64) { c[place] = append(c[place], figure) }

// added returns what a way adds to direct, turn by turn, so that a disturbance in a turn
// affects both. It is nil if the numbers of turns differ.
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

// timesAdded returns the ratio of what the gate adds to what the floor adds: of the two
// medians, with the quartiles of the ratios of the turns. It is nil if the floor added nothing.
func (c compared) timesAdded() *spread { return ratioOf(c.added(ours), c.added(floor)) }

// timesFloor returns the ratio of the gate's figure to the floor's, in the same way.
func (c compared) timesFloor() *spread { return ratioOf(c[ours], c[floor]) }

// ratioOf uses the ratio of the medians, which can be checked against a table. The median of
// the ratios would pair unrelated values, such as the processors on which the two were woken in
// a turn.
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

// row returns the row of the ways that are always compared, and what the gate adds.
func (c compared) row() row {
	return row{Direct: over(c[direct]), Floor: over(c[floor]), Ours: over(c[ours]), Added: over(c.added(ours))}
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
