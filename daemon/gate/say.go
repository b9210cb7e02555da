package gate

import (
	"context"
	"errors"
	"fmt"
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
		may, left := c.idle.take(time.Now())
		if left > 0 {
			g.tellLeft(ctx, r, left)
		}
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

// tellLeft writes down how many verdicts have no record of their own, if there are any.
// Of r only who it is about counts.
func (g *Gate) tellLeft(ctx context.Context, r *record.Record, left uint64) {
	if left == 0 {
		return
	}
	told := record.Record{
		Kind: record.KindRefused, Attachment: r.Attachment, Session: r.Session, Agent: r.Agent, Server: r.Server, Launch: r.Launch, Profile: r.Profile,
		Reason: fmt.Sprintf("%d more unknown notifications, and requests of the server that were refused, have no record of their own", left),
	}
	if err := g.Recorder.Record(ctx, &told, nil, nil); err != nil && !errors.Is(err, context.Canceled) {
		g.Logger.Error("record", "kind", told.Kind, "server_id", told.Server, "err", err)
	}
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
		if may, left = c.spoken.take(time.Now()); !may {
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
