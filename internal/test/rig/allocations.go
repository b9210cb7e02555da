package rig

import (
	"math"
	"runtime"
	"runtime/debug"
)

// Allocations returns the average number of allocations of a call of f, over runs calls. Whatever else
// the process does can only add to that: so it is the least of three averages, and meanwhile the
// garbage collector empties no pool. testing.AllocsPerRun rounds down, so it returns 29 for 29.9995; a
// comparison with another measurement needs the fraction, and under the race detector still some
// tolerance, since pools drop items at random there.
func Allocations(runs int, f func()) float64 {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	f()
	least := math.Inf(1)
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range runs {
			f()
		}
		runtime.ReadMemStats(&after)
		least = min(least, float64(after.Mallocs-before.Mallocs)/float64(runs))
	}
	return least
}
