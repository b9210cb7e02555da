package policy

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cedar-policy/cedar-go"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

// manyPolicies returns files with n policies, each about a different tool.
func manyPolicies(n int) map[string]string {
	files := map[string]string{config.FileName: "schema: 1\ngovernance: {defaults: {action: policy}}\n"}
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "permit (principal, action == ThoughtGate::Action::\"s%d/t%d\", resource) when { context.arguments.n < 10 };\n", i%50, i)
		if b.Len() > maxFile-256 || i == n-1 {
			files[filepath.Join("policies", fmt.Sprintf("p%05d.cedar", i))] = b.String()
			b.Reset()
		}
	}
	return files
}

const benchArguments = `{"n":5,"path":"/home/u/project/src/main.go","text":"lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut labore","tags":["a","b","c"]}`

// manySet returns a set of n policies, one of which is about the tool s3/t3. listed reports
// whether that tool is listed.
func manySet(tb testing.TB, n int, listed bool) *Set {
	tb.Helper()
	files := manyPolicies(n)
	if n == 0 {
		files[config.FileName] = "schema: 1\ngovernance: {}\n"
	}
	cfg, ds := config.Load(folder(tb, files), func(string) string { return "" })
	if cfg == nil {
		tb.Fatal(ds)
	}
	var opts []Option
	if listed {
		opts = append(opts, WithTools(toolsOf(tb, `s3 t3 {"type":"object","properties":{"n":{"type":"integer"},"path":{"type":"string"},"text":{"type":"string"},"tags":{"type":"array","items":{"type":"string"}}},"required":["n"]}`)))
	}
	s, ds := Load(cfg, opts...)
	if s == nil {
		tb.Fatal(ds)
	}
	return s
}

func BenchmarkRule(b *testing.B) {
	for _, n := range []int{0, 10, 100, 1000, 10_000} {
		for _, listed := range []bool{false, true} {
			b.Run(fmt.Sprintf("policies=%d/listed=%v", n, listed), func(b *testing.B) {
				s := manySet(b, n, listed)
				c := toolCall(b, "s3", "t3", benchArguments)
				if n > 0 {
					if got := judge(s, c); !strings.HasPrefix(got, "forward; permit") {
						b.Fatal(got)
					}
				}
				b.ReportAllocs()
				for b.Loop() {
					if _, err := s.Rule(context.Background(), c, nil); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// maxAllocations is the maximum number of allocations of a decision that reads the arguments of
// benchArguments.
const maxAllocations = 60

// A decision costs the same with ten policies as with ten thousand. Allocations show what a clock
// on a busy machine cannot.
func TestDecisionsAreFlat(t *testing.T) {
	for _, listed := range []bool{false, true} {
		few := -1.0
		for _, n := range []int{10, 10_000} {
			s := manySet(t, n, listed)
			c := toolCall(t, "s3", "t3", benchArguments)
			got := rig.Allocations(100, func() {
				if r, err := s.Rule(context.Background(), c, nil); err != nil || r.Gate != "permit" {
					t.Fatal(r, err)
				}
			})
			if got > maxAllocations {
				t.Errorf("%d policies: a decision takes %v allocations, want at most %d", n, got, maxAllocations)
			}
			if few < 0 {
				few = got
			} else if math.Abs(got-few) > 0.5 { // a sync.Pool drops some items at random
				t.Errorf("a decision takes %v allocations with 10 policies and %v with %d", few, got, n)
			}
			w := []cedar.EntityUID{actionOf("s3/t3"), actionTools, actionCall}
			if found := s.index.candidates(w, []cedar.EntityUID{cedar.NewEntityUID(typeTool, "s3/t3"), cedar.NewEntityUID(typeServer, "s3")}); len(found) != 1 || len(found[0].policies) != 1 {
				t.Errorf("of %d policies %v are looked at", n, found)
			}
		}
	}
}

// The author of the arguments must not be able to cost much time. Cedar hashes a set by the sum
// of its items, so all of these collide.
func BenchmarkHostileArguments(b *testing.B) {
	var sets strings.Builder
	for i := range maxCompound {
		if i > 0 {
			sets.WriteByte(',')
		}
		fmt.Fprintf(&sets, "[%d,%d]", i+1, 100_000-i)
	}
	raw := []byte("{")
	for i := range 10 {
		raw = fmt.Appendf(raw, "%q:[%s],", fmt.Sprint("a", i), sets.String())
	}
	raw[len(raw)-1] = '}'
	for b.Loop() {
		if _, _, err := convert(raw, true, nil); err != nil {
			b.Fatal(err)
		}
	}
}
