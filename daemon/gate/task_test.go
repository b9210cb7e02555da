package gate

import (
	"context"
	"fmt"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// A message to a task is judged as a call of the tool that runs as that task.
func TestTasksAreJudgedAsTheirTool(t *testing.T) {
	h := newFixture()
	var of []string
	h.rule = func(c *Call) Ruling {
		if c.Method == "tasks/update" {
			of = append(of, c.Task)
		}
		return Ruling{Move: Forward, Gate: "rule"}
	}
	a := h.gate.Attach(context.Background(), shimX, nil)
	defer a.Close(true)
	c := collect(a)
	seq := uint64(0)
	submit := func(s Submission) uint64 {
		t.Helper()
		seq++
		s.Seq = seq
		a.Submit(s)
		if v := <-c; v.Move != Forward {
			t.Fatalf("%s: %+v", s.Line, v)
		}
		return seq
	}
	// starts has a call of the tool become a task.
	starts := func(method, params, task string) {
		t.Helper()
		call := submit(Submission{Side: wire.FromAgent, Line: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s,%s}}`, method, modernMeta, params)})
		submit(Submission{Side: wire.FromServer, Answers: method, Call: call, Modern: true,
			Line: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","taskId":%q,"status":"working"}}`, task)})
	}
	update := func(task string) string {
		t.Helper()
		submit(Submission{Side: wire.FromAgent, Line: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":2,"method":"tasks/update","params":{%s,"taskId":%q,"inputResponses":{}}}`, modernMeta, task)})
		return of[len(of)-1]
	}
	starts("tools/call", `"name":"rm"`, "one")
	starts("tools/call", `"name":"cat"`, "two")
	starts("prompts/get", `"name":"p"`, "prompt")
	starts("tools/call", `"name":"rm"`, "twice")
	starts("tools/call", `"name":"cat"`, "twice")
	for task, want := range map[string]string{"one": "rm", "two": "cat", "prompt": "", "twice": "", "nobody's": ""} {
		if got := update(task); got != want {
			t.Errorf("the task %s is judged as %q, want %q", task, got, want)
		}
	}
	for i := range mostTasks {
		starts("tools/call", `"name":"cat"`, fmt.Sprint("t", i))
	}
	if got := update("one"); got != "" {
		t.Errorf("the oldest of too many is judged as %q", got)
	}
	if n := len(a.tasks.tools); n > mostTasks {
		t.Errorf("%d tasks are remembered", n)
	}
}
