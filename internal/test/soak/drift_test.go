package soak

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// sample is one value of a measure.
type sample struct {
	at    time.Duration // since the run began
	life  int           // which process of those that followed each other it is of
	value float64
}

// tolerance is how much a measure may rise before that is a drift: a part of what it
// was, and at least a fixed amount.
type tolerance struct {
	part  float64
	least float64
}

func (t tolerance) of(before float64) float64 { return max(t.least, t.part*math.Abs(before)) }

// A life is judged from its samples behind the warm-up, if there are that many.
const (
	warmUp    = 2 * time.Minute
	leastLife = 9
)

// verdict is what became of a measure over a run.
type verdict struct {
	judged      bool // there was enough to look at
	first, last float64
	slope       float64 // per hour, by age
	drifts      bool
	why         string
}

// judge looks for a drift, in a way that a few wild values, a warm-up and a process
// that begins anew do not disturb. In words:
//
// The first two minutes of each life are left out, while caches fill and pools grow: at
// least a fifth of the life, and half of it where it is shorter than four minutes. So is
// a life with fewer than nine samples behind that. A life rises by the median of its
// last third less the median of its first third. Its slope is the median of the slopes
// between all pairs of its samples (Theil and Sen). A measure drifts within lives when
// the median of the rises is past the tolerance, and what the median slope comes to over
// a life, too. It drifts from life to life when the median of the last life is past that
// of the first by more than the tolerance and, where there are three or more, the slope
// between all pairs of their medians says so as well.
func judge(samples []sample, room tolerance) verdict {
	var v verdict
	var lives [][]sample
	for _, life := range byLife(samples) {
		if life = warm(life); len(life) >= leastLife {
			lives = append(lives, life)
		}
	}
	if len(lives) == 0 {
		return v
	}
	v.judged = true
	var firsts, lasts, rises, slopes, spans, middles []float64
	for _, life := range lives {
		third := len(life) / 3
		first, last := middle(life[:third]), middle(life[len(life)-third:])
		firsts, lasts, rises = append(firsts, first), append(lasts, last), append(rises, last-first)
		slopes = append(slopes, theilSen(life))
		spans = append(spans, (life[len(life)-1].at - life[0].at).Hours())
		middles = append(middles, middle(life))
	}
	v.first, v.last, v.slope = median(firsts), median(lasts), median(slopes)
	allowed := room.of(v.first)
	if median(rises) > allowed && v.slope*median(spans) > allowed {
		v.drifts, v.why = true, "it rises while a process runs"
		return v
	}
	end := len(middles) - 1
	if allowed := room.of(middles[0]); middles[end]-middles[0] > allowed {
		var points []sample
		for i, life := range lives {
			points = append(points, sample{at: life[0].at, value: middles[i]})
		}
		whole := (points[end].at - points[0].at).Hours()
		if len(points) < 3 || theilSen(points)*whole > allowed {
			v.drifts, v.why = true, "it is higher in each process than in the one before"
			v.first, v.last, v.slope = middles[0], middles[end], theilSen(points)
		}
	}
	return v
}

// warm is a life without its warm-up.
func warm(life []sample) []sample {
	whole := life[len(life)-1].at - life[0].at
	begins := life[0].at + max(whole/5, min(warmUp, whole/2))
	return life[slices.IndexFunc(life, func(s sample) bool { return s.at >= begins }):]
}

// least keeps of each n samples of a life the one with the least value. It is for
// memory: a large message on its way makes much of it garbage for a moment.
func least(samples []sample, n int) []sample {
	var kept []sample
	for _, life := range byLife(samples) {
		for group := range slices.Chunk(life, n) {
			kept = append(kept, slices.MinFunc(group, func(a, b sample) int { return cmp.Compare(a.value, b.value) }))
		}
	}
	return kept
}

// byLife parts samples, which are in order, into those of each life.
func byLife(samples []sample) [][]sample {
	var lives [][]sample
	for i, s := range samples {
		if i == 0 || s.life != samples[i-1].life {
			lives = append(lives, nil)
		}
		lives[len(lives)-1] = append(lives[len(lives)-1], s)
	}
	return lives
}

// theilSen is the median of the slopes between all pairs of samples, per hour. Of
// more than 300 samples it takes the medians of so many stretches.
func theilSen(samples []sample) float64 {
	const most = 300
	if len(samples) > most {
		var fewer []sample
		for i := range most {
			stretch := samples[i*len(samples)/most : (i+1)*len(samples)/most]
			fewer = append(fewer, sample{at: stretch[len(stretch)/2].at, value: middle(stretch)})
		}
		samples = fewer
	}
	var slopes []float64
	for i, a := range samples {
		for _, b := range samples[i+1:] {
			if b.at > a.at {
				slopes = append(slopes, (b.value-a.value)/(b.at-a.at).Hours())
			}
		}
	}
	return median(slopes)
}

func middle(samples []sample) float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = s.value
	}
	return median(values)
}

// median is 0 of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
