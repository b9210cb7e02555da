package facts

import "time"

// Patiently returns f, which counts for a minute what a call would destroy: a busy machine must not
// make a test fail.
func Patiently(f *Finder) *Finder {
	f.patience = time.Minute
	return f
}
