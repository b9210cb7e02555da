package agent

import (
	"context"
	"fmt"

	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Codes of JSON-RPC that requests of an agent are answered with.
const (
	codeUnknown  = -32601
	codeParams   = -32602
	codeInternal = -32603
	codeNotFound = -32002 // of the Agent Client Protocol: what is asked for is not there
)

// handler answers a request that was let through; heard is what its result tells the
// agent.
type handler func(o *run, ctx context.Context, p *permitted) (result []byte, heard string, err error)

// serving are the requests that an agent may make of its host. Each is judged by its
// method as the name of a tool, but for a permission, which is judged by what it is
// for.
var serving = map[string]handler{
	"fs/read_text_file":      (*run).readFile,
	"fs/write_text_file":     (*run).writeFile,
	"terminal/create":        (*run).createTerminal,
	"terminal/output":        onTerminal((*run).terminalOutput),
	"terminal/wait_for_exit": onTerminal((*run).waitForTerminal),
	"terminal/kill":          onTerminal((*run).killTerminal),
	"terminal/release":       onTerminal((*run).releaseTerminal),
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
	if telling[method] == "" {
		return nil, fmt.Errorf("put what extensions say in the place of the result of %s: it has no text", method)
	}
	return rawjson.Set(result, telling[method], wire.AppendQuote(nil, text))
}

// passing are members that belong to the conversation: of the params, and of the tool
// call in a question for permission.
var passing = []string{"sessionId", "_meta", "toolCallId", "status"}

// bare returns the params as the arguments of a call: without what belongs to the
// conversation and is another in each run, so that a grant for a call of the same
// arguments is good for the next run.
func bare(params []byte) ([]byte, error) {
	o := rawjson.Read(params)
	if err := o.Err(); err != nil {
		return nil, invalid(err)
	}
	return o.Without(passing...), nil
}

// invalid is the answer to params that can't be read, nil for nil.
func invalid(err error) error {
	if err == nil {
		return nil
	}
	return &wire.Fault{Code: codeParams, Message: "Invalid params: " + err.Error()}
}
