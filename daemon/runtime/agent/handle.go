package agent

import (
	"context"
	"fmt"

	"github.com/thoughtgate/thoughtgated/daemon/submit"
	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	"github.com/thoughtgate/thoughtgated/internal/rpc"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// JSON-RPC error codes of responses to an agent.
const (
	codeUnknown  = -32601
	codeParams   = -32602
	codeInternal = -32603
	codeNotFound = -32002 // of the Agent Client Protocol: the resource does not exist
)

// handler carries out a request that was forwarded. heard is the text in its result that the
// agent reads.
type handler func(o *run, ctx context.Context, p *submit.Permitted) (result []byte, heard string, err error)

// serving maps the requests that an agent may make of its host to their handlers. Each is
// judged with its method as the name of the tool. A request for permission is not among them:
// it is judged by what it is for.
var serving = map[string]handler{
	"fs/read_text_file":      (*run).readFile,
	"fs/write_text_file":     (*run).writeFile,
	"terminal/create":        (*run).createTerminal,
	"terminal/output":        onTerminal((*run).terminalOutput),
	"terminal/wait_for_exit": onTerminal((*run).waitForTerminal),
	"terminal/kill":          onTerminal((*run).killTerminal),
	"terminal/release":       onTerminal((*run).releaseTerminal),
}

// handle handles a request of the agent.
func (o *run) handle(ctx context.Context, method string, params []byte) ([]byte, error) {
	if method == methodPermission {
		return o.permission(ctx, params)
	}
	serve := serving[method]
	if serve == nil {
		return nil, &rpc.Fault{Code: codeUnknown, Message: fmt.Sprintf("Method not found: %s", method)}
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
	shown, err := o.finish(ctx, p, text, err)
	if err == nil && shown != text {
		result, err = replaceResultText(method, result, shown)
	}
	if err != nil {
		return nil, fault(err)
	}
	return result, nil
}

// textMember is the member of a result that holds text, for the methods whose results have one.
var textMember = map[string]string{"fs/read_text_file": "content", "terminal/output": "output"}

// replaceResultText returns result with its text replaced.
func replaceResultText(method string, result []byte, text string) ([]byte, error) {
	if textMember[method] == "" {
		return nil, fmt.Errorf("change the result of %s: it has no text", method)
	}
	return rawjson.Set(result, textMember[method], wire.AppendQuote(nil, text))
}

// passing are members that belong to the conversation and not to the request: of params, and of
// the tool call in a request for permission.
var passing = []string{"sessionId", "_meta", "toolCallId", "status"}

// bare returns params as the arguments of a call, without the members that differ from run to
// run, so that a grant for the same arguments holds in the next run.
func bare(params []byte) ([]byte, error) {
	o := rawjson.Read(params)
	if err := o.Err(); err != nil {
		return nil, invalid(err)
	}
	return o.Without(passing...), nil
}

// invalid returns the error for invalid params, nil for nil.
func invalid(err error) error {
	if err == nil {
		return nil
	}
	return &rpc.Fault{Code: codeParams, Message: "Invalid params: " + err.Error()}
}
