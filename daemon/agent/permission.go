package agent

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

const methodPermission = "session/request_permission"

// option is an answer that the agent offers to its question for permission.
type option struct {
	id, kind string
}

// What can be chosen. A yes for good is never given: the next call is judged anew.
const (
	allowOnce  = "allow_once"
	rejectOnce = "reject_once"
)

var kindWord = regexp.MustCompile(`^[a-z][a-z_]{0,31}$`)

// permission answers whether the agent may use a tool of its own. It is judged as a
// call of permission/KIND with what the agent says of its tool call as arguments.
// The agent acts on its own arguments, so that a yes to others is a no.
func (o *run) permission(ctx context.Context, params []byte) ([]byte, error) {
	kind, call, options, err := readPermission(params)
	if err != nil {
		return nil, err
	}
	p, err := o.judged(ctx, "permission/"+kind, call)
	var refused *errRefused
	switch {
	case errors.As(err, &refused):
		return chosen(options, rejectOnce), nil
	case o.ctx.Err() != nil || ctx.Err() != nil:
		return cancelledOutcome, nil // the turn is over, and the agent waits for the word
	case err != nil:
		return nil, fault(err)
	case p.edited:
		why := "a permission can't be given for other arguments than the agent's"
		o.tell(Event{Kind: KindDenied, Tool: "permission/" + kind, Text: why})
		_, _ = o.done(ctx, p, "", errors.New(why)) // it is that error
		return chosen(options, rejectOnce), nil
	}
	outcome := chosen(options, allowOnce)
	if string(outcome) == string(cancelledOutcome) {
		err = fmt.Errorf("the agent offers no %s", allowOnce)
		o.tell(Event{Kind: KindNote, Text: fmt.Sprintf("a permission for %s could not be given: %v", kind, err)})
	}
	if _, inspected := o.done(ctx, p, "", err); err == nil && inspected != nil {
		return chosen(options, rejectOnce), nil // an extension has withheld it
	}
	return outcome, nil
}

// readPermission reads what a permission is asked for.
func readPermission(params []byte) (kind string, call []byte, options []option, err error) {
	invalid := func(what string) (string, []byte, []option, error) {
		return "", nil, nil, &wire.Fault{Code: codeParams, Message: "Invalid params: " + what}
	}
	all, err := objectOf(params)
	if err != nil {
		return "", nil, nil, err
	}
	call, err = bare(all["toolCall"])
	if err != nil {
		return invalid("toolCall is no object")
	}
	about, err := objectOf(call)
	if err != nil {
		return "", nil, nil, err
	}
	if kind, err = about.text("kind"); err != nil {
		return "", nil, nil, err
	}
	if kind == "" {
		kind = "other"
	}
	if !kindWord.MatchString(kind) {
		return invalid("toolCall.kind is no word")
	}
	raw := all["options"]
	items, err := wire.Elements(raw, wire.Span{End: len(raw)})
	if err != nil {
		return invalid("options is no list")
	}
	for _, item := range items {
		one, err := objectOf(item.Of(raw))
		if err != nil {
			return "", nil, nil, err
		}
		id, err := one.text("optionId")
		if err != nil {
			return "", nil, nil, err
		}
		word, err := one.text("kind")
		if err != nil {
			return "", nil, nil, err
		}
		options = append(options, option{id, word})
	}
	return kind, call, options, nil
}

var cancelledOutcome = []byte(`{"outcome":{"outcome":"cancelled"}}`)

// chosen is the answer that chooses the first option of a kind; without one the
// question is called off, which lets nothing happen.
func chosen(options []option, kind string) []byte {
	for _, o := range options {
		if o.kind == kind {
			return append(append([]byte(`{"outcome":{"outcome":"selected","optionId":`), wire.AppendQuote(nil, o.id)...), `}}`...)
		}
	}
	return cancelledOutcome
}
