package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// settings are the parsed configuration.
type settings struct {
	limit int              // maximum size of a result, in bytes
	allow []*regexp.Regexp // what is no secret, whatever a rule says
}

const (
	usualLimit = 4 << 20
	mostLimit  = 10 << 20
)

// readSettings parses the two keys: limit, a number of bytes, and allow, a regular expression
// on each line.
func readSettings(config map[string]string) (settings, error) {
	s := settings{limit: usualLimit}
	if text := strings.TrimSpace(config["limit"]); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > mostLimit {
			return settings{}, fmt.Errorf("limit: %q is no number of bytes from 1 to %d", text, mostLimit)
		}
		s.limit = n
	}
	for line := range strings.Lines(config["allow"]) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		// The expression must match the whole secret: otherwise a short one would allow too
		// much.
		allowed, err := regexp.Compile(`^(?:` + line + `)$`)
		if err != nil {
			return settings{}, fmt.Errorf("allow: %w", err)
		}
		s.allow = append(s.allow, allowed)
	}
	return s, nil
}

func (s settings) allows(secret string) bool {
	for _, allowed := range s.allow {
		if allowed.MatchString(secret) {
			return true
		}
	}
	return false
}
