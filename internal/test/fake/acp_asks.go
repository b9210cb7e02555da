package fake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
)

// asks carries out a step that sends a request to the host or a server.
func (a *acpAgent) asks(word, rest string) {
	words := strings.Fields(rest)
	switch word {
	case "read":
		params := map[string]any{"path": words[0]}
		if len(words) == 3 {
			params["line"], params["limit"] = json.RawMessage(words[1]), json.RawMessage(words[2])
		}
		a.report(word, "fs/read_text_file", params)
	case "write":
		path, text, _ := strings.Cut(rest, " ")
		a.report(word, "fs/write_text_file", map[string]any{"path": path, "content": text})
	case "permit":
		kind, title, _ := strings.Cut(rest, " ")
		a.report(word, "session/request_permission", map[string]any{
			"toolCall": map[string]any{"toolCallId": "c-1", "title": title, "kind": kind, "rawInput": map[string]string{"command": title}},
			"options": []map[string]string{
				{"optionId": "always", "name": "Always", "kind": "allow_always"}, {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
				{"optionId": "no", "name": "No", "kind": "reject_once"},
			},
		})
	case "ask":
		method, params, _ := strings.Cut(rest, " ")
		var object map[string]any
		_ = json.Unmarshal([]byte(params), &object) // without params there are none
		if object == nil {
			object = map[string]any{}
		}
		a.report(word, method, object)
	case "run":
		a.terminal(words)
	case "tool":
		a.tool(words[0], words[1], strings.TrimSpace(strings.SplitN(rest, " ", 3)[2]))
	default:
		a.say(fmt.Sprintf("there is no step %q\n", word))
	}
}

func (a *acpAgent) say(text string) {
	a.update("agent_message_chunk", "content", map[string]string{"type": "text", "text": text})
}

func (a *acpAgent) update(kind, member string, value any) {
	_ = a.notify("session/update", map[string]any{"sessionId": "s-1", "update": map[string]any{"sessionUpdate": kind, member: value}})
}

// askHost sends a request to the host. It fails if the turn is cancelled meanwhile.
func (a *acpAgent) askHost(method string, params map[string]any) (json.RawMessage, error) {
	params["sessionId"] = "s-1"
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-a.cancelled:
			cancel()
		case <-ctx.Done():
		}
	}()
	return a.call(ctx, method, params)
}

func (a *acpAgent) report(word, method string, params map[string]any) {
	raw, err := a.askHost(method, params)
	if err != nil {
		a.say(fmt.Sprintf("%s: error: %v\n", word, err))
		return
	}
	a.say(fmt.Sprintf("%s: %s\n", word, raw))
}

// terminal runs a command to its end and reports its output.
func (a *acpAgent) terminal(words []string) {
	raw, err := a.askHost("terminal/create", map[string]any{"command": words[0], "args": words[1:]})
	var made struct{ TerminalID string }
	if err == nil {
		err = json.Unmarshal(raw, &made)
	}
	if err != nil {
		a.say(fmt.Sprintf("run: error: %v\n", err))
		return
	}
	for _, method := range []string{"terminal/wait_for_exit", "terminal/output", "terminal/release"} {
		a.report(method, method, map[string]any{"terminalId": made.TerminalID})
	}
}

// tool calls a tool of a server that the host named, and starts the server first if needed.
func (a *acpAgent) tool(server, tool, arguments string) {
	s := a.started[server]
	for _, entry := range a.servers {
		if s != nil || entry.Name != server {
			continue
		}
		env := map[string]string{}
		for _, v := range entry.Env {
			env[v.Name] = v.Value
		}
		var err error
		if s, err = a.startServer(entry, env); err != nil {
			a.say(fmt.Sprintf("tool: error: %v\n", err))
			return
		}
		a.started[server] = s
	}
	if s == nil {
		a.say(fmt.Sprintf("tool: there is no server %q\n", server))
		return
	}
	r := s.do(context.Background(), Step{Server: server, Tool: tool, Arguments: json.RawMessage(arguments)}, time.Minute)
	if err := errors.Join(r.Failed); err != nil {
		r.Text = err.Error()
	}
	a.say(fmt.Sprintf("tool: error %v: %s\n", r.IsError, strings.ReplaceAll(r.Text, "\n", " ")))
}

func (a *acpAgent) startServer(e acpServer, env map[string]string) (*started, error) {
	s, err := start(entry{Command: e.Command, Args: e.Args, Env: maps.Clone(env)}, AgentOptions{Dir: a.cwd, Stderr: a.errw})
	if err != nil {
		return nil, err
	}
	return s, s.handshake(context.Background(), time.Minute)
}
