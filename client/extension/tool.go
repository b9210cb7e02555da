package extension

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/extension/v1"
)

// Tool is a tool for agents. A call of it is judged as that of any other.
type Tool struct {
	Name        string          // without blanks, dots, colons and slashes
	Description string          // for a model; not empty
	InputSchema json.RawMessage // a JSON Schema that is an object (any object)

	// Call does it. input is a JSON object that nobody has held against
	// InputSchema. The result is what MCP calls the result of tools/call, as
	// [Text] makes it. An error becomes a result as well, with isError. The gate
	// waits 120 s.
	Call func(ctx context.Context, input json.RawMessage) (json.RawMessage, error)
}

// Text returns the result of a tool that says text.
func Text(text string) json.RawMessage { return result(text, nil, false) }

// TextAnd returns the result of a tool that says text to a model and the same as
// a JSON object to programs. It fails when structured has no JSON.
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

// marshal returns the JSON of v, with < and > as they are. It is for what
// always has one.
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
