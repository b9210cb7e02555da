package gate

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// putCall is put with what is kept of the call that c is.
//
// Every call has a record of its own. Of what nobody waits for, unknown notifications
// and what a server asks and is refused, only so many in a time have one; the others
// are counted, and one record tells how many they were.
func (g *Gate) putCall(ctx context.Context, c *Call, r *record.Record, redact []string) error {
	if c.isIdle(r) {
		may, left := c.from.idle.take(time.Now())
		c.from.writeLeft(ctx, left, idleLeft)
		if !may {
			return nil
		}
	}
	if err := g.record(ctx, c, r, redact); err != nil {
		return err
	}
	g.say(ctx, c, r)
	return nil
}

// record writes r down with what is kept of the call that c is.
func (g *Gate) record(ctx context.Context, c *Call, r *record.Record, redact []string) error {
	values, areParams := c.values()
	if areParams {
		ctx = ofParams(ctx)
	}
	return g.Recorder.Record(ctx, r, values, c.inValues(redact, areParams))
}

// put writes a verdict on c down and tells it in the daemon's log.
func (g *Gate) put(ctx context.Context, c *Call, r *record.Record, values []byte, redact []string) error {
	if err := g.Recorder.Record(ctx, r, values, redact); err != nil {
		return err
	}
	g.say(ctx, c, r)
	return nil
}

// isIdle reports whether the verdict r on c is one on which nobody waits.
func (c *Call) isIdle(r *record.Record) bool {
	switch c.Envelope.Kind {
	case wire.Notification:
		return mcp.Lookup(c.Side, &c.Envelope).Unknown
	case wire.Request:
		return c.Side == wire.FromServer && r.Verdict == "deny"
	}
	return false
}

// say tells a verdict in the daemon's log, with the fields that NFR-002 names: what
// goes through as it should for who looks for faults, what does not for everybody.
// The arguments of a call are in none of them.
func (g *Gate) say(ctx context.Context, c *Call, r *record.Record) {
	level, said, decision := slog.LevelInfo, "not forwarded", r.Verdict
	switch {
	case r.Would != "":
		level, said, decision = slog.LevelWarn, "development profile forwards", r.Would
	case r.Verdict == "forward":
		level, said = slog.LevelDebug, "forwarded"
	case r.Verdict == "hold":
		said = "held for a person"
	}
	if !g.Logger.Enabled(ctx, level) {
		return
	}
	left := uint64(0)
	if level > slog.LevelDebug {
		may := false
		if may, left = c.from.spoken.take(time.Now()); !may {
			return
		}
	}
	attrs := []slog.Attr{slog.String("server_id", r.Server), slog.String("direction", r.Direction), slog.String("method", r.Method)}
	add := func(all ...slog.Attr) {
		for _, a := range all {
			if a.Value.Kind() != slog.KindString || a.Value.String() != "" {
				attrs = append(attrs, a)
			}
		}
	}
	add(slog.String("tool", r.Tool), slog.String("message_id", strings.Trim(r.MessageID, `"`)),
		slog.String("governance_decision", decision), slog.String("profile", r.Profile), slog.Int64("latency_us", r.LatencyUS),
		slog.String("policy_reason", r.Reason), slog.String("gate", r.Gate), slog.String("session", r.Session),
		slog.String("agent", r.Agent), slog.String("call", r.ID), slog.String("approval", r.Approval))
	if r.Forwarded {
		add(slog.Bool("forwarded", true))
	}
	if left > 0 { // of this attachment, since more than a few a minute help nobody
		add(slog.Uint64("left_out", left))
	}
	g.Logger.LogAttrs(ctx, level, said, attrs...)
}
