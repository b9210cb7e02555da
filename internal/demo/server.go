package demo

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// tools maps the server's tools to their results. They do nothing: the demo shows whether the
// server was called.
var tools = map[string]string{
	"read_note": "release on Friday", "delete_note": "Deleted the note.", "send_mail": "Sent to ana@example.com.",
}

// Serve runs an MCP server called name on in and out. It appends the name of each called tool
// to the file log before it answers, see [Executed]. It returns at the end of in, or when ctx
// ends; then the caller must close in to end its goroutine.
func Serve(ctx context.Context, in io.Reader, out io.Writer, name, log string) error {
	ended := make(chan error, 1)
	go func() { ended <- serve(in, out, name, log) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func serve(in io.Reader, out io.Writer, name, log string) error {
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
		answer.Result, answer.Error = answerTo(request.Method, params, name, log)
		if err := answers.Encode(answer); err != nil {
			return err
		}
	}
}

func answerTo(method string, params json.RawMessage, name, log string) (any, *rpcError) {
	switch method {
	case "ping":
		return struct{}{}, nil
	case "initialize":
		return map[string]any{
			"protocolVersion": protocolVersion, "serverInfo": map[string]string{"name": name, "version": "1.0.0"},
			"capabilities": map[string]any{"tools": struct{}{}},
		}, nil
	case "tools/list":
		list := []any{}
		for _, tool := range slices.Sorted(maps.Keys(tools)) {
			list = append(list, map[string]any{"name": tool, "inputSchema": map[string]string{"type": "object"}})
		}
		return map[string]any{"tools": list}, nil
	case "tools/call":
		var c Call
		if err := json.Unmarshal(params, &c); err != nil || tools[c.Tool] == "" {
			return nil, &rpcError{-32602, "Unknown tool: " + c.Tool}
		}
		if err := appendLine(log, c.Tool); err != nil {
			return nil, &rpcError{-32603, err.Error()}
		}
		return map[string]any{"content": []any{map[string]string{"type": "text", "text": tools[c.Tool]}}}, nil
	}
	return nil, &rpcError{-32601, "Method not found"}
}

func appendLine(path, line string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}

// Executed returns the tools that were called according to a log, in order.
func Executed(log string) ([]string, error) {
	text, err := os.ReadFile(log)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return strings.Fields(string(text)), err
}
