//go:build race

package wire

// raceEnabled reports that the race detector is on, under which pools forget.
const raceEnabled = true
