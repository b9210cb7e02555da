package retryafter

import (
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": -1, "0": 0, "7": 7 * time.Second, "-7": -1, "1.5": -1, "x": -1, "99999999999999999999": -1, "2000000000": 2e9 * time.Second,
		"Fri, 20 Nov 2026 12:00:30 GMT": 30 * time.Second, "Friday, 20-Nov-26 12:00:30 GMT": 30 * time.Second, "Fri, 20 Nov 2026 11:00:30 GMT": 0,
		"Fri, 20 Nov 9999 11:00:30 GMT": 1<<63 - 1,
	} {
		got, ok := Parse(value, now)
		if !ok {
			if got != 0 {
				t.Errorf("%q: %s, and it is not one", value, got)
			}
			got = -1
		}
		if got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}
