package sampling

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/offer"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/protocol"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/provider"
	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// client calls an extension's tools for one answer, as an agent with its tg-shim would: the
// gate judges the calls and sees the results. It is for one goroutine.
type client struct {
	gate     *gate.Gate
	a        *gate.Attachment
	server   *offer.Member
	verdicts chan gate.Verdict
	answers  chan []byte
	seq      uint64
}

// pieces is the capacity for verdicts and answers of a client. It has one request pending at a
// time, which gets only a few of them.
const pieces = 64

// attach attaches to the tools of o, for an answer to c.
func (a *Answerer) attach(ctx context.Context, c *gate.Call, o Offer) (*client, error) {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return nil, err
	}
	cl := &client{gate: a.Gate, verdicts: make(chan gate.Verdict, pieces), answers: make(chan []byte, pieces)}
	cl.a = a.Gate.Attach(ctx, gate.Shim{
		Attachment: hex.EncodeToString(id[:]), Session: c.Session, Agent: c.Agent, Project: c.Project, Cwd: c.Cwd,
		Server: offer.ID(o.Name), Launch: offer.Launch(o.Name), Command: offer.Command(o.Name),
		Patience: longest, Limit: c.Limit, Requested: c.Profile,
	}, nil)
	cl.a.Bind(func(v gate.Verdict) { put(cl.verdicts, v) })
	cl.server = offer.NewServer(o.Name, o.Extension).Join(func(line []byte) { put(cl.answers, append([]byte(nil), line...)) })
	return cl, nil
}

// put sends v unless the channel is full. A full channel means that more arrived than was
// requested.
func put[T any](to chan T, v T) {
	select {
	case to <- v:
	default:
	}
}

// close detaches from the tools and discards the facts of a client without a session.
func (c *client) close() {
	c.server.Leave()
	c.a.Close(true)
	if s := c.a.Shim(); s.Session == "" {
		c.gate.Facts.Forget("", s.Attachment)
	}
}

// list returns the tools that the agent could see.
func (c *client) list(ctx context.Context) ([]provider.Tool, error) {
	line, err := c.ask(ctx, []byte(`{"jsonrpc":"2.0","id":0,"method":"tools/list"}`))
	if err != nil {
		return nil, err
	}
	c.seq++
	v, err := c.submit(ctx, gate.Submission{Seq: c.seq, Side: wire.FromServer, Line: line, Answers: "tools/list"})
	if err != nil {
		return nil, err
	}
	if v.Move != gate.Forward {
		return nil, fmt.Errorf("the list was denied: %s", v.Reason)
	}
	listed := rawjson.Read(v.Line)
	var tools []provider.Tool
	for _, t := range listed.Object("result").Objects("tools") {
		tools = append(tools, provider.Tool{Name: t.Text("name"), Description: t.OptionalText("description"), InputSchema: t.Get("inputSchema")})
	}
	return tools, listed.Err()
}

// call calls a tool if the gate forwards the call.
func (c *client) call(ctx context.Context, name string, input []byte) (text string, failed bool) {
	c.seq++
	seq := c.seq
	line := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%s,"arguments":%s}}`, seq, wire.AppendQuote(nil, name), input)
	v, err := c.submit(ctx, gate.Submission{Seq: seq, Side: wire.FromAgent, Line: line})
	if err != nil {
		return "Not executed. " + err.Error(), true
	}
	if v.Move != gate.Forward {
		text, _ = said(v.Answer)
		return text, true
	}
	answer, err := c.ask(ctx, v.Line)
	if err != nil {
		c.a.RecordOutcome(context.WithoutCancel(ctx), seq, "cancelled")
		return "Tool execution failed: " + err.Error(), true
	}
	text, outcome := said(answer)
	c.a.RecordOutcome(ctx, seq, outcome)
	if !v.Inspect {
		c.a.ObserveMessage(wire.FromServer, "tools/call", answer, 0)
	} else if answer, err = c.inspect(ctx, answer, v.Line, seq); err != nil {
		return "Tool execution failed: " + err.Error(), true
	} else {
		text, outcome = said(answer)
	}
	if v.Notice != "" {
		text = v.Notice + "\n" + text
	}
	return text, outcome != "ok"
}

// inspect has extensions inspect the answer to the call with a number, and returns the answer
// as they leave it.
func (c *client) inspect(ctx context.Context, answer, written []byte, call uint64) ([]byte, error) {
	c.seq++
	v, err := c.submit(ctx, gate.Submission{Seq: c.seq, Side: wire.FromServer, Line: answer, Answers: "tools/call", Call: call, Request: written})
	switch {
	case err != nil:
		return nil, err
	case v.Move != gate.Forward:
		return v.Answer, nil
	}
	return v.Line, nil
}

// submit submits a message to the gate and returns the final verdict.
func (c *client) submit(ctx context.Context, s gate.Submission) (gate.Verdict, error) {
	c.a.Submit(s)
	for {
		select {
		case v := <-c.verdicts:
			if v.Seq == s.Seq && v.Move != gate.Ask {
				return v, nil
			}
		case <-ctx.Done():
			c.a.Cancel(s.Seq)
			return gate.Verdict{}, context.Cause(ctx)
		}
	}
}

// ask sends a request to the extension's server and returns the line that answers it.
func (c *client) ask(ctx context.Context, line []byte) ([]byte, error) {
	var asked wire.Envelope
	if err := wire.Read(line, wire.FromAgent, &asked); err != nil {
		return nil, err
	}
	if err := c.server.Write(ctx, line); err != nil {
		return nil, err
	}
	for {
		select {
		case answer := <-c.answers:
			var e wire.Envelope
			if err := wire.Read(answer, wire.FromServer, &e); err != nil {
				return nil, fmt.Errorf("the extension's answer can't be read: %w", err)
			}
			if e.Kind != wire.Notification && e.Key(answer) == asked.Key(line) {
				return answer, nil
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx) // close ends the call
		}
	}
}

// said returns what a model is told of the answer to a call, and its outcome for the record.
func said(line []byte) (text, outcome string) {
	o := rawjson.Read(line)
	result := o.Object("result")
	text, outcome = textOf(result), "ok"
	switch {
	case o.Get("error") != nil:
		text, outcome = o.Object("error").OptionalText("message"), "protocol_error"
	case result.True("isError"):
		outcome = "tool_error"
	}
	if err := o.Err(); err != nil {
		return "Not executed: " + err.Error(), "protocol_error"
	}
	return text, outcome
}

// box holds the extension tools that a model may use for one answer.
type box struct {
	clients []*client
	tools   map[string]*client // by the name of the tool
}

// open offers r the tools that match globs, as far as the agent itself could see them. A tool
// whose name is taken is left out.
func (a *Answerer) open(ctx context.Context, c *gate.Call, globs []config.Glob, r *request) (*box, error) {
	b := &box{tools: map[string]*client{}}
	if len(globs) == 0 || r.required {
		return b, nil
	}
	for _, o := range a.Extensions.Offers() {
		named := func(t string) bool {
			return slices.ContainsFunc(globs, func(g config.Glob) bool { return g.Match(o.Name + "/" + t) })
		}
		if !slices.ContainsFunc(o.Tools(), func(t protocol.Tool) bool { return named(t.Name) }) {
			continue
		}
		cl, err := a.attach(ctx, c, o)
		if err != nil {
			b.close()
			return nil, fmt.Errorf("attach to the tools of %s: %w", o.Name, err)
		}
		b.clients = append(b.clients, cl)
		tools, err := cl.list(ctx)
		if err != nil {
			b.close()
			return nil, fmt.Errorf("list the tools of %s: %w", o.Name, err)
		}
		for _, t := range tools {
			switch {
			case !named(t.Name):
			case b.tools[t.Name] != nil || slices.Contains(r.theirs, t.Name):
				a.Logger.Warn("a tool is left out because another one has its name", "extension", o.Name, "tool", t.Name)
			default:
				b.tools[t.Name] = cl
				r.Tools = append(r.Tools, t)
			}
		}
	}
	return b, nil
}

// Call implements provider.Tools.
func (b *box) Call(ctx context.Context, name string, input []byte) (string, bool) {
	return b.tools[name].call(ctx, name, input)
}

var _ provider.Tools = (*box)(nil)

func (b *box) close() {
	for _, c := range b.clients {
		c.close()
	}
}
