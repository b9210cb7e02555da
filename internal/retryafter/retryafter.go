// Package retryafter parses Retry-After, the header by which an HTTP server says when it wants to be
// asked again.
package retryafter

import (
	"net/http"
	"strconv"
	"time"
)

// Parse returns how long after now a server wants to be asked again, for the value of its header: a
// number of seconds or a date. It is never negative, and may be years: callers limit it. ok is false
// if value says nothing of the kind.
func Parse(value string, now time.Time) (wait time.Duration, ok bool) {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	return max(at.Sub(now), 0), true
}
