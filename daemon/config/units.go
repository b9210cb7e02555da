package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Size is a number of bytes.
type Size int64

func (s Size) String() string {
	for _, u := range sizeUnits {
		if s >= Size(u.bytes) && s%Size(u.bytes) == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.name
		}
	}
	return "0B"
}

var sizeUnits = []struct {
	name  string
	bytes int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// ParseSize reads a whole number of B, KiB, MiB, GiB or TiB.
func ParseSize(text string) (Size, error) {
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	unit := text[digits:]
	n, err := strconv.ParseInt(text[:digits], 10, 64)
	if err != nil {
		if digits > 0 {
			return 0, errors.New("the size is too large")
		}
		return 0, errors.New("a size is a whole number with a unit, as 10MiB or 2GiB")
	}
	for _, u := range sizeUnits {
		if u.name != unit {
			continue
		}
		if n > math.MaxInt64/u.bytes {
			return 0, errors.New("the size is too large")
		}
		return Size(n * u.bytes), nil
	}
	if unit == "" {
		return 0, errors.New("the size has no unit; write 10MiB or 2GiB")
	}
	return 0, fmt.Errorf("there is no unit %q for sizes; write B, KiB, MiB, GiB or TiB", unit)
}

var durationUnits = []struct {
	name string
	long time.Duration
}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}}

// ParseDuration reads a duration as 90s, 10m, 1h30m or 7d: whole numbers of d,
// h, m, s and ms, each at most once and the larger first. 0 needs no unit.
func ParseDuration(text string) (time.Duration, error) {
	if text == "0" {
		return 0, nil
	}
	if text == "" {
		return 0, errors.New("a duration is written as 90s, 10m, 1h30m or 7d")
	}
	var sum time.Duration
	next := 0 // units before this one have been used
	for rest := text; rest != ""; {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		if digits == 0 {
			return 0, errors.New("a duration is written as 90s, 10m, 1h30m or 7d")
		}
		n, err := strconv.ParseInt(rest[:digits], 10, 64)
		if err != nil {
			return 0, errors.New("the duration is too long")
		}
		rest = rest[digits:]
		letters := len(rest) - len(strings.TrimLeft(rest, "abcdefghijklmnopqrstuvwxyz"))
		unit := rest[:letters]
		rest = rest[letters:]
		if unit == "" {
			return 0, errors.New("the duration has no unit; write 90s, 10m, 1h30m or 7d")
		}
		i := unitIndex(unit)
		if i < 0 {
			return 0, fmt.Errorf("there is no unit %q for durations; write d, h, m, s or ms", unit)
		}
		if i < next {
			return 0, errors.New("the units of a duration stand once each, the larger first, as 1h30m")
		}
		next = i + 1
		long := durationUnits[i].long
		if n > int64(math.MaxInt64/long) || time.Duration(n)*long > math.MaxInt64-sum {
			return 0, errors.New("the duration is too long")
		}
		sum += time.Duration(n) * long
	}
	return sum, nil
}

func unitIndex(name string) int {
	for i, u := range durationUnits {
		if u.name == name {
			return i
		}
	}
	return -1
}

// FormatDuration writes d as ParseDuration reads it.
func FormatDuration(d time.Duration) string {
	if d < time.Millisecond {
		return "0"
	}
	var b strings.Builder
	for _, u := range durationUnits {
		if n := d / u.long; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			d -= n * u.long
		}
	}
	return b.String()
}
