package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/rs/zerolog"
	"github.com/zricethezav/gitleaks/v8/config"
	"github.com/zricethezav/gitleaks/v8/detect"
	"github.com/zricethezav/gitleaks/v8/logging"
)

// detector wraps the detection library. It is safe for concurrent use.
type detector struct{ library *detect.Detector }

// newDetector loads the library's rules. It may be called once. It disables the library's own
// log, which could contain secrets.
func newDetector() (*detector, error) {
	logging.Logger = zerolog.Nop()
	library, err := detect.NewDetectorDefaultConfig()
	if err != nil {
		return nil, err
	}
	// Otherwise the author of a text could hide a secret with the words gitleaks:allow, or with
	// any other word in the line that a rule allows.
	library.IgnoreGitleaksAllow = true
	for id, rule := range library.Config.Rules {
		rule.Allowlists = slices.DeleteFunc(rule.Allowlists, func(a *config.Allowlist) bool { return a.RegexTarget == "line" })
		library.Config.Rules[id] = rule
	}
	return &detector{library}, nil
}

const (
	// part is the maximum length of text for one call of the library, in bytes: for each find
	// it scans all lines and all other finds.
	part = 128 << 10
	// overlap is how much of a part is repeated at the start of the next, so that secrets
	// across the boundary are found: a private key has about 3 kB.
	overlap = 12 << 10
)

// needle is a secret in a text. It is replaced wherever find occurs, since the library does not
// report its position reliably: its columns are wrong for matches over several lines.
type needle struct {
	find   string // the secret, or also its surroundings if it is short
	secret string
	rule   string
}

// everywhere is the minimum length of a secret that is replaced wherever it occurs. A shorter
// one is replaced only where a rule matched.
const everywhere = 8

// needles returns the secrets that the library finds in text, keyed by what to find.
func (d *detector) needles(ctx context.Context, text string) (map[string]needle, error) {
	var mu sync.Mutex // guards found
	found := map[string]needle{}
	rest := parts(text)
	work := make(chan string, len(rest))
	for _, one := range rest {
		work <- one
	}
	close(work)
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(rest)) {
		workers.Go(func() {
			for one := range work {
				if ctx.Err() != nil {
					return
				}
				all := d.library.DetectString(one)
				mu.Lock()
				for _, f := range all {
					n := needle{f.Secret, f.Secret, f.RuleID}
					if len(n.secret) < everywhere {
						n.find = f.Match
					}
					// If two rules find the same, the choice must not depend on which was
					// first.
					if known, ok := found[n.find]; n.secret != "" && (!ok || n.rule < known.rule) {
						found[n.find] = n
					}
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("look through the result: %w", err)
	}
	return found, nil
}

// parts splits text into the parts for the library.
func parts(text string) []string {
	var all []string
	for start := 0; ; {
		end := min(start+part, len(text))
		if end < len(text) {
			end = blankBefore(text, end)
		}
		all = append(all, text[start:end])
		if end == len(text) {
			return all
		}
		start = blankBefore(text, end-overlap)
	}
}

// blankBefore returns the end of the last blank before i, so that a cut does not split what a
// rule matches, or i if there is none nearby.
func blankBefore(text string, i int) int {
	from := max(0, i-overlap/2)
	if at := strings.LastIndexAny(text[from:i], " \t\r\n"); at >= 0 {
		return from + at + 1
	}
	return i
}
