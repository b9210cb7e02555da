package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// measureDecision takes what a decision of the policies alone costs, over the
// number of policies: the benchmark of the package that decides.
func measureDecision(_ *house, r *report, _ options) error {
	const bench = "BenchmarkRule"
	out, err := exec.Command("go", "test", "-run", "^$", "-bench", bench, "-count", "3", "./daemon/policy").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	took := map[string][]float64{}
	var names []string
	for s := bufio.NewScanner(bytes.NewReader(out)); s.Scan(); {
		f := strings.Fields(s.Text())
		if len(f) < 4 || !strings.HasPrefix(f[0], bench) || f[3] != "ns/op" {
			continue
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(f[0], bench+"/"), "-")
		ns, err := strconv.ParseFloat(f[2], 64)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Text(), err)
		}
		if took[name] == nil {
			names = append(names, name)
		}
		took[name] = append(took[name], ns/1000)
	}
	if len(names) == 0 {
		return fmt.Errorf("no figure in %s", out)
	}
	first := median(took[names[0]])
	for _, name := range names {
		v := median(took[name])
		r.add(row{What: "decision, " + name, Unit: "µs", Ours: v, Note: fmt.Sprintf("%.1f × the first", v/first)}.reach("≤ 5, flat", v <= 5))
	}
	return nil
}
