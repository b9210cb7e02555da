package display

import (
	"fmt"
	"strconv"
	"time"
)

// Count formats n with a comma after each group of thousands.
func Count[N ~int | ~int64 | ~uint32 | ~uint64](n N) Safe {
	digits := strconv.FormatInt(int64(n), 10)
	sign := ""
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	out := digits[:(len(digits)-1)%3+1]
	for rest := digits[len(out):]; rest != ""; rest = rest[3:] {
		out += "," + rest[:3]
	}
	return Safe(sign + out)
}

// Size formats n bytes with at most three digits and a unit: 999 B, 8.1 kB, 48 MB.
func Size(n uint64) Safe {
	if n < 1000 {
		return Safe(strconv.FormatUint(n, 10) + " B")
	}
	f, unit := float64(n)/1000, 0
	units := []string{"kB", "MB", "GB", "TB"}
	for f >= 999.5 && unit < len(units)-1 {
		f, unit = f/1000, unit+1
	}
	if f < 9.95 {
		return Safe(fmt.Sprintf("%.1f %s", f, units[unit]))
	}
	return Safe(fmt.Sprintf("%.0f %s", f, units[unit]))
}

// Span formats a duration as people say it, in its one or two largest units, rounded down: 42 s, 9 min,
// 2 h 5 min, 3 d 4 h. A negative duration is 0 s.
func Span(d time.Duration) Safe {
	d = max(d, 0)
	two := func(n time.Duration, unit string, m time.Duration, sub string) Safe {
		if m == 0 {
			return Safe(fmt.Sprintf("%d %s", n, unit))
		}
		return Safe(fmt.Sprintf("%d %s %d %s", n, unit, m, sub))
	}
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return two(d/time.Second, "s", 0, "")
	case d < time.Hour:
		return two(d/time.Minute, "min", 0, "")
	case d < day:
		return two(d/time.Hour, "h", d%time.Hour/time.Minute, "min")
	}
	return two(d/day, "d", d%day/time.Hour, "h")
}

// Time formats t in the time zone of now, as briefly as it stays clear: the time of day
// for today, month and day for this year.
func Time(t, now time.Time) Safe {
	t = t.In(now.Location())
	y, m, d := t.Date()
	ny, nm, nd := now.Date()
	switch {
	case y == ny && m == nm && d == nd:
		return Safe(t.Format("15:04:05"))
	case y == ny:
		return Safe(t.Format("Jan _2 15:04"))
	}
	return Safe(t.Format("2006-01-02"))
}

// Moment formats t in full, in the time zone of now.
func Moment(t, now time.Time) Safe {
	return Safe(t.In(now.Location()).Format("2006-01-02 15:04:05 -0700"))
}
