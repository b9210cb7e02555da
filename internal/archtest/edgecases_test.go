package archtest

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	edgeCases     = 44 // EC-STDIO-001 to EC-STDIO-044 of the specification
	withoutTest   = "testdata/edge-cases-without-test.txt"
	thisDirectory = "internal/archtest/"
)

var update = flag.Bool("update", false, "write "+withoutTest+" anew")

// TestEdgeCases finds the edge cases of the specification that no test names.
// Those still to come are listed, so that a name lost from a test is noticed,
// and one gained is taken off the list.
func TestEdgeCases(t *testing.T) {
	named := namedInTests(t)
	var missing []string
	for i := range edgeCases {
		if id := fmt.Sprintf("EC-STDIO-%03d", i+1); !named[id] {
			missing = append(missing, id)
		}
	}
	if *update {
		if err := os.WriteFile(withoutTest, []byte(strings.Join(missing, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(withoutTest)
	if err != nil {
		t.Fatal(err)
	}
	listed := strings.Fields(string(text))
	for _, id := range missing {
		if !slices.Contains(listed, id) {
			t.Errorf("no test names %s any more", id)
		}
	}
	for _, id := range listed {
		if !slices.Contains(missing, id) {
			t.Errorf("%s has a test, or is no edge case: run this test with -update to take it off %s", id, withoutTest)
		}
	}
	t.Logf("%d of %d edge cases are named by a test; missing: %s",
		edgeCases-len(missing), edgeCases, strings.Join(missing, " "))
}

// namedInTests returns the edge cases that some test or test script names.
func namedInTests(t *testing.T) map[string]bool {
	t.Helper()
	id := regexp.MustCompile(`\bEC-STDIO-\d{3}\b`)
	named := map[string]bool{}
	for _, root := range []string{"client", "cmd", "daemon", "internal"} {
		walk(t, root, func(path string, text []byte) {
			test := strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".txtar")
			if !test || strings.HasPrefix(path, thisDirectory) {
				return
			}
			for _, found := range id.FindAll(text, -1) {
				named[string(found)] = true
			}
		})
	}
	return named
}
