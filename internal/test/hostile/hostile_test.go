package hostile

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

// TestCases plays a case file: ours, or the one that -cases names.
func TestCases(t *testing.T) {
	cases := readCases(t, *casesFile)
	var total tally
	defer total.print()
	fixture := rig.NewFixture(t)
	fixture.Configure(policy)
	fixture.Shipped = true
	fixture.StartDaemon()
	t.Run("all", func(t *testing.T) { // so that the fixture outlives them
		for _, c := range cases {
			t.Run(strings.ReplaceAll(c.Class, "/", "_")+"/"+c.ID, func(t *testing.T) {
				t.Parallel()
				defer total.count(t, c)
				if c.Tier > *onlyTier {
					t.Skipf("tier %d", c.Tier)
				}
				for _, feature := range c.Needs {
					if !slices.Contains(have, feature) {
						t.Skipf("needs %s", feature)
					}
				}
				for _, problem := range run(t, fixture, c, nil, rig.Options{}) {
					t.Error(problem)
				}
			})
		}
	})
}

// tally counts what became of the cases, by class.
type tally struct {
	mu      sync.Mutex
	classes map[string]*[3]int // passed, failed, skipped
}

func (all *tally) count(t *testing.T, c *Case) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.classes == nil {
		all.classes = map[string]*[3]int{}
	}
	if all.classes[c.Class] == nil {
		all.classes[c.Class] = &[3]int{}
	}
	switch counts := all.classes[c.Class]; {
	case t.Failed():
		counts[1]++
	case t.Skipped():
		counts[2]++
	default:
		counts[0]++
	}
}

// print is seen by who runs the tests of this package alone.
func (all *tally) print() {
	var sum [3]int
	fmt.Printf("%-16s %6s %6s %7s\n", "class", "passed", "failed", "skipped")
	for _, class := range slices.Sorted(maps.Keys(all.classes)) {
		counts := all.classes[class]
		fmt.Printf("%-16s %6d %6d %7d\n", class, counts[0], counts[1], counts[2])
		for i := range sum {
			sum[i] += counts[i]
		}
	}
	fmt.Printf("%-16s %6d %6d %7d\n", "total", sum[0], sum[1], sum[2])
}

// TestCopierFails shows that the cases can fail: a program that only copies
// fails each that expects a message to be refused, and no other. It takes one in
// fifteen; make test-all takes all of them.
func TestCopierFails(t *testing.T) {
	fixture := rig.NewFixture(t)
	t.Run("all", func(t *testing.T) {
		for i, c := range readCases(t, *casesFile) {
			t.Run(c.ID, func(t *testing.T) {
				if c.Parts != nil || i%*copyEach > 0 {
					t.Skip("it would show nothing more, and take long")
				}
				t.Parallel()
				problems := run(t, fixture, c, nil, rig.Options{Instead: rig.Copier(t)})
				answers := len(c.Expect.AgentErrorIDs) > 0
				if (c.Expect.Forwarded == false || answers) && len(problems) == 0 {
					t.Error("a program that copies everything passes, so this case shows nothing")
				}
				if c.Expect.Forwarded == "identical" && !answers && len(problems) > 0 {
					t.Errorf("a program that copies everything fails where everything should cross: %s", problems)
				}
			})
		}
	})
}
