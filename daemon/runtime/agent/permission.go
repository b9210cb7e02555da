package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/thoughtgate/thoughtgated/daemon/submit"
	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

const methodPermission = "session/request_permission"

// option is an answer that the agent offers with its request for permission.
type option struct {
	id, kind string
}

// The kinds of options that are chosen. Permanent approval is never given: each call is judged.
const (
	allowOnce  = "allow_once"
	rejectOnce = "reject_once"
)

var kindWord = regexp.MustCompile(`^[a-z][a-z_]{0,31}$`)

// permission handles the agent's request to use a tool of its own. It is judged as a call of
// permission/KIND, with what the agent says about its tool call as arguments. The agent uses
// its own arguments, so an approval with edited arguments is a denial.
func (o *run) permission(ctx context.Context, params []byte) ([]byte, error) {
	kind, call, options, err := readPermission(params)
	if err != nil {
		return nil, err
	}
	p, err := o.judged(ctx, "permission/"+kind, call)
	var refused *submit.DeniedError
	switch {
	case errors.As(err, &refused):
		return chosen(options, rejectOnce), nil
	case o.ctx.Err() != nil || ctx.Err() != nil:
		return cancelledOutcome, nil // the turn is over, and the agent waits for the answer
	case err != nil:
		return nil, fault(err)
	case p.Edited:
		why := "a permission can't change the arguments of the agent"
		o.sendEvent(Event{Kind: KindDenied, Tool: "permission/" + kind, Text: why})
		_, _ = o.finish(ctx, p, "", errors.New(why)) // it returns the same error
		return chosen(options, rejectOnce), nil
	}
	outcome := chosen(options, allowOnce)
	if string(outcome) == string(cancelledOutcome) {
		err = fmt.Errorf("the agent offers no %s", allowOnce)
		o.sendEvent(Event{Kind: KindNote, Text: fmt.Sprintf("a permission for %s could not be granted: %v", kind, err)})
	}
	if _, inspected := o.finish(ctx, p, "", err); err == nil && inspected != nil {
		return chosen(options, rejectOnce), nil // an extension has withheld it
	}
	return outcome, nil
}

// readPermission parses the params of a request for permission.
func readPermission(params []byte) (kind string, call []byte, options []option, err error) {
	o := rawjson.Read(params)
	if o.Get("toolCall") == nil || o.Get("options") == nil {
		o.Fail("toolCall or options is missing")
	}
	about := o.Object("toolCall")
	kind = cmp.Or(about.OptionalText("kind"), "other")
	if !kindWord.MatchString(kind) {
		o.Fail("toolCall.kind is not a word")
	}
	for _, one := range o.Objects("options") {
		options = append(options, option{one.OptionalText("optionId"), one.OptionalText("kind")})
	}
	return kind, about.Without(passing...), options, invalid(o.Err())
}

var cancelledOutcome = []byte(`{"outcome":{"outcome":"cancelled"}}`)

// chosen returns the response that selects the first option of a kind. Without one it cancels
// the request, so that the agent does nothing.
func chosen(options []option, kind string) []byte {
	for _, o := range options {
		if o.kind == kind {
			return append(append([]byte(`{"outcome":{"outcome":"selected","optionId":`), wire.AppendQuote(nil, o.id)...), `}}`...)
		}
	}
	return cancelledOutcome
}
