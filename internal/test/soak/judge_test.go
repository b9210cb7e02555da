package soak

import (
	"math/rand/v2"
	"os"
	"runtime/debug"
	"testing"
	"time"
)

// hour makes samples of an hour, one every 15 seconds, of lives that are equally
// long. value is given the time since the run and since the life began.
func hour(lives int, value func(at, age time.Duration) float64) []sample {
	const n = 240
	var all []sample
	var begun time.Duration
	for i := range n {
		at, life := time.Duration(i)*15*time.Second, i*lives/n
		if i == 0 || life != all[i-1].life {
			begun = at
		}
		all = append(all, sample{at, life, value(at, at-begun)})
	}
	return all
}

func TestJudge(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	noise := func(most float64) float64 { return (r.Float64() - .5) * 2 * most }
	warm := func(age time.Duration) float64 { return 20 * min(1, age.Minutes()/2) }
	memory := tolerance{.1, 4}
	tests := map[string]struct {
		samples []sample
		room    tolerance
		drifts  bool
		slope   float64 // about, per hour
	}{
		"level":                  {hour(1, func(_, _ time.Duration) float64 { return 30 }), memory, false, 0},
		"noise":                  {hour(1, func(_, _ time.Duration) float64 { return 30 + noise(10) }), memory, false, 0},
		"a warm-up in each life": {hour(4, func(_, age time.Duration) float64 { return 10 + warm(age) + noise(1) }), memory, false, 0},
		"a leak in one life":     {hour(1, func(at, _ time.Duration) float64 { return 30 + 12*at.Hours() + noise(2) }), memory, true, 12},
		"a leak in each life":    {hour(4, func(_, age time.Duration) float64 { return 30 + 60*age.Hours() + noise(1) }), memory, true, 60},
		"what each life leaves to the next": {hour(4, func(at, age time.Duration) float64 {
			return 30 + 10*float64(int(at.Minutes())/15) + noise(1)
		}), memory, true, 40},
		"a rise within the tolerance": {hour(1, func(at, _ time.Duration) float64 { return 30 + 3*at.Hours() }), memory, false, 3},
		"a fall":                      {hour(1, func(at, _ time.Duration) float64 { return 60 - 30*at.Hours() }), memory, false, -30},
		"wild values at the end": {hour(1, func(at, _ time.Duration) float64 {
			if at > 56*time.Minute {
				return 900
			}
			return 30
		}), memory, false, 0},
		"a saw":                      {hour(1, func(at, _ time.Duration) float64 { return 20 + float64(int(at.Seconds())%120)/6 }), memory, false, 0},
		"one descriptor in a minute": {hour(1, func(at, _ time.Duration) float64 { return 40 + float64(int(at.Minutes())) + noise(3) }), tolerance{.1, 8}, true, 60},
		"one step, as when a pool grows once": {hour(1, func(at, _ time.Duration) float64 {
			if at > 45*time.Minute {
				return 80
			}
			return 30
		}), memory, false, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := judge(test.samples, test.room)
			if !got.judged || got.drifts != test.drifts {
				t.Errorf("drifts %v (judged %v, %s), want %v: first %.1f, last %.1f, slope %.1f", got.drifts, got.judged, got.why, test.drifts, got.first, got.last, got.slope)
			}
			if room := 5 + test.slope/2; test.slope > 5 && (got.slope < test.slope-room || got.slope > test.slope+room) {
				t.Errorf("slope %.1f, want about %.0f", got.slope, test.slope)
			}
		})
	}
	if got := judge(hour(1, func(_, _ time.Duration) float64 { return 1 })[:10], memory); got.judged {
		t.Error("ten samples are judged")
	}
}

// What leaks in this very process is found by what the soak looks at: for each thing
// that leaks, the measure that must tell of it, and one that must not.
func TestPlantedLeakIsFound(t *testing.T) {
	if _, err := os.Stat("/proc/self/smaps_rollup"); err != nil {
		t.Skip("no /proc here, so nothing can be looked at")
	}
	for kind, want := range map[string]struct{ tells, silent string }{
		plantDescriptors: {"descriptors", "threads"},
		plantMemory:      {"resident", "descriptors"},
	} {
		t.Run(kind, func(t *testing.T) {
			debug.FreeOSMemory() // what was used before is not to be given back meanwhile
			var leak plant
			defer leak.uproot()
			b := newBook()
			for i := range 80 {
				for range 20 {
					if err := leak.grow(kind); err != nil {
						t.Fatal(err)
					}
				}
				at := time.Duration(i) * 15 * time.Second
				if err := b.look(at, "load", 0, os.Getpid()); err != nil {
					t.Fatal(err)
				}
			}
			for _, row := range b.rows() {
				switch row.name {
				case want.tells:
					if !row.drifts {
						t.Errorf("%s %s does not drift: %+v", row.who, row.name, row.verdict)
					}
				case want.silent:
					if row.drifts {
						t.Errorf("%s %s drifts: %+v", row.who, row.name, row.verdict)
					}
				}
			}
		})
	}
}
