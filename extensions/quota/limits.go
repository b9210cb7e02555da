package main

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// limits are the maximum numbers of calls of a tool in an hour.
type limits struct {
	all  int // where no rule matches
	some []rule
}

// rule is a limit for each tool that matches.
type rule struct {
	pattern string // as server/tool; * and ? as in file names
	limit   int
}

// parseLimits parses the two keys of the configuration: a number, and rules such as
// "fs/write_*=10, github/*=30", of which the first match applies.
func parseLimits(all, some string) (limits, error) {
	var l limits
	var err error
	if l.all, err = number(all); err != nil {
		return limits{}, fmt.Errorf("limit: %w", err)
	}
	for _, text := range strings.FieldsFunc(some, func(r rune) bool { return strings.ContainsRune(" \t\r\n,", r) }) {
		pattern, value, ok := strings.Cut(text, "=")
		if !ok || strings.Count(pattern, "/") != 1 {
			return limits{}, fmt.Errorf("limits: %q is not as server/tool=10", text)
		}
		if _, err := path.Match(pattern, ""); err != nil {
			return limits{}, fmt.Errorf("limits: %q is no pattern", pattern)
		}
		n, err := number(value)
		if err != nil {
			return limits{}, fmt.Errorf("limits: %s: %w", pattern, err)
		}
		l.some = append(l.some, rule{pattern, n})
	}
	return l, nil
}

// most is the maximum limit: each call of the last hour is kept in memory.
const most = 100_000

func number(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > most {
		return 0, fmt.Errorf("%q is no number from 0 to %d", text, most)
	}
	return n, nil
}

// of returns the limit of a tool, named as server/tool.
func (l limits) of(tool string) int {
	server, name, _ := strings.Cut(tool, "/")
	for _, r := range l.some {
		servers, names, _ := strings.Cut(r.pattern, "/")
		// parseLimits has validated the patterns. A * does not match a slash, which the name of
		// a tool may contain.
		serves, _ := path.Match(servers, server)
		named, _ := path.Match(names, strings.ReplaceAll(name, "/", ":"))
		if serves && named {
			return r.limit
		}
	}
	return l.all
}
