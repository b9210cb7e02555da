package gate

import (
	"bytes"
	"fmt"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// with returns c with other arguments, every other byte being as it was. It is
// read as strictly as what an agent writes: the arguments must be one object, and
// what they make of the line the same call of the same thing. On an error c comes
// back as it was.
func (c *Call) with(arguments []byte) (*Call, error) {
	old := &c.Envelope
	fail := func(why any) (*Call, error) {
		return c, fmt.Errorf("the arguments that a person put in place of the agent's can't be used (%v)", why)
	}
	if !old.Arguments.Present() {
		return fail("the call has none")
	}
	line, err := wire.Splice(c.Line, wire.Edit{Span: old.Arguments, With: arguments})
	if err != nil {
		return fail(err)
	}
	edited := *c
	edited.Line, edited.Envelope = line, wire.Envelope{}
	e := &edited.Envelope
	if err := wire.Read(line, c.Side, e); err != nil {
		return fail(err)
	}
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
