package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// server is one server in service.
type server struct {
	name, log string
	notes     map[string]string
}

// tools are what a server can do.
var tools = map[string]func(s *server, arguments map[string]string) (string, error){
	"read_note": func(s *server, arguments map[string]string) (string, error) {
		return s.note(arguments["name"])
	},
	"delete_note": func(s *server, arguments map[string]string) (string, error) {
		_, err := s.note(arguments["name"])
		delete(s.notes, arguments["name"])
		return "Deleted " + arguments["name"] + ".", err
	},
	"send_mail": func(_ *server, arguments map[string]string) (string, error) {
		return "Sent to " + arguments["to"] + ".", nil
	},
}

func (s *server) note(name string) (string, error) {
	text, ok := s.notes[name]
	if !ok {
		return "", fmt.Errorf("there is no note %q", name)
	}
	return text, nil
}

// Serve is an MCP server called name on in and out. It appends the name of each tool to
// the file log before it executes it, see [Executed]. It returns at the end of in, or when
// ctx ends; then in must be closed by the caller for its goroutine to end.
func Serve(ctx context.Context, in io.Reader, out io.Writer, name, log string) error {
	s := &server{name, log, map[string]string{"groceries": "milk, bread, apples", "plan": "release on Friday"}}
	ended := make(chan error, 1)
	go func() { ended <- s.serve(in, out) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *server) serve(in io.Reader, out io.Writer) error {
	requests, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var params json.RawMessage
		request := message{Params: &params}
		if err := requests.Decode(&request); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if request.ID == nil {
			continue
		}
		answer := message{Version: "2.0", ID: request.ID}
		answer.Result, answer.Error = s.answerTo(request.Method, params)
		if err := answers.Encode(answer); err != nil {
			return err
		}
	}
}

func (s *server) answerTo(method string, params json.RawMessage) (any, *rpcError) {
	switch method {
	case "ping":
		return struct{}{}, nil
	case "initialize":
		return map[string]any{
			"protocolVersion": protocolVersion, "serverInfo": map[string]string{"name": s.name, "version": "1.0.0"},
			"capabilities": map[string]any{"tools": struct{}{}},
		}, nil
	case "tools/list":
		list := []any{}
		for _, tool := range slices.Sorted(maps.Keys(tools)) {
			list = append(list, map[string]any{"name": tool, "inputSchema": map[string]string{"type": "object"}})
		}
		return map[string]any{"tools": list}, nil
	case "tools/call":
		return s.call(params)
	}
	return nil, &rpcError{-32601, "Method not found"}
}

func (s *server) call(params json.RawMessage) (any, *rpcError) {
	var c struct {
		Name      string
		Arguments map[string]string
	}
	if err := json.Unmarshal(params, &c); err != nil || tools[c.Name] == nil {
		return nil, &rpcError{-32602, "Unknown tool or arguments: " + c.Name}
	}
	err := appendLine(s.log, c.Name)
	text := ""
	if err == nil {
		text, err = tools[c.Name](s, c.Arguments)
	}
	if err != nil {
		text = err.Error()
	}
	return map[string]any{"content": []any{map[string]string{"type": "text", "text": text}}, "isError": err != nil}, nil
}

func appendLine(path, line string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}

// Executed returns the tools that a server with that log has executed, in order.
func Executed(log string) ([]string, error) {
	text, err := os.ReadFile(log)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return strings.Fields(string(text)), err
}
