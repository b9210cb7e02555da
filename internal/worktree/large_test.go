package worktree

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"
)

var largeFiles = flag.Int("files", 3_000, "how many files TestLargeTree makes")

// TestLargeTree has many files, and a new one among them. With -v it says how long it took.
func TestLargeTree(t *testing.T) {
	const files = 100
	folders := *largeFiles / files
	r := newRepo(t)
	for d := range folders {
		for f := range files {
			r.write(fmt.Sprintf("d%d/e%d/f%d", d%10, d, f), fmt.Sprint(f))
		}
	}
	r.commit("1")
	r.write("d1/e1/new", "")
	r.write("d1/e1/f1", "changed")
	started := time.Now()
	report := losses(t, r.find("."), "d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7", "d8", "d9")
	t.Logf("losses: %v", time.Since(started))
	if report.Files() != folders*files+1 || report.InNoCommit() != 2 || !report.Complete() {
		t.Errorf("got %v, %q", counts(report), report.Gaps)
	}
	started = time.Now()
	report, err := r.find(".").Changes(context.Background(), true)
	t.Logf("changes of what git knows: %v", time.Since(started))
	if err != nil || report.Files() != 1 || report.InNoCommit() != 1 {
		t.Errorf("got %v, %v", counts(report), err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	started = time.Now()
	report, err = r.find(".").Losses(ctx, ".")
	if took := time.Since(started); took > time.Minute || err == nil && report.Complete() {
		t.Errorf("without time it took %v, %v", took, err)
	}
}
