package gate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// gateExtension is the gate that records name when a hook denies.
const gateExtension = "extension"

// maxReasonBytes limits the reason that a hook gives, in bytes. More is cut off.
const maxReasonBytes = 512

// made returns the call as hooks changed it, or the ruling by which they deny it. An unusable
// change is a denial.
func (c *Call) made() (*Call, Ruling) {
	h := c.hooks
	if h.Move != Forward {
		return c, h.refusal(h.Reason)
	}
	if h.Changed == nil {
		return c, Ruling{}
	}
	var changed *Call
	var err error
	if h.about != nil {
		changed, err = c.withOutcome(h.Changed, h.names())
	} else {
		changed, err = c.withArguments(h.Changed, h.names())
	}
	if err != nil {
		return c, h.refusal(err.Error())
	}
	changed.hooks = &hooked{Hooked: h.Hooked, revision: h.revision, about: h.about, changed: true}
	changed.hooks.Changed = nil
	if h.about == nil {
		changed.notice = fmt.Sprintf("%s changed the arguments of this call before it was executed; this is the result of the changed call.", capital(h.names()))
	}
	return changed, Ruling{}
}

// weighMade judges c as hooks changed it. It returns c itself if they were not called or
// changed nothing. If they denied it, no gate is consulted.
func (g *Gate) weighMade(ctx context.Context, policy Policy, c *Call) (weighed, *Call) {
	if c.hooks == nil {
		return g.weigh(ctx, policy, c), c
	}
	made, refused := c.made()
	if refused.Move == Deny {
		return weighed{facts: c.Known, ruling: refused, shown: c}, c
	}
	return g.weigh(ctx, policy, made), made
}

// refusal returns the ruling by which the last of the called hooks denies.
func (h *hooked) refusal(reason string) Ruling {
	if len(reason) > maxReasonBytes {
		reason = strings.ToValidUTF8(reason[:maxReasonBytes], "") + "…"
	} else if !utf8.ValidString(reason) {
		reason = strings.ToValidUTF8(reason, "\uFFFD")
	}
	if reason == "" {
		reason = h.names() + " denied it"
	}
	r := Ruling{Move: Deny, Gate: gateExtension, Reason: reason, Code: mcp.CodeExtension}
	if len(h.By) > 0 {
		r.Rule = "extension " + h.By[len(h.By)-1]
	}
	return r
}

// overPerson returns the ruling on a call that a person approved with other arguments, if
// hooks do not accept those as they are.
func (h *hooked) overPerson() Ruling {
	if h.Move != Forward {
		return h.refusal(h.Reason)
	}
	return h.refusal(h.names() + " would change the arguments that a person set")
}

// names names the extensions that changed or denied something, for use within a sentence.
func (h *hooked) names() string {
	switch len(h.By) {
	case 0:
		return "an extension"
	case 1:
		return "extension " + h.By[0]
	}
	return "extensions " + strings.Join(h.By, ", ")
}

// addToRecord records which extensions changed or denied the message, and for a result the tool of
// its call.
func (h *hooked) addToRecord(r *record.Record) {
	if h == nil {
		return
	}
	r.Extensions = h.By
	if h.about != nil && r.Tool == "" {
		r.Tool = h.about.Subject
	}
}

// addToReason adds to the reason of a record what hooks did.
func (h *hooked) addToReason(reason string) string {
	if h == nil {
		return reason
	}
	var parts []string
	if reason != "" {
		parts = append(parts, reason)
	}
	if h.changed && h.about == nil {
		parts = append(parts, "with arguments changed by "+h.names())
	} else if h.changed {
		parts = append(parts, "with the result changed by "+h.names())
	}
	for _, failed := range h.Failed {
		parts = append(parts, "not called: "+failed)
	}
	return strings.Join(parts, "; ")
}

// withOutcome returns a copy of c, an answer or task notification, whose result was replaced
// by whose. Every other byte stays as it was. The new line is read as strictly as what a
// server writes.
func (c *Call) withOutcome(result []byte, whose string) (*Call, error) {
	fail := func(why error) (*Call, error) {
		return c, fmt.Errorf("the result from %s can't be used (%w)", whose, why)
	}
	value, err := c.outcome()
	if err != nil {
		return fail(err)
	}
	changed, old := *c, &c.Envelope
	if err := changed.splice(wire.Edit{Span: value, With: result}); err != nil {
		return fail(err)
	}
	e, line := &changed.Envelope, changed.Line
	e.Modern = old.Modern
	value, err = changed.outcome()
	// A value that closes the object could add members beside it.
	if trimmed := bytes.TrimSpace(result); err != nil || !bytes.Equal(value.Of(line), trimmed) || trimmed[0] != '{' ||
		e.Kind != old.Kind || e.Method != old.Method || !bytes.Equal(e.ID.Of(line), old.ID.Of(c.Line)) {
		return fail(errors.Join(errors.New("it is not one object"), err))
	}
	return &changed, nil
}

// otherVersion records the version of c that the record of its verdict does not hold: what the
// agent or the server wrote or, in development, what hooks would have made of it. Of a result
// only the digest is kept.
func (g *Gate) otherVersion(ctx context.Context, policy Policy, c, made *Call, redact []string) error {
	other := c
	if c.Profile == Development {
		other = made
	}
	said := "the agent sent"
	if c.Side == wire.FromServer {
		said = "the server sent"
	}
	r := other.record(policy, nil, Ruling{Gate: gateExtension, Reason: "as " + said + " it"})
	if r.Kind, r.Verdict = record.KindHook, "changed"; c.Profile == Development {
		r.Verdict, r.Would, r.Reason = "", wouldRedact, "as "+made.hooks.names()+" would have changed it"
	}
	if other.Envelope.Kind == wire.Request {
		return g.record(ctx, other, r, redact)
	}
	return g.Recorder.Record(ctx, r, nil, redact)
}

// withArguments returns a copy of c whose arguments were replaced by whose. Every other byte stays as
// it was. The new line is read as strictly as what an agent writes: the arguments must be one
// object, and the line must still be the same call of the same subject. On an error, with
// returns c unchanged.
func (c *Call) withArguments(arguments []byte, whose string) (*Call, error) {
	old := &c.Envelope
	fail := func(why any) (*Call, error) {
		return c, fmt.Errorf("the arguments from %s can't be used (%v)", whose, why)
	}
	at := wire.Edit{Span: old.Arguments, With: arguments}
	if !old.Arguments.Present() {
		if c.Method != "tools/call" && c.Method != "prompts/get" {
			return fail("the call takes no arguments")
		}
		var err error
		if at, err = wire.Set(c.Line, old.Params, "arguments", arguments); err != nil {
			return fail(err)
		}
	}
	edited := *c
	edited.canary.known = false
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
	// A value that closes the object could add members beside it.
	if !bytes.Equal(e.Arguments.Of(line), bytes.TrimSpace(arguments)) || e.Kind != old.Kind || e.Method != old.Method || edited.Subject != c.Subject {
		return fail("they are not one object")
	}
	return &edited, nil
}

// splice applies edits to the line of c, and reads the new line as strictly as any.
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
