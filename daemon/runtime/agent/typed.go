package agent

import (
	"encoding/json"
	"errors"
	"io"

	"github.com/thoughtgate/thoughtgated/internal/rpc"
)

// execute is the request to a typed agent.
type execute struct {
	Prompt  string   `json:"prompt"`
	Cwd     string   `json:"cwd"`
	Servers []server `json:"mcpServers"`
}

// typed runs the conversation with an agent that speaks typed JSON: one request, parts of the
// answer as they arrive, and the answer.
func (o *run) typed(conn *rpc.Conn) (Result, error) {
	params, err := json.Marshal(execute{o.request.Prompt, o.request.Cwd, o.servers})
	if err != nil {
		return Result{}, err
	}
	stream, err := conn.Stream(o.ctx, "execute", params)
	if err != nil {
		return Result{}, err
	}
	defer stream.Close()
	said := false
	for {
		part, err := stream.Next(o.ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Result{}, described(err)
		}
		o.pace.passed(part)
		if text := textOf(part); text != "" {
			said = true
			o.sendEvent(Event{Kind: KindText, Text: text})
		} else {
			o.sendEvent(Event{Kind: KindUpdate, Word: "delta", Raw: part})
		}
	}
	result := stream.Result()
	if text := textOf(result); text != "" && !said {
		o.sendEvent(Event{Kind: KindText, Text: text})
	}
	return Result{Raw: result}, nil
}

// textOf returns the text of a value: the value itself if it is a string, or the text member of
// an object.
func textOf(raw []byte) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var object struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &object) == nil {
		return object.Text
	}
	return ""
}
