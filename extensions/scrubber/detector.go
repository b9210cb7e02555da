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

// detector is the detection library, as we use it. It is safe for concurrent
// use.
type detector struct{ library *detect.Detector }

// newDetector loads the library's rules. It may be called once: the library
// keeps what it says to a log of its own, which is turned off here, since
// secrets might stand in it.
func newDetector() (*detector, error) {
	logging.Logger = zerolog.Nop()
	library, err := detect.NewDetectorDefaultConfig()
	if err != nil {
		return nil, err
	}
	// Else the words gitleaks:allow, written by whoever wrote the text, hide a
	// secret; and so would any other word of a line by which a rule lets it pass.
	library.IgnoreGitleaksAllow = true
	for id, rule := range library.Config.Rules {
		rule.Allowlists = slices.DeleteFunc(rule.Allowlists, func(a *config.Allowlist) bool { return a.RegexTarget == "line" })
		library.Config.Rules[id] = rule
	}
	return &detector{library}, nil
}

const (
	// part is how much text the library is given at once, in bytes: for each
	// find it goes over all lines, and over all other finds.
	part = 128 << 10
	// overlap is how much of it is given again with what follows, so that what
	// lies across is found: a private key has some 3 kB.
	overlap = 12 << 10
)

// needle is a secret that stands somewhere in a text: wherever find does, since
// where it was found the library does not say. Its columns are wrong for what
// lies over several lines.
type needle struct {
	find   string // the secret, or what is around it where it is short
	secret string
	rule   string
}

// everywhere is how long a secret must be to be replaced wherever it stands. A
// shorter one is replaced only where a rule saw it.
const everywhere = 8

// needles returns what the library takes for secrets in text, by what to find.
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
					// Of two rules that find the same, one has the say, whoever was first.
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

// parts returns what the library is given of text, one after the other.
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

// blankBefore returns the end of the last blank before i, so that nothing is cut
// in two that a rule takes as one; i when there is none near.
func blankBefore(text string, i int) int {
	from := max(0, i-overlap/2)
	if at := strings.LastIndexAny(text[from:i], " \t\r\n"); at >= 0 {
		return from + at + 1
	}
	return i
}
