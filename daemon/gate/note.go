package gate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Counts returns how many calls were judged, how many of them were denied, and how many are
// held now.
func (a *Attachment) Counts() (judged, denied uint64, held int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.judged, a.denied, len(a.held)
}

// CloseCall reports that a call has ended: it is no longer open, and its subscription ends.
// Outcome does this too; Ended is for callers that report the outcome later.
func (a *Attachment) CloseCall(seq uint64, outcome string) {
	if outcome == OutcomeCancelled { // the server may continue with it for a while
		time.AfterFunc(judgeTimeout, func() { a.notOpen(seq) })
	} else {
		a.notOpen(seq)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shown.ended(func(l *listen) bool { return l.seq == seq })
}

// RecordOutcome records how a judged call ended. A failure to write is only logged: there is nothing
// left to deny.
func (a *Attachment) RecordOutcome(ctx context.Context, seq uint64, outcome string) {
	a.CloseCall(seq, outcome)
	a.mu.Lock()
	d, ok := a.done[seq]
	t := d.trace
	if t != nil && d.inspect && (outcome == "ok" || outcome == "tool_error") {
		t = nil // it ends with the hooks' verdict on the result, which is submitted next
	} else if ok {
		d.trace = nil
	}
	native := d.native
	if d.native = false; ok {
		a.done[seq] = d
	}
	late := a.silence.orphans[seq]
	delete(a.silence.orphans, seq)
	a.mu.Unlock()
	r := a.about(record.KindOutcome)
	r.Call, r.Verdict = seq, outcome
	if late {
		r.Reason = lateAnswer
	}
	if native {
		nativeOutcome(r)
	}
	if ok {
		r.ID, r.Method, r.Tool, r.Profile = d.id, d.method, d.subject, string(d.profile)
		r.LatencyUS = time.Since(d.at).Microseconds()
	} else {
		r.ID = correlation(a.shim.Attachment, seq)
	}
	a.write(WithReportOnly(ctx), r, nil) // the next submission waits for this
	a.gate.finishTrace(t, outcome)
}

// observe passes a server's line that is judged to Facts: its requests, and results that are
// inspected. An agent's line is remembered when its facts are determined.
func (g *Gate) observe(c *Call) {
	if c.Side == wire.FromServer && !c.heard {
		g.Facts.Observe(&Observation{
			Session: c.Session, Attachment: c.Attachment, Server: c.Server, Profile: c.inForce(g.Policy()), Side: c.Side, Method: c.Method, Text: c.Line,
		})
	}
}

// remember passes a message that a previous daemon has judged to Facts, whose memory does not
// survive a restart.
func (g *Gate) remember(ctx context.Context, c *Call, move Move) {
	g.observe(c)
	if c.carriesAsks() {
		return
	}
	g.factsOf(ctx, c)
	if move == Forward && c.Side == wire.FromAgent {
		g.Facts.Forwarded(c)
	}
}

// ObserveMessage passes an unjudged message to Facts, before it is forwarded. line is the whole line or
// a piece of it; missing is the number of its bytes that are in no piece.
func (a *Attachment) ObserveMessage(side wire.Side, method string, line []byte, missing uint64) {
	if method == "notifications/subscriptions/acknowledged" && side == wire.FromServer {
		var e wire.Envelope
		if wire.Read(line, side, &e) == nil { // a piece of a line does not parse
			a.learn(method, &e, line)
		}
	}
	if method == samplingMethod && side == wire.FromAgent {
		a.cannot(line)
	}
	a.gate.Facts.Observe(&Observation{
		Session: a.shim.Session, Attachment: a.shim.Attachment, Server: a.shim.Server, Profile: a.Profile(),
		Side: side, Method: method, Text: line, Missing: missing,
	})
}

// RecordMessage records a message that passed without being judged.
func (a *Attachment) RecordMessage(ctx context.Context, side wire.Side, method string, line []byte) {
	if list := mcp.ListChanged(method); list != "" && side == wire.FromServer && a.gate.Pins != nil {
		a.gate.Pins.Relist(a.shim.Attachment, list)
	}
	var e wire.Envelope
	err := wire.Read(line, side, &e)
	if err == nil {
		a.learn(method, &e, line)
	}
	if err == nil && method == "server/discover" && e.Kind == wire.Result {
		a.mu.Lock()
		a.revisions = mcp.Supported(&e, line)
		a.mu.Unlock()
	}
	if !a.mayNote(ctx) {
		return
	}
	r := a.about(record.KindMessage)
	r.Direction, r.Method = Direction(side), method
	var values []byte
	if err == nil {
		r.MessageID = string(e.ID.Of(line))
		values = e.Params.Of(line)
		if e.Kind == wire.Result {
			values = e.Result.Of(line)
		}
	}
	a.write(ctx, r, values)
}

// CountMessages counts messages, or answers to a method, that the relay has read from a side.
func (a *Attachment) CountMessages(side wire.Side, method string, n uint64) {
	a.meter.Messages(side, method, n)
}

// wouldDrop precedes the reason of a line that only the development profile passes.
const wouldDrop = "WOULD_DROP: "

// Refused records a line that the relay's strict reader refused, or passed in development.
func (a *Attachment) Refused(ctx context.Context, side wire.Side, reason string, prefix []byte) {
	reason, passed := strings.CutPrefix(reason, wouldDrop)
	if !passed {
		a.meter.Refused(wire.KindOf(reason))
	}
	if !a.mayNote(ctx) {
		return
	}
	r := a.about(record.KindRefused)
	r.Direction, r.Reason, r.Verdict = Direction(side), reason, record.Deny
	if passed {
		r.Verdict = record.Forward
		would(r, strings.TrimSuffix(wouldDrop, ": "))
	}
	r.Digest = fmt.Sprintf("prefix:%x", prefix)
	a.write(ctx, r, nil)
}

// mayNote reports whether one more note may be recorded now. Omitted notes are counted, and
// the count is recorded before the next note.
func (a *Attachment) mayNote(ctx context.Context) bool {
	may, left := a.notes.take(time.Now())
	a.writeLeft(ctx, left, "messages that passed or were refused are not recorded")
	return may
}

// idleLeft describes the unrecorded verdicts that nobody waits for.
const idleLeft = "unknown notifications and denied requests of the server are not recorded one by one"

// writeLeft records that what holds for n more, if n is not 0.
func (a *Attachment) writeLeft(ctx context.Context, n uint64, what string) {
	if n > 0 {
		r := a.about(record.KindRefused)
		r.Reason = fmt.Sprintf("%d more %s", n, what)
		a.write(ctx, r, nil)
	}
}

// spare are records for reuse: one takes most of a kilobyte, and an outcome follows every
// call.
var spare = sync.Pool{New: func() any { return new(record.Record) }}

// about returns a new record for write.
func (a *Attachment) about(kind record.Kind) *record.Record {
	r := spare.Get().(*record.Record)
	*r = record.Record{
		Kind: kind, Attachment: a.shim.Attachment, Session: a.shim.Session, Agent: a.shim.Agent,
		Server: a.shim.Server, Launch: a.shim.Launch, Profile: string(a.Profile()),
	}
	return r
}

// write writes a record that about returned. r must not be used afterwards.
func (a *Attachment) write(ctx context.Context, r *record.Record, values []byte) {
	defer spare.Put(r)
	if err := a.gate.Recorder.Record(ctx, r, values, nil); err != nil && !errors.Is(err, context.Canceled) {
		a.gate.Logger.Error("record", "kind", r.Kind, "server_id", r.Server, "err", err)
	}
}

// correlation returns the name of a call in denials, questions and records.
func correlation(attachment string, seq uint64) string {
	if len(attachment) > 8 {
		attachment = attachment[:8]
	}
	id := append(make([]byte, 0, 32), "c-"...) // enough for any id
	id = append(append(id, attachment...), '-')
	return string(strconv.AppendUint(id, seq, 10))
}

// Unjudged messages are recorded as they arrive, and verdicts are logged, but both are
// limited: a peer that writes nonsense as fast as it can must not fill the disk.
const (
	notesInARow = 200
	notesRefill = time.Minute
)

// allowance limits what one attachment may have written per notesRefill.
type allowance struct {
	mu    sync.Mutex // guards the fields below
	taken int
	since time.Time
	left  uint64 // number not written
}

// rest returns how many were not written since the last one that was, and resets that count.
func (a *allowance) rest() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	left := a.left
	a.left = 0
	return left
}

// take reports whether one more may be written now, and how many were not written since the
// last one that was.
func (a *allowance) take(now time.Time) (may bool, left uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Sub(a.since) > notesRefill {
		a.since, a.taken = now, 0
	}
	a.taken++
	if a.taken > notesInARow {
		a.left++
		return false, 0
	}
	left, a.left = a.left, 0
	return true, left
}

// putCall records a verdict on c, with what is kept of c, and logs it.
//
// Every call has its own record. Unknown notifications and denied requests of a server, which
// nobody waits for, are rate limited: the others are counted, and one record holds their
// number.
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
	g.logVerdict(ctx, c, r)
	return nil
}

// record writes r with what is kept of c.
func (g *Gate) record(ctx context.Context, c *Call, r *record.Record, redact []string) error {
	values, areParams := c.values()
	if areParams {
		ctx = ofParams(ctx)
	}
	return g.Recorder.Record(ctx, r, values, c.inValues(redact, areParams))
}

// isIdle reports whether nobody waits for the verdict r on c.
func (c *Call) isIdle(r *record.Record) bool {
	switch c.Envelope.Kind {
	case wire.Notification:
		return mcp.Lookup(c.Side, &c.Envelope).Unknown
	case wire.Request:
		return c.Side == wire.FromServer && r.Verdict == record.Deny
	}
	return false
}

// logVerdict logs a verdict, with the fields that NFR-002 names: forwarded calls at debug level,
// everything else at a higher one. The arguments of a call are never logged.
func (g *Gate) logVerdict(ctx context.Context, c *Call, r *record.Record) {
	level, said, decision := slog.LevelInfo, "not forwarded", r.Verdict
	switch {
	case r.Would != "":
		level, said, decision = slog.LevelWarn, "forwarded in the development profile", r.Would
	case r.Verdict == record.Forward:
		level, said = slog.LevelDebug, "forwarded"
	case r.Verdict == record.Hold:
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
	if left > 0 { // count per attachment, because more than a few lines a minute help nobody
		add(slog.Uint64("left_out", left))
	}
	g.Logger.LogAttrs(ctx, level, said, attrs...)
}
