//go:build !race

package wire

// raceEnabled reports whether the race detector is on, which makes pools drop items.
const raceEnabled = false
