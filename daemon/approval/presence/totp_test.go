package presence

import (
	"testing"
	"time"
)

// The SHA-1 vectors of RFC 6238, appendix B, reduced to their last six digits.
func TestCodes(t *testing.T) {
	key := []byte("12345678901234567890")
	for seconds, want := range map[int64]string{
		59: "287082", 1111111109: "081804", 1111111111: "050471", 1234567890: "005924", 2000000000: "279037", 20000000000: "353130",
	} {
		if got := codeAt(key, stepAt(time.Unix(seconds, 0))); string(got) != want {
			t.Errorf("at %d: got %s, want %s", seconds, got, want)
		}
	}
}

func TestWhenACodeCounts(t *testing.T) {
	key, now := []byte("12345678901234567890"), time.Unix(1_000_000_000, 0)
	step := stepAt(now)
	for _, test := range []struct {
		name string
		code []byte
		last int64
		want bool
	}{
		{"of now", codeAt(key, step), 0, true},
		{"of the step before", codeAt(key, step-1), 0, true},
		{"of the step after", codeAt(key, step+1), 0, true},
		{"too old", codeAt(key, step-2), 0, false},
		{"too early", codeAt(key, step+2), 0, false},
		{"used", codeAt(key, step), step, false},
		{"before one that was used", codeAt(key, step-1), step, false},
		{"after one that was used", codeAt(key, step+1), step, true},
		{"cut", codeAt(key, step)[:5], 0, false},
		{"none", nil, 0, false},
		{"of another key", codeAt([]byte("another"), step), 0, false},
	} {
		if _, got := stepOf(key, test.code, now, test.last); got != test.want {
			t.Errorf("%s: counts %v, want %v", test.name, got, test.want)
		}
	}
}
