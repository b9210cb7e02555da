package gate

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// A server of the legacy era may request a completion from the agent's model. The agent may be
// unable to give one, or its owner may prefer another model. A Sampler then answers instead:
// the request is judged as usual, and if it would be forwarded to the agent, it goes to the
// Sampler. The relay sees a denial with a reply for the server. Nothing reaches the agent.

// Sampler answers servers' sampling requests in place of an agent. Its methods are safe for
// concurrent use.
type Sampler interface {
	// Who returns the name of the model that would answer c, such as notes/fast; empty: the
	// agent is asked. rule is the Answer of the ruling on c, see [Ruling.Answer]. unable
	// reports that the agent has not declared that it can answer. Who must not block.
	Who(c *Call, rule string, unable bool) string
	// Answer returns the raw result of c. It returns when ctx ends. An error goes to the log
	// and the record, and the server is told that there is no answer. It is told the error
	// itself only if that is ErrInvalid: the request is invalid.
	Answer(ctx context.Context, c *Call) ([]byte, error)
}

// Values of Ruling.Answer: who answers a sampling request.
const (
	AnswerAgent    = "agent"
	AnswerProvider = "provider"
)

const samplingMethod = "sampling/createMessage"

// mostSupplied is how many answers may be under way for one attachment.
const mostSupplied = 8

// outcomeOK is the outcome of an answered request.
const outcomeOK = "ok"

// outcome returns the outcome of a request that was not forwarded.
func (v *Verdict) outcome() string {
	if v.supplied {
		return outcomeOK
	}
	return OutcomeDenied
}

// whoAnswers determines who answers c, if c is a sampling request, and adds it to the question
// about c: an approval of an answer by the agent does not cover an answer by another model.
func (g *Gate) whoAnswers(c *Call, ruling *Ruling) {
	c.answerer = ""
	if g.Sampler == nil || c.Method != samplingMethod || c.Envelope.Kind != wire.Request || c.Side != wire.FromServer || ruling.Move == Deny {
		return
	}
	if c.answerer = g.Sampler.Who(c, ruling.Answer, c.unable); c.answerer == "" || ruling.Move != Ask {
		return
	}
	ruling.Reason += fmt.Sprintf("; the extension %s answers it in the agent's place", c.answerer)
	ruling.Basis.Rule = sha256.Sum256(slices.Concat(ruling.Basis.Rule[:], []byte(c.answerer)))
}

// supply has the Sampler answer c, in a goroutine that Close waits for.
func (a *Attachment) supply(c *Call) {
	room := func() bool {
		if a.supplying >= mostSupplied {
			return false
		}
		a.supplying++
		return true
	}
	answer := func(ctx context.Context) {
		waits := c.Trace.Begin(StageServer)
		result, err := a.gate.Sampler.Answer(ctx, c)
		c.Trace.Finish(waits)
		a.mu.Lock()
		a.supplying--
		a.mu.Unlock()
		if ctx.Err() != nil { // the server has cancelled its request, or the next daemon answers it
			a.unheld(ctx, c)
			return
		}
		a.settle(c, a.supplied(c, result, err))
	}
	if !a.holdCall(c, Verdict{Seq: c.Seq, Move: Ask, Reason: "the extension " + c.answerer + " answers it in the agent's place"}, room, answer) {
		a.settle(c, a.supplied(c, nil, fmt.Errorf("%d answers are already under way", mostSupplied)))
	}
}

// supplied returns the verdict on c that delivers its answer. The answer has been recorded and
// passed to Facts when it returns.
func (a *Attachment) supplied(c *Call, result []byte, failed error) Verdict {
	id := c.Envelope.ID.Of(c.Line)
	if len(result) > wire.MaxMessage-1024 { // room for the envelope
		failed = errors.New("the answer is too long for a message")
	}
	v := Verdict{Seq: c.Seq, Move: Deny, supplied: failed == nil, Reason: "the extension " + c.answerer + " has answered it in the agent's place"}
	r := a.about(record.KindOutcome)
	r.Call, r.ID, r.Direction, r.Method, r.MessageID = c.Seq, c.ID, Direction(wire.FromAgent), c.Method, string(id)
	r.Answerer, r.Verdict, r.LatencyUS = c.answerer, outcomeOK, time.Since(c.Received).Microseconds()
	if failed != nil {
		a.gate.Logger.Error("answer in the agent's place", "server_id", c.Server, "extension", c.answerer, "err", failed)
		r.Verdict, r.Reason = "protocol_error", failed.Error()
		v.Reason = "the extension " + c.answerer + " could not answer it"
		v.Answer = mcp.RefuseUnread(id, mcp.CodeExtension, "The model that answers in the agent's place gave no answer. Repeat the request later.")
		if errors.Is(failed, ErrInvalid) {
			v.Answer = mcp.RefuseUnread(id, mcp.CodeInvalidParams, failed.Error())
		}
	} else {
		v.Answer = fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
	}
	digest := sha256.Sum256(v.Answer)
	r.Digest = hexOf(digest)
	if err := a.gate.Recorder.Record(a.ctx, r, result, nil); err != nil {
		return a.gate.unrecorded(c, err)
	}
	a.ObserveMessage(wire.FromAgent, c.Method, v.Answer, 0)
	return v
}

// cannot remembers that the agent can't answer sampling requests, if line says so.
func (a *Attachment) cannot(line []byte) {
	var e wire.Envelope
	if wire.Read(line, wire.FromAgent, &e) != nil || e.Kind != wire.Error || e.Code != mcp.CodeUnknownMethod {
		return // or a piece of a longer line, which is no such error
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unable = true
}
