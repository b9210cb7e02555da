package main

import (
	"fmt"
	"strings"
	"testing"
)

// A result may be as long as a line may be, and so may what takes its place.
func TestLargeResultIsInspected(t *testing.T) {
	t.Parallel()
	s := newStage(t, false)
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":"` + strings.Repeat("a", 3<<20) + `"}}}`
	large := func(c string) string {
		return `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + strings.Repeat(c, 10<<20-128) + `"}]}}`
	}
	s.mustPlay(t, "agent> "+call, "submit "+call, "inspect", "server< "+call)
	s.mustPlay(t, "server> "+large("s"), "submit "+large("s"), "came 1 "+call, "asking", "replace "+large("x"), "agent< "+large("x"))
}

// The calls that go on as tasks are kept within bounds. A task that is forgotten is
// not taken for one that nobody wants to see.
func TestTasksAreBounded(t *testing.T) {
	for name, test := range map[string]struct{ tasks, bytes, kept int }{
		"many":  {mostTasks + 10, 100, mostTasks},
		"large": {40, 1 << 20, mostTaskBytes >> 20},
	} {
		var r running
		if c, known := r.of("other"); c != nil || !known {
			t.Errorf("%s: of no task: %v, %v", name, c, known)
		}
		for i := range test.tasks {
			r.add(fmt.Sprint(i), &call{seq: uint64(i), wrote: make([]byte, test.bytes)})
		}
		kept := 0
		for i := range test.tasks {
			c, known := r.of(fmt.Sprint(i))
			if c != nil {
				kept++
			}
			if known != (c != nil) || c != nil && c.seq != uint64(i) {
				t.Errorf("%s: task %d: %v, %v", name, i, c, known)
			}
		}
		if _, known := r.of("other"); kept != test.kept || known || len(r.tasks) != kept || len(r.order) != kept {
			t.Errorf("%s: %d are kept, want %d; the others are known: %v", name, kept, test.kept, known)
		}
	}
}
