package relay

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"strings"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

const (
	// refusedPrefix is how much of a refused line is recorded, in bytes.
	refusedPrefix = 64
	// maxComplaints is how many refused lines of a session are logged. All of them are
	// recorded.
	maxComplaints = 20
)

// errNotMCP ends a side whose protocol has no line boundaries.
var errNotMCP = errors.New("this is an HTTP/2 connection; MCP over stdio uses lines of JSON")

// line handles one result of the reader: a line to be read as a message, or one that the
// reader refused.
func (t *turn) line(l *wire.Line) error {
	switch {
	case wire.IsHTTP2Preface(l.Data):
		t.refused(l.Data, "an HTTP/2 preface")
		return errNotMCP
	case wire.IsHeader(l.Data) && !t.warnedOfHeaders.Swap(true):
		t.log.Error("lines that look like Content-Length headers: "+sideName(t.side)+" speaks the framing of a language server; MCP has one message per line", "direction", gate.Direction(t.side))
	}
	if l.Refusal == nil {
		t.message(l)
		return nil
	}
	t.refused(l.Data, l.Refusal.Reason)
	if l.ID != nil {
		t.answerRefused(l.ID, l.Refusal, !l.Answers)
	}
	return nil
}

// maxAttempts is how many daemons may end while they handle the same line.
const maxAttempts = 2

// refuseRepeated refuses a line on which that many daemons have ended, without reading it as a
// message.
func (t *turn) refuseRepeated(l *wire.Line) {
	const reason = "the daemon ended twice while it handled the line"
	seq := t.state.nextSeq(t.side) // the line may be recorded under this number, so no other line may get it
	t.add(&numbered{seq})
	if look := t.ends.Earlier; look != nil {
		var passed map[uint64]string
		t.unlocked(func() { passed, _ = look([]uint64{seq}) })
		if passed[seq] != "" {
			t.add(&ended{seq, "not_written"})
		}
	}
	t.refused(l.Data, reason)
	id, asks := wire.IDOf(l.Data)
	if id == nil {
		return
	}
	refusal := &wire.Refusal{Reason: reason, Code: mcp.CodeGate}
	if asks {
		refusal.Reason = "Not executed: " + reason
	}
	t.answerRefused(id, refusal, asks)
}

// unread refuses a line that is not one valid message, and answers the side that waits for it.
func (t *turn) unread(line []byte, err error) {
	var refusal *wire.Refusal
	if !errors.As(err, &refusal) {
		refusal = &wire.Refusal{Reason: err.Error(), Code: wire.CodeParse}
	}
	if refusal.Shapeless && t.gate.Profile() == gate.Development {
		t.complain(line, "invalid line forwarded in the development profile", "WOULD_DROP: "+refusal.Reason)
		t.pass(line, "", false, true)
		return
	}
	t.refused(line, refusal.Reason)
	if id := refusal.ID.Of(line); id != nil {
		t.answerRefused(id, refusal, refusal.Answer)
	}
	if wire.KindOf(refusal.Reason) == wire.KindBatch {
		wire.Batch(line, t.side, func(id []byte, asks bool) { t.answerRefused(id, refusal, asks) })
	}
}

// answerRefused answers a refused request, or tells the agent that the answer under id was
// refused, so that it does not wait forever. A server whose request was answered invalidly is
// told nothing: the agent may still send a valid answer.
func (t *turn) answerRefused(id []byte, refusal *wire.Refusal, asks bool) {
	key, err := wire.Key(id)
	if err != nil {
		return
	}
	if asks {
		if t.state.open[t.side][key] == nil { // otherwise it would be taken for the answer to that one
			t.queue(t.side, mcp.RefuseUnread(id, refusal.Code, refusal.Reason))
		}
		return
	}
	r := t.state.open[fromAgent][key]
	if t.side == fromAgent || r == nil || r.sent == 0 {
		return
	}
	t.add(&closed{which{fromAgent, key}})
	t.outcome(r, "lost")
	t.queue(fromAgent, mcp.RefuseUnread(r.id, mcp.CodeServerExit, "the answer was refused: "+refusal.Reason))
}

// refused logs and records a line that is not forwarded.
func (t *turn) refused(line []byte, reason string) { t.complain(line, "line refused", reason) }

// complain logs and records an invalid line.
func (t *turn) complain(line []byte, what, reason string) {
	prefix := blurred(line[:min(len(line), refusedPrefix)])
	level := slog.LevelWarn
	if t.complaints.Add(1) > maxComplaints {
		level = slog.LevelDebug
	}
	t.log.Log(context.Background(), level, what, "direction", gate.Direction(t.side), "reason", reason, "prefix", hex.EncodeToString(prefix))
	t.unlocked(func() { t.gate.Refused(t.ctx, t.side, reason, prefix) })
}

// tokenLike is the number of consecutive letters and digits that may be a secret.
const tokenLike = 16

// blurred returns a copy of the beginning of a line in which each byte of a possible token, or
// of the beginning of one, is an x. The form of the line stays visible in the log, its content
// does not.
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

func sideName(side wire.Side) string {
	if side == fromServer {
		return "a server"
	}
	return "an agent"
}
