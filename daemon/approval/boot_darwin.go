package approval

import "time"

// boot can't tell here: the clock that counts sleep is not reached without cgo.
// A question then stays open while the machine sleeps, and over a restart of the
// daemon the clock on the wall decides.
func boot() (string, time.Duration) { return "", 0 }
