package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// model is a provider with scripted answers.
type model struct {
	says  []string // results, one for each request
	err   error    // after the last result
	asked []string // its requests, as raw JSON
}

func (m *model) Complete(ctx context.Context, p Params) (Result, error) {
	m.asked = append(m.asked, string(p.Append(nil)))
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	if len(m.asked) > len(m.says) {
		return Result{}, m.err
	}
	return ReadStreamed([]byte(m.says[len(m.asked)-1]))
}

// tools maps names to functions; a tool that is missing fails.
type tools map[string]func(input string) (string, bool)

func (t tools) Call(_ context.Context, name string, input []byte) (string, bool) {
	return t[name](string(input))
}

func uses(names ...string) string {
	var all []string
	for i, name := range names {
		all = append(all, fmt.Sprintf(`{"type":"tool_use","id":"u%d","name":%q,"input":{"n":%d}}`, i+1, name, i+1))
	}
	return `{"content":[` + strings.Join(all, ",") + `],"stop_reason":"tool_use"}`
}

const ends = `{"content":[{"type":"text","text":"done"}],"stop_reason":"end_turn"}`

var echoes = tools{
	"echo":  func(input string) (string, bool) { return "said " + input, false },
	"long":  func(string) (string, bool) { return strings.Repeat("ä", 100), false },
	"bad":   func(string) (string, bool) { return "Tool execution failed: broken", true },
	"gated": func(string) (string, bool) { return "Not executed. Denied by rule \"gated\".", true },
}

var offered = []Tool{{Name: "echo"}, {Name: "long"}, {Name: "bad"}, {Name: "gated"}, {Name: "theirs"}}

func TestLoop(t *testing.T) {
	tests := []struct {
		name  string
		loop  Loop
		says  []string
		asked int
		want  string // summary of the answer
		err   string
		in    string // part of the last request
	}{
		{name: "no tools", says: []string{ends}, asked: 1, want: "text:done"},
		{name: "a tool", says: []string{uses("echo"), ends}, asked: 2, want: "text:done",
			in: `{"role":"assistant","content":[{"type":"tool_use","id":"u1","name":"echo","input":{"n":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"u1","content":"said {\"n\":1}"}]}`},
		{name: "two tools, in order", says: []string{uses("echo", "echo"), ends}, asked: 2, want: "text:done",
			in: `{"type":"tool_result","tool_use_id":"u1","content":"said {\"n\":1}"},{"type":"tool_result","tool_use_id":"u2","content":"said {\"n\":2}"}`},
		{name: "two turns", says: []string{uses("echo"), uses("bad"), ends}, asked: 3, want: "text:done"},
		{name: "an unknown tool", says: []string{uses("nothing"), ends}, asked: 2, want: "text:done",
			in: `{"type":"tool_result","tool_use_id":"u1","content":"Unknown tool: nothing","is_error":true}`},
		{name: "a blocked tool", says: []string{uses("gated"), ends}, asked: 2, want: "text:done",
			in: `"content":"Not executed. Denied by rule \"gated\".","is_error":true}`},
		{name: "a failing tool", says: []string{uses("bad"), ends}, asked: 2, want: "text:done",
			in: `"content":"Tool execution failed: broken","is_error":true}`},
		{name: "output cut at a character", loop: Loop{Output: 5}, says: []string{uses("long"), ends}, asked: 2, want: "text:done",
			in: `"content":"ää\n[196 more bytes were left out]"}`},
		{name: "the limit", loop: Loop{Iterations: 2}, says: []string{uses("echo"), uses("echo"), ends}, asked: 2, err: "after the last allowed iteration (2)"},
		{name: "the limit is reached with an answer", loop: Loop{Iterations: 2}, says: []string{uses("echo"), ends}, asked: 2, want: "text:done"},
		{name: "at least once", loop: Loop{Iterations: -3}, says: []string{ends}, asked: 1, want: "text:done"},
		{name: "at least once, and no tools then", loop: Loop{Iterations: -3}, says: []string{uses("echo")}, asked: 1, err: "the last allowed iteration (1)"},
		{name: "eight where nothing is said", says: slices.Repeat([]string{uses("echo")}, 9), asked: 8, err: "the last allowed iteration (8)"},
		{name: "the provider fails", says: []string{uses("echo")}, asked: 2, err: "the model is gone"},
		{name: "a malformed tool use", says: []string{`{"content":[{"type":"tool_use","name":"echo"}]}`}, asked: 1, err: `missing or invalid "content[0].id"`},
		{name: "a tool of whoever asked", loop: Loop{RequesterTools: []string{"theirs"}}, says: []string{uses("theirs")}, asked: 1, want: `use:u1 theirs {"n":1}`},
		{name: "tools of both", loop: Loop{RequesterTools: []string{"theirs"}}, says: []string{uses("echo", "theirs"), ends}, asked: 2, want: "text:done",
			in: `{"type":"tool_result","tool_use_id":"u2","content":"Not called: the requester runs theirs itself. Use it in an answer of its own, without other tools.","is_error":true}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := &model{says: test.says, err: errors.New("the model is gone")}
			test.loop.Provider, test.loop.Tools = m, echoes
			r, err := test.loop.Complete(context.Background(), Params{Messages: [][]byte{Message("user", TextBlock("go"))}, Tools: offered})
			if len(m.asked) != test.asked {
				t.Errorf("asked %d times, want %d", len(m.asked), test.asked)
			}
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("error %v, want one with %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := short(r.Content); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if last := m.asked[len(m.asked)-1]; !strings.Contains(last, test.in) {
				t.Errorf("the last question is\n%s\nwhich has no\n%s", last, test.in)
			}
		})
	}
}

// TestLoopWithoutTools: a model that was offered no tools may use none.
func TestLoopWithoutTools(t *testing.T) {
	m := &model{says: []string{uses("echo"), ends}}
	if _, err := (&Loop{Provider: m}).Complete(context.Background(), Params{Tools: offered}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(m.asked[1], "Unknown tool: echo") {
		t.Errorf("asked %s", m.asked[1])
	}
}

// TestLoopLeavesParams: the messages of the caller are not modified.
func TestLoopLeavesParams(t *testing.T) {
	messages := make([][]byte, 1, 8)
	messages[0] = Message("user", TextBlock("go"))
	m := &model{says: []string{uses("echo"), ends}}
	if _, err := (&Loop{Provider: m, Tools: echoes}).Complete(context.Background(), Params{Messages: messages, Tools: offered}); err != nil {
		t.Fatal(err)
	}
	if messages[:2][1] != nil {
		t.Errorf("the loop has written %s behind the messages", messages[:2][1])
	}
}

// TestLoopCancelled: after a cancellation nothing more is called.
func TestLoopCancelled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	gone := errors.New("nobody waits")
	m := &model{says: []string{uses("stop", "echo"), ends}}
	called := 0
	tools := tools{
		"stop": func(string) (string, bool) { cancel(gone); return "", true },
		"echo": func(string) (string, bool) { called++; return "", false },
	}
	_, err := (&Loop{Provider: m, Tools: tools}).Complete(ctx, Params{Tools: append([]Tool{{Name: "stop"}}, offered...)})
	if !errors.Is(err, gone) || len(m.asked) != 1 || called != 0 {
		t.Errorf("error %v, asked %d times, %d tools called after the end; want %v, once, none", err, len(m.asked), called, gone)
	}
}
