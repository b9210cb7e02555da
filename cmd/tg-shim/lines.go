package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// refusedPrefix is how much of a refused line goes into the record.
const refusedPrefix = 64

// maxComplaints is how many refused lines are told on standard error, which an
// agent may keep or show. All of them reach the daemon.
const maxComplaints = 20

// errNotMCP ends a peer that speaks something of which no line can be told
// from the next.
var errNotMCP = errors.New("these bytes open an HTTP/2 connection; an MCP server is spoken to in lines of JSON")

// line handles what the reader yields: a line to be read as a message, or one
// that the reader itself has refused.
func (p *proxy) line(ctx context.Context, side wire.Side, l *wire.Line) error {
	switch {
	case wire.IsHTTP2Preface(l.Data):
		p.refused(side, l.Data, "an HTTP/2 preface")
		p.log.Error(errNotMCP.Error(), "direction", directionName(side))
		return errNotMCP
	case wire.IsHeader(l.Data) && !p.toldOfHeaders.Swap(true):
		p.log.Error("lines that look like Content-Length headers: "+sideName(side)+" speaks the framing of a language server; MCP has one message per line", "direction", directionName(side))
	}
	if l.Refusal == nil {
		return p.message(ctx, side, l)
	}
	p.refused(side, l.Data, l.Refusal.Reason)
	if l.ID != nil {
		p.tellOfRefusal(side, l.ID, l.Refusal, !l.Answers)
	}
	return nil
}

// unread refuses a line that is not one message, and tells whoever waits for it.
func (p *proxy) unread(side wire.Side, line []byte, err error) error {
	var refusal *wire.Refusal
	if !errors.As(err, &refusal) {
		refusal = &wire.Refusal{Reason: err.Error(), Code: wire.CodeParse}
	}
	if refusal.Shapeless && p.profile == pb.Profile_PROFILE_DEVELOPMENT {
		p.tellOfLine(side, line, "line forwarded that production would drop", "WOULD_DROP: "+refusal.Reason)
		return p.pass(side, line, &pb.Observe{Unrecorded: true})
	}
	p.refused(side, line, refusal.Reason)
	if id := refusal.ID.Of(line); id != nil {
		p.tellOfRefusal(side, id, refusal, refusal.Answer)
	}
	if wire.KindOf(refusal.Reason) == wire.KindBatch {
		wire.Batch(line, side, func(id []byte, asks bool) { p.tellOfRefusal(side, id, refusal, asks) })
	}
	return nil
}

// tellOfRefusal answers a refused request, or tells the agent that the answer
// under id was refused: it must not wait for ever. A server that asked is told
// nothing: the agent may still answer as it should.
func (p *proxy) tellOfRefusal(side wire.Side, id []byte, refusal *wire.Refusal, asks bool) {
	key, err := wire.Key(id)
	if err != nil {
		return
	}
	if asks {
		if p.ledger.find(side, key) == nil { // else it would be read as the answer to that one
			p.back(side).reply(mcp.RefuseUnread(id, refusal.Code, refusal.Reason))
		}
		return
	}
	if side == wire.FromAgent {
		return
	}
	if r, ok := p.ledger.settle(wire.FromAgent, key); ok {
		p.onward(side).insert(mcp.RefuseUnread(r.id, mcp.CodeServerExit, "the answer was refused: "+refusal.Reason))
		p.outcome(r, pb.Outcome_OUTCOME_LOST)
	}
}

// refused logs and records a line that does not cross.
func (p *proxy) refused(side wire.Side, line []byte, reason string) {
	p.tellOfLine(side, line, "line refused", reason)
}

// tellOfLine logs and records what became of a line that is no message.
func (p *proxy) tellOfLine(side wire.Side, line []byte, what, reason string) {
	prefix := blurred(line[:min(len(line), refusedPrefix)])
	level := slog.LevelWarn
	if p.complaints.Add(1) > maxComplaints {
		level = slog.LevelDebug
	}
	p.log.Log(context.Background(), level, what, "direction", directionName(side), "reason", reason, "prefix", hex.EncodeToString(prefix))
	p.link.observe(&pb.Observe{Direction: direction(side), Refused: reason, Line: prefix})
}

// tokenLike is how many letters and digits in a row may be a secret.
const tokenLike = 16

// blurred returns a copy of the beginning of a line with an x for each byte of what
// may be a token, or the beginning of one: what was refused is still told by its
// form, and what it held is in no log.
func blurred(prefix []byte) []byte {
	out := bytes.Clone(prefix)
	start := 0
	for i := 0; i <= len(out); i++ {
		if i < len(out) && inToken(out[i]) {
			continue
		}
		if i-start >= tokenLike || i == len(out) {
			for j := start; j < i; j++ {
				out[j] = 'x'
			}
		}
		start = i + 1
	}
	return out
}

func inToken(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b >= 0x80 || strings.IndexByte("_-+/=.~%", b) >= 0
}

func directionName(side wire.Side) string {
	if side == wire.FromServer {
		return "server_to_agent"
	}
	return "agent_to_server"
}

func sideName(side wire.Side) string {
	if side == wire.FromServer {
		return "a server"
	}
	return "an agent"
}
