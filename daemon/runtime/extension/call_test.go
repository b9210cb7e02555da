package extension_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/protocol"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/provider"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/supervise"
	"github.com/thoughtgate/thoughtgated/internal/rpc"
	"github.com/thoughtgate/thoughtgated/internal/test/fake"
)

func TestToolsAndModels(t *testing.T) {
	t.Parallel()
	h := newFixture(t).start()
	h.install(fake.Extension{Name: "x"})
	x, err := h.Get("x")
	if tools := x.Declared.Tools; err != nil || len(tools) != 5 || tools[0].Name != "echo" || string(tools[0].InputSchema) != `{"type":"object"}` {
		t.Errorf("tools: %+v, %v", tools, err)
	}
	if got := h.text("x", "echo", `{"a": [1.0, "ü"]}`); got != `{"a": [1.0, "ü"]}` {
		t.Errorf("echo: %s", got)
	}
	if _, err := h.CallTool(t.Context(), "x", "none", []byte(`{}`)); !errors.Is(err, gate.ErrNotFound) {
		t.Errorf("a tool that is not offered: %v", err)
	}
	models, err := h.Models("x", "fake")
	if err != nil || strings.Join(models, " ") != "hello-1" {
		t.Errorf("models: %v, %v", models, err)
	}
	p := provider.Params{Provider: "fake", ModelID: "hello-1", Model: "fake/hello-1", Messages: [][]byte{provider.Message("user", provider.TextBlock("hi"))}}
	result, err := h.Complete(t.Context(), "x", p)
	if err != nil || len(result.Content) != 1 || result.Content[0].Text != "hello" || result.StopReason != "end_turn" {
		t.Errorf("complete: %+v, %v", result, err)
	}
	// Pieces that are malformed, or of another stream, are skipped.
	var pieces []string
	result, err = h.Stream(t.Context(), "x", p, func(e provider.Event) { pieces = append(pieces, string(e.Kind)+" "+e.Text) })
	if err != nil || len(result.Content) != 0 || strings.Join(pieces, ",") != "text hel,text lo,usage ,done " {
		t.Errorf("stream: %q, %+v, %v", pieces, result, err)
	}
	p.ModelID = "other"
	if _, err := h.Complete(t.Context(), "x", p); !errors.Is(err, gate.ErrNotFound) {
		t.Errorf("a model that is not offered: %v", err)
	}
	v, err := h.Get("x")
	if err != nil || len(v.Declared.Capabilities) != 1 || v.Declared.Capabilities[0].Kind != "demo" || v.Strays == 0 {
		t.Errorf("declared: %+v, %v", v, err)
	}
}

// A call in progress when the program ends fails and is not retried.
func TestACallIsNotRepeated(t *testing.T) {
	t.Parallel()
	h := newFixture(t).start()
	h.install(fake.Extension{Name: "x"})
	if _, err := h.CallTool(t.Context(), "x", "crash", []byte(`{}`)); !errors.Is(err, supervise.ErrEnded) {
		t.Errorf("got %v, want ErrEnded", err)
	}
	if got := h.text("x", "echo", `{}`); got != `{}` {
		t.Errorf("in its next life: %s", got)
	}
	v, err := h.Get("x")
	if err != nil || v.Status.State != supervise.Degraded || v.Status.Restarts != 1 || v.Status.Budget != 2 || !strings.Contains(v.Status.Err.Error(), "exit status 7") {
		t.Errorf("after a crash: %+v, %v", v.Status, err)
	}
}

func TestCommands(t *testing.T) {
	t.Parallel()
	h := newFixture(t).start()
	h.install(fake.Extension{Name: "x"})
	run := func(command string, args ...string) (string, int, error) {
		var said []string
		exit, err := h.Invoke(t.Context(), "x", command, args, func(e protocol.Event) {
			said = append(said, strings.TrimSpace(string(e.Kind)+" "+e.Content))
		})
		return strings.Join(said, ", "), exit, err
	}
	if said, exit, err := run("say", "good", "day"); said != "text good day, done" || exit != 0 || err != nil {
		t.Errorf("say: %s, %d, %v", said, exit, err)
	}
	if said, exit, err := run("count", "2"); said != "task.start, text 1, task.update, text 2, task.update, task.done, done" || exit != 0 || err != nil {
		t.Errorf("count: %s, %d, %v", said, exit, err)
	}
	if _, exit, err := run("exit", "3"); exit != 3 || err != nil {
		t.Errorf("exit: %d, %v", exit, err)
	}
	var fault *rpc.Fault
	if _, _, err := run("none"); !errors.As(err, &fault) || fault.Code != -32602 {
		t.Errorf("an unknown command: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Invoke(ctx, "x", "wait", nil, func(protocol.Event) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("taken back: %v", err)
	}
	// Many at once: each gets its own output.
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			var said []string
			_, err := h.Invoke(t.Context(), "x", "say", []string{fmt.Sprint(i)}, func(e protocol.Event) { said = append(said, e.Content) })
			if err != nil || strings.Join(said, "") != fmt.Sprint(i) {
				t.Errorf("%d heard %q, %v", i, said, err)
			}
		})
	}
	all.Wait()
}

// A command whose output is read too slowly loses what the buffer can't hold, reports that, and
// affects no other.
func TestOutputThatIsNotTaken(t *testing.T) {
	t.Parallel()
	h := newFixture(t).start()
	h.install(fake.Extension{Name: "x"})
	slow, err := h.Subscribe(t.Context(), "x", 3, "command.output")
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	first, last, n := make(chan struct{}), "", 0
	taken := make(chan error, 1)
	hold := make(chan struct{})
	go func() {
		_, err := h.Invoke(t.Context(), "x", "count", []string{"4000"}, func(e protocol.Event) {
			if n++; n == 1 {
				close(first)
				<-hold
			}
			last = e.Content
		})
		taken <- err
	}()
	<-first
	if said := h.text("x", "echo", `{}`); said != `{}` {
		t.Errorf("a call meanwhile: %s", said)
	}
	h.until("the slow subscriber has lost something", func() bool { return slow.Dropped() > 3000 })
	close(hold)
	if err := <-taken; err != nil {
		t.Fatal(err)
	}
	// 4,000 numbers and as many steps: more than the buffer holds.
	if n >= 8000 || !strings.Contains(last, "they came faster than they were read") {
		t.Errorf("%d pieces, the last %q", n, last)
	}
	for range 3 {
		if m, err := slow.Next(t.Context()); err != nil || m.Method != "command.output" {
			t.Errorf("the slow one: %+v, %v", m, err)
		}
	}
}

// Subscribers come and go, and a subscription ends with the program.
func TestSubscribers(t *testing.T) {
	t.Parallel()
	h := newFixture(t).start()
	h.install(fake.Extension{Name: "x"})
	subscribe := func(methods ...string) *rpc.Subscription {
		t.Helper()
		s, err := h.Subscribe(t.Context(), "x", 0, methods...)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	all, tasks, gone := subscribe(), subscribe("task.done"), subscribe()
	gone.Close()
	if _, err := h.Invoke(t.Context(), "x", "count", []string{"1"}, func(protocol.Event) {}); err != nil {
		t.Fatal(err)
	}
	var heard []string
	for range 5 {
		m, err := all.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		heard = append(heard, m.Method)
	}
	if got := strings.Join(heard, " "); got != "task.start command.output task.update task.done command.output" {
		t.Errorf("one for all heard %s", got)
	}
	if m, err := tasks.Next(t.Context()); err != nil || m.Method != "task.done" {
		t.Errorf("one for tasks heard %+v, %v", m, err)
	}
	if _, err := gone.Next(t.Context()); err == nil {
		t.Error("one that is closed heard something")
	}
	_, _ = h.CallTool(t.Context(), "x", "crash", []byte(`{}`)) // it ends the program, as intended
	if _, err := all.Next(t.Context()); !errors.Is(err, rpc.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
	all.Close()
	tasks.Close()
}
