package extension

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/extension/v1"
)

// Tool is a tool for agents. Its calls are judged like those of any tool.
type Tool struct {
	Name        string          // without blanks, dots, colons and slashes
	Description string          // for a model; not empty
	InputSchema json.RawMessage // a JSON Schema of an object; empty for any object

	// Call calls the tool. input is a JSON object that was not validated against InputSchema.
	// The result is that of MCP's tools/call, as returned by [Text]. An error becomes a result
	// with isError. The timeout is 120 s.
	Call func(ctx context.Context, input json.RawMessage) (json.RawMessage, error)
}

// Text returns a tool result that consists of text.
func Text(text string) json.RawMessage { return result(text, nil, false) }

// TextAnd returns a tool result with text for a model and the same information as a JSON object
// for programs. It fails if structured can't be encoded as JSON.
func TextAnd(text string, structured any) (json.RawMessage, error) {
	raw, err := json.Marshal(structured)
	if err != nil {
		return nil, err
	}
	return result(text, raw, false), nil
}

func result(text string, structured json.RawMessage, failed bool) json.RawMessage {
	type item struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	return marshal(struct {
		Content    []item          `json:"content"`
		Structured json.RawMessage `json:"structuredContent,omitempty"`
		IsError    bool            `json:"isError"`
	}{[]item{{"text", text}}, structured, failed})
}

// marshal returns the JSON of v without escaping < and >. It panics if v can't be encoded.
func marshal(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

func (s *server) tool(ctx context.Context, asked *pb.ToolRequest) (json.RawMessage, error) {
	for _, tool := range s.handler.Tools {
		if tool.Name != asked.Name || tool.Call == nil {
			continue
		}
		done, err := tool.Call(ctx, asked.Input)
		if err != nil {
			return result(err.Error(), nil, true), nil
		}
		return done, nil
	}
	return nil, fmt.Errorf("tool %q: %w", asked.Name, errNotOffered)
}
