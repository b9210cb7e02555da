package fake

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// answer answers one request of the daemon.
func (x *program) answer(ctx context.Context, m *message) {
	result, err := x.result(ctx, m)
	if err != nil {
		_ = x.send(message{ID: m.ID, Error: err})
		return
	}
	if result == nil {
		return
	}
	raw, _ := json.Marshal(result)
	_ = x.send(message{ID: m.ID, Result: raw}) // the daemon may have ended
	if x.is("twice") && strings.HasPrefix(m.Method, "hook.") {
		_ = x.send(message{ID: m.ID, Result: json.RawMessage(`{"action":"continue"}`)})
	}
}

func (x *program) result(ctx context.Context, m *message) (any, *Error) {
	switch m.Method {
	case "initialize":
		return x.greet(m.Params)
	case "hook.before", "hook.after":
		return x.hook(m)
	case "tool.call":
		return x.tool(m.Params)
	case "provider.complete":
		return map[string]any{"content": []any{map[string]any{"type": "text", "text": "hello"}}, "stop_reason": "end_turn", "usage": map[string]any{"output_tokens": 1}}, nil
	case "provider.stream":
		return x.stream(m.Params)
	case "command.invoke":
		return x.command(ctx, m.Params)
	case "shutdown":
		return struct{}{}, nil
	}
	return nil, &Error{Code: codeNoMethod, Message: "method not found"}
}

func (x *program) greet(raw json.RawMessage) (any, *Error) {
	var params struct{ Name string }
	_ = json.Unmarshal(raw, &params) // the name is optional here
	x.mu.Lock()
	x.name = params.Name
	x.mu.Unlock()
	version := 1
	switch {
	case x.is("hang-start"):
		return nil, nil
	case x.is("version"):
		version = 2
	}
	capabilities := map[string]any{}
	if !x.is("no-tools") {
		capabilities["tools"] = x.definitions()
		capabilities["providers"] = []any{map[string]any{
			"id": "fake", "display_name": "Fake", "description": "Says hello",
			"models": []any{map[string]any{"id": "hello-1", "display_name": "Hello", "context_window": 1000}},
		}}
		capabilities["capabilities"] = []any{map[string]any{"kind": "demo", "name": "Demonstration", "permissions": []string{"tools"}}}
	}
	return map[string]any{"protocol_version": version, "capabilities": capabilities}, nil
}

// definitions returns the tools: echo returns its input, ask sends the request in its input to
// the daemon, env returns the environment, told returns the received configuration changes.
func (x *program) definitions() []any {
	var all []any
	for _, name := range []string{"echo", "ask", "env", "told", "crash"} {
		all = append(all, map[string]any{"name": name, "description": "For tests: " + name, "input_schema": map[string]any{"type": "object"}})
	}
	return all
}

func (x *program) tool(raw json.RawMessage) (any, *Error) {
	var params struct {
		Name  string
		Input json.RawMessage
	}
	if err := json.Unmarshal(raw, &params); err != nil {
		return nil, &Error{Code: codeParams, Message: err.Error()}
	}
	text := ""
	switch params.Name {
	case "echo":
		text = string(params.Input)
	case "ask":
		var what struct {
			Method string
			Params json.RawMessage
		}
		if err := json.Unmarshal(params.Input, &what); err != nil {
			return nil, &Error{Code: codeParams, Message: err.Error()}
		}
		answer, err := x.ask(what.Method, what.Params)
		if text = string(answer); err != nil {
			text = err.Error()
		}
	case "env":
		text = strings.Join(os.Environ(), "\n")
	case "told":
		x.mu.Lock()
		config, _ := json.Marshal(x.config)
		x.mu.Unlock()
		text = string(config)
	case "crash":
		os.Exit(7)
	default:
		return nil, &Error{Code: codeParams, Message: "unknown tool " + params.Name}
	}
	return map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}, "isError": false}, nil
}

// hook answers a hook; nil means no answer.
func (x *program) hook(m *message) (any, *Error) {
	var params struct {
		Call struct {
			Tool      string
			Arguments map[string]any
		}
		Result map[string]any
	}
	if err := json.Unmarshal(m.Params, &params); err != nil {
		return nil, &Error{Code: codeParams, Message: err.Error()}
	}
	x.note(m.Method + " " + params.Call.Tool)
	x.misbehave()
	member, value := "arguments", params.Call.Arguments
	if m.Method == "hook.after" {
		member, value = "result", params.Result
	}
	switch {
	case x.is("block"):
		return map[string]any{"action": "block", "reason": "told to block"}, nil
	case x.is("malformed"):
		return map[string]any{"action": "modify", member: []int{1}}, nil
	case x.is("error"):
		return nil, &Error{Code: -1, Message: "told to fail"}
	case x.is("hang"), x.is("garbage"):
		return nil, nil
	case x.is("modify"):
		x.mu.Lock()
		mark := x.name
		x.mu.Unlock()
		seen, _ := value["seen_by"].(string)
		if value == nil {
			value = map[string]any{}
		}
		value["seen_by"] = strings.TrimSpace(seen + " " + mark)
		return map[string]any{"action": "modify", member: value}, nil
	}
	return map[string]any{"action": "continue"}, nil
}

// misbehave carries out the modes that do more than return a wrong answer.
func (x *program) misbehave() {
	switch {
	case x.is("crash"):
		fmt.Fprintln(os.Stderr, "told to crash")
		os.Exit(9)
	case x.is("garbage"):
		_ = x.frame([]byte(`{"jsonrpc":"2.0","id":`))
	case x.is("garble"):
		x.mu.Lock()
		defer x.mu.Unlock()
		_, _ = x.out.Write([]byte("this is a log line, and no frame\n\n"))
	case x.is("too-long"):
		x.mu.Lock()
		defer x.mu.Unlock()
		_, _ = x.out.Write([]byte("Content-Length: 1000000000\r\n\r\n"))
	case x.is("flood"):
		for range 50_000 {
			x.tell("task.log", map[string]any{"id": "flood", "line": strings.Repeat("x", 200)})
		}
	case x.is("flood-host"):
		for i := range 10_000 {
			_ = x.send(message{ID: json.RawMessage(fmt.Sprint(1_000_000 + i)), Method: "config.get", Params: json.RawMessage(`{"key":"x"}`)})
		}
	}
}

func (x *program) note(line string) {
	path := x.modes["log"]
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	fmt.Fprintln(f, line)
}

// stream emits hello in pieces, in both forms of an event.
func (x *program) stream(raw json.RawMessage) (any, *Error) {
	var params struct {
		Request string `json:"request_id"`
	}
	_ = json.Unmarshal(raw, &params) // it may be missing
	x.tell("provider.stream.event", map[string]any{"event": map[string]any{"type": "text", "delta": "hel"}, "request_id": params.Request})
	x.tell("provider.stream.event", map[string]any{"type": "nonsense"})
	x.tell("provider.stream.event", map[string]any{"event": map[string]any{"type": "text", "delta": "another's"}, "request_id": "another"})
	x.tell("provider.stream.event", map[string]any{"type": "text", "text": "lo"})
	x.tell("provider.stream.event", map[string]any{"type": "usage", "output_tokens": 2})
	x.tell("provider.stream.event", map[string]any{"type": "done"})
	return map[string]any{"content": []any{}, "stop_reason": "end_turn"}, nil
}

// command runs `say WORD...`, `count N`, `exit CODE` or `wait`.
func (x *program) command(ctx context.Context, raw json.RawMessage) (any, *Error) {
	var params struct {
		Command string
		Args    []string
		Request string `json:"request_id"`
	}
	if err := json.Unmarshal(raw, &params); err != nil {
		return nil, &Error{Code: codeParams, Message: err.Error()}
	}
	say := func(kind, text string) {
		x.tell("command.output", map[string]any{"request_id": params.Request, "event": map[string]any{"kind": kind, "content": text}})
	}
	code, n := 0, 0
	if len(params.Args) > 0 {
		_, _ = fmt.Sscan(params.Args[0], &n) // 0 if it is no number
	}
	switch params.Command {
	case "say":
		say("text", strings.Join(params.Args, " "))
	case "count":
		x.tell("task.start", map[string]any{"id": "count", "label": "Counting", "kind": "demo"})
		for i := range n {
			say("text", fmt.Sprint(i+1))
			x.tell("task.update", map[string]any{"id": "count", "current": i + 1, "total": n})
		}
		x.tell("task.done", map[string]any{"id": "count"})
	case "exit":
		code = n
	case "wait":
		select {
		case <-ctx.Done():
		case <-time.After(time.Hour):
		}
	default:
		return nil, &Error{Code: codeParams, Message: "unknown command " + params.Command}
	}
	say("done", "")
	return map[string]any{"exit_code": code}, nil
}
