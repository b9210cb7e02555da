package rig

import "runtime"

// Allocations returns how many allocations a call of f takes, over runs calls after
// a first one. testing.AllocsPerRun rounds down, which makes 30 of 29.9995: what is
// compared with another measurement must keep its fraction, and still wants room for
// what pools give away at random under the race detector.
func Allocations(runs int, f func()) float64 {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	f()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		f()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / float64(runs)
}
