package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Codes of JSON-RPC that requests of an agent are answered with.
const (
	codeUnknown  = -32601
	codeParams   = -32602
	codeInternal = -32603
	codeNotFound = -32002 // of the Agent Client Protocol: what is asked for is not there
)

// serving are the requests that an agent may make of its host. Each is judged by its
// method as the name of a tool, but for a permission, which is judged by what it is
// for.
var serving = map[string]func(o *run, ctx context.Context, p *permitted) (result []byte, heard string, err error){
	"fs/read_text_file":      (*run).readFile,
	"fs/write_text_file":     (*run).writeFile,
	"terminal/create":        (*run).createTerminal,
	"terminal/output":        (*run).terminalOutput,
	"terminal/wait_for_exit": (*run).waitForTerminal,
	"terminal/kill":          (*run).killTerminal,
	"terminal/release":       (*run).releaseTerminal,
}

// handle answers a request of the agent.
func (o *run) handle(ctx context.Context, method string, params []byte) ([]byte, error) {
	if method == methodPermission {
		return o.permission(ctx, params)
	}
	serve := serving[method]
	if serve == nil {
		return nil, &wire.Fault{Code: codeUnknown, Message: fmt.Sprintf("Method not found: %s", method)}
	}
	arguments, err := bare(params)
	if err != nil {
		return nil, err
	}
	p, err := o.judged(ctx, method, arguments)
	if err != nil {
		return nil, fault(err)
	}
	result, text, err := serve(o, ctx, p)
	shown, err := o.done(ctx, p, text, err)
	if err == nil && shown != text {
		result, err = retold(method, result, shown)
	}
	if err != nil {
		return nil, fault(err)
	}
	return result, nil
}

// telling is the member of a result that holds text, where the result of a request
// has one.
var telling = map[string]string{"fs/read_text_file": "content", "terminal/output": "output"}

// retold is result with another text.
func retold(method string, result []byte, text string) ([]byte, error) {
	edit, err := wire.Set(result, wire.Span{End: len(result)}, telling[method], wire.AppendQuote(nil, text))
	if telling[method] == "" || err != nil {
		return nil, errors.Join(fmt.Errorf("put what extensions say in the place of the result of %s", method), err)
	}
	return wire.Splice(result, edit)
}

// passing are members that belong to the conversation: of the params, and of the tool
// call in a question for permission.
var passing = map[string]bool{"sessionId": true, "_meta": true, "toolCallId": true, "status": true}

// bare returns the params as the arguments of a call: without what belongs to the
// conversation and is another in each run, so that a grant for a call of the same
// arguments is good for the next run.
func bare(params []byte) ([]byte, error) {
	out := []byte{'{'}
	err := wire.Members(params, wire.Span{End: len(params)}, func(name []byte, value wire.Span) error {
		if passing[string(name)] {
			return nil
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(wire.AppendQuote(out, string(name)), ':'), bytes.TrimSpace(value.Of(params))...)
		return nil
	})
	if err != nil {
		return nil, &wire.Fault{Code: codeParams, Message: "Invalid params: " + err.Error()}
	}
	return append(out, '}'), nil
}
