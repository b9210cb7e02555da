package ui

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ParseWhen parses a point in time: a span back from now, a date, or a date and a time.
func ParseWhen(text string, now time.Time) (time.Time, error) {
	if span, err := ParseSpan(text); err == nil {
		return now.Add(-span), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("invalid time %q: use a duration such as 2h or 7d, or a date such as 2026-11-20 or \"2026-11-20 14:00\"", text)
}

// ParseSpan parses a duration that may begin with a number of days.
func ParseSpan(text string) (time.Duration, error) {
	days, rest, ok := strings.Cut(text, "d")
	if !ok {
		days, rest = "0", text
	}
	n, err := strconv.ParseUint(days, 10, 16)
	if err != nil {
		return 0, err
	}
	span := time.Duration(n) * 24 * time.Hour
	if rest == "" && ok {
		return span, nil
	}
	more, err := time.ParseDuration(rest)
	if err != nil {
		return 0, err
	}
	if more < 0 {
		return 0, fmt.Errorf("%s is negative", text)
	}
	return span + more, nil
}
