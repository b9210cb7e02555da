package gate

import (
	"bytes"
	"fmt"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// with returns c with other arguments, which whose put in place of the agent's,
// every other byte being as it was. It is
// read as strictly as what an agent writes: the arguments must be one object, and
// what they make of the line the same call of the same thing. On an error c comes
// back as it was.
func (c *Call) with(arguments []byte, whose string) (*Call, error) {
	old := &c.Envelope
	fail := func(why any) (*Call, error) {
		return c, fmt.Errorf("the arguments that %s put in place of the agent's can't be used (%v)", whose, why)
	}
	at := wire.Edit{Span: old.Arguments, With: arguments}
	if !old.Arguments.Present() {
		if c.Method != "tools/call" && c.Method != "prompts/get" {
			return fail("the call has none")
		}
		var err error
		if at, err = wire.Set(c.Line, old.Params, "arguments", arguments); err != nil {
			return fail(err)
		}
	}
	edited := *c
	err := edited.splice(at)
	if err != nil {
		return fail(err)
	}
	e, line := &edited.Envelope, edited.Line
	if refusal := mcp.Check(c.Side, e, line); refusal != nil {
		return fail(refusal.Reason)
	}
	if edited.Subject, err = mcp.SubjectOf(e, line); err != nil {
		return fail(err)
	}
	// Text that closes the object would open members beside it.
	if !bytes.Equal(e.Arguments.Of(line), bytes.TrimSpace(arguments)) || e.Kind != old.Kind || e.Method != old.Method || edited.Subject != c.Subject {
		return fail("they are not one object")
	}
	return &edited, nil
}

// splice makes edits to c, which is another line from then on, read as strictly as any.
func (c *Call) splice(edits ...wire.Edit) error {
	line, err := wire.Splice(c.Line, edits...)
	if err == nil && len(line) > wire.MaxMessage {
		err = fmt.Errorf("it would be longer than %d bytes", wire.MaxMessage)
	}
	if err != nil {
		return err
	}
	c.Line, c.Envelope, c.spliced = line, wire.Envelope{}, true
	return wire.Read(line, c.Side, &c.Envelope)
}
