package presence

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"time"
)

// Codes are those of RFC 6238 with what every program for them knows: SHA-1, six
// digits, a new one every 30 seconds.
const (
	period = 30 * time.Second
	digits = 6
	skew   = 1 // steps that a clock may be off, either way

	shortestKey, longestKey = 16, 64 // bytes
)

// stepAt is the number of the code that is due at a time.
func stepAt(t time.Time) int64 { return t.Unix() / int64(period/time.Second) }

// codeAt is the code of a step.
func codeAt(key []byte, step int64) []byte {
	h := hmac.New(sha1.New, key)
	var counter [8]byte
	binary.BigEndian.PutUint64(counter[:], uint64(step))
	h.Write(counter[:])
	sum := h.Sum(nil)
	at := sum[len(sum)-1] & 0xf
	n := binary.BigEndian.Uint32(sum[at:]) & 0x7fffffff
	return fmt.Appendf(nil, "%0*d", digits, n%1_000_000)
}

// stepOf returns the step after last that code belongs to, if it is due now; it
// looks at all of them, so that its time tells nothing.
func stepOf(key, code []byte, now time.Time, last int64) (int64, bool) {
	found := int64(-1)
	for step := stepAt(now) - skew; step <= stepAt(now)+skew; step++ {
		if subtle.ConstantTimeCompare(codeAt(key, step), code) == 1 && step > last {
			found = step
		}
	}
	return found, found >= 0
}
