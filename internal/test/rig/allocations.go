package rig

import "runtime"

// Allocations returns the average number of allocations of a call of f, over runs calls after a
// first one. testing.AllocsPerRun rounds down, so it returns 29 for 29.9995; a comparison with
// another measurement needs the fraction, and under the race detector still some tolerance,
// since pools drop items at random there.
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
