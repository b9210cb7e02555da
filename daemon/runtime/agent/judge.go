package agent

import (
	"context"
	"errors"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/submit"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/rpc"
)

// judged submits a request of the agent to the gate, as a call of the tool, and waits for the
// verdict. A denial is a *[submit.DeniedError].
func (o *run) judged(ctx context.Context, tool string, arguments []byte) (*submit.Permitted, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(o.requests, func() { cancel(context.Cause(o.requests)) })()
	p, err := o.submitter.Judge(ctx, submit.Call{Tool: tool, Arguments: arguments}, func(v gate.Verdict) {
		if v.Approval != "" { // otherwise extensions are asked, and nobody has to act
			o.sendEvent(Event{Kind: KindHeld, Tool: tool, Approval: v.Approval, Text: v.Reason})
		}
	})
	o.reportDenial(tool, err)
	return p, err
}

// finish records the outcome of a forwarded request and returns the text that the agent may
// read, as [submit.Submitter.Finish] does.
func (o *run) finish(ctx context.Context, p *submit.Permitted, text string, err error) (string, error) {
	shown, err := o.submitter.Finish(ctx, p, text, err)
	o.reportDenial("result", err)
	return shown, err
}

func (o *run) reportDenial(tool string, err error) {
	var denied *submit.DeniedError
	if errors.As(err, &denied) {
		o.sendEvent(Event{Kind: KindDenied, Tool: tool, Approval: denied.Approval, Text: denied.Reason})
	}
}

// fault returns err as the agent gets it.
func fault(err error) error {
	var denied *submit.DeniedError
	var already *rpc.Fault
	switch {
	case errors.As(err, &already):
		return err
	case errors.As(err, &denied):
		return &rpc.Fault{Code: mcp.CodeRule, Message: denied.Text}
	}
	return &rpc.Fault{Code: codeInternal, Message: err.Error()}
}
