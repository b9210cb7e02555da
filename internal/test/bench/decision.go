package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
)

// decisionLine matches a line of the benchmark of package policy.
var decisionLine = regexp.MustCompile(`^BenchmarkRule/policies=(\d+)/listed=(true|false)\S*\s+\d+\s+([0-9.]+) ns/op`)

// measureDecision measures a decision of the policies alone, for several numbers of policies,
// with the benchmark of package policy, built from source.
func measureDecision(_ *fixture, r *report, _ options) error {
	out, err := exec.Command("go", "test", "-run", "^$", "-bench", "^BenchmarkRule$", "-benchtime", "200ms", "-count", "5",
		"./daemon/policy").CombinedOutput()
	if err != nil {
		return fmt.Errorf("run the benchmark of ./daemon/policy, which wants go and the top of the source: %w: %s", err, out)
	}
	took, err := decisions(out)
	if err != nil {
		return err
	}
	for _, listed := range []bool{false, true} {
		few := over(took[decisionName(10, listed)])
		for _, n := range policyCounts {
			v := row{Ours: over(took[decisionName(n, listed)])}
			if v.Ours == nil || few == nil {
				return fmt.Errorf("no figure for %d policies in %s", n, out)
			}
			if n > 10 {
				v.Ratio = once(v.Ours.Median / few.Median)
			}
			r.add(decisionName(n, listed), v)
		}
	}
	return nil
}

// decisions returns the times in the benchmark's output, in µs, by name of the figure.
func decisions(out []byte) (map[string][]float64, error) {
	took := map[string][]float64{}
	for s := bufio.NewScanner(bytes.NewReader(out)); s.Scan(); {
		m := decisionLine.FindStringSubmatch(s.Text())
		if m == nil {
			continue
		}
		n, err := strconv.Atoi(m[1])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Text(), err)
		}
		ns, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Text(), err)
		}
		name := decisionName(n, m[2] == "true")
		took[name] = append(took[name], ns/1000)
	}
	return took, nil
}
