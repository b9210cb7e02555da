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

// Counts returns how many calls were judged, how many of them denied, and how
// many are held now.
func (a *Attachment) Counts() (judged, denied uint64, held int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.judged, a.denied, len(a.held)
}

// Ended takes note that a call has come to its end: what it listened to is over. Outcome
// does so, too; Ended is for who tells the outcome only later.
func (a *Attachment) Ended(seq uint64, outcome string) {
	if outcome == OutcomeCancelled { // the server may go on with it for a while
		time.AfterFunc(longestJudging, func() { a.notOpen(seq) })
	} else {
		a.notOpen(seq)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shown.ended(func(l *listen) bool { return l.seq == seq })
}

// Outcome writes down what became of a call that was judged. A failure to
// write is logged: there is nothing left to refuse.
func (a *Attachment) Outcome(ctx context.Context, seq uint64, outcome string) {
	a.Ended(seq, outcome)
	a.mu.Lock()
	d, ok := a.done[seq]
	t := d.trace
	if t != nil && d.inspect && (outcome == "ok" || outcome == "tool_error") {
		t = nil // it ends with what hooks make of the result, which is submitted next
	} else if ok {
		d.trace = nil
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
	if ok {
		r.ID, r.Method, r.Tool, r.Profile = d.id, d.method, d.subject, string(d.profile)
		r.LatencyUS = time.Since(d.at).Microseconds()
	} else {
		r.ID = correlation(a.shim.Attachment, seq)
	}
	a.write(Telling(ctx), r, nil) // the next submission is read behind it
	a.gate.over(t, outcome)
}

// observe takes note of what a server says in a line that it wants judged: its
// questions, and results that are looked into. What the agent says is taken note
// of when its facts are asked for.
func (g *Gate) observe(c *Call) {
	if c.Side == wire.FromServer && !c.heard {
		g.Facts.Observe(&Message{
			Session: c.Session, Attachment: c.Attachment, Server: c.Server, Profile: c.inForce(g.Policy()), Side: c.Side, Method: c.Method, Text: c.Line,
		})
	}
}

// remember takes note of a message that an earlier daemon has judged: its memory
// has not survived it.
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

// Hear takes note of what passes unjudged, before it is forwarded: line or a
// piece of it, of which missing bytes are in no piece.
func (a *Attachment) Hear(side wire.Side, method string, line []byte, missing uint64) {
	if method == "notifications/subscriptions/acknowledged" && side == wire.FromServer {
		var e wire.Envelope
		if wire.Read(line, side, &e) == nil { // a piece of a line is none
			a.learn(method, &e, line)
		}
	}
	if method == samplingMethod && side == wire.FromAgent {
		a.cannot(line)
	}
	a.gate.Facts.Observe(&Message{
		Session: a.shim.Session, Attachment: a.shim.Attachment, Server: a.shim.Server, Profile: a.Profile(),
		Side: side, Method: method, Text: line, Missing: missing,
	})
}

// Message writes down a message that passed unjudged.
func (a *Attachment) Message(ctx context.Context, side wire.Side, method string, line []byte) {
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

// Read takes note of how many messages or answers to a method the relay has read
// from a side.
func (a *Attachment) Read(side wire.Side, method string, n uint64) { a.meter.Messages(side, method, n) }

// wouldDrop stands before the reason of a line that the development profile lets
// pass.
const wouldDrop = "WOULD_DROP: "

// Refused writes down a line that the relay's strict reader refused, or in development
// let pass.
func (a *Attachment) Refused(ctx context.Context, side wire.Side, reason string, prefix []byte) {
	reason, passed := strings.CutPrefix(reason, wouldDrop)
	if !passed {
		a.meter.Refused(wire.KindOf(reason))
	}
	if !a.mayNote(ctx) {
		return
	}
	r := a.about(record.KindRefused)
	r.Direction, r.Reason, r.Verdict = Direction(side), reason, "deny"
	if passed {
		r.Verdict = "forward"
		would(r, strings.TrimSuffix(wouldDrop, ": "))
	}
	r.Digest = fmt.Sprintf("prefix:%x", prefix)
	a.write(ctx, r, nil)
}

// mayNote reports whether one more note may be written now. What was left out
// is written down as a number, with the first note that may be written again.
func (a *Attachment) mayNote(ctx context.Context) bool {
	may, left := a.notes.take(time.Now())
	a.writeLeft(ctx, left, "messages that passed or were refused are not on record")
	return may
}

// idleLeft is what is said of verdicts on which nobody waits and that are not on record.
const idleLeft = "unknown notifications, and requests of the server that were refused, have no record of their own"

// writeLeft writes down of how many more something holds, if there are any.
func (a *Attachment) writeLeft(ctx context.Context, n uint64, what string) {
	if n > 0 {
		r := a.about(record.KindRefused)
		r.Reason = fmt.Sprintf("%d more %s", n, what)
		a.write(ctx, r, nil)
	}
}

// spare are records to be used again: one is the better part of a kilobyte, and an
// outcome follows on every call.
var spare = sync.Pool{New: func() any { return new(record.Record) }}

// about begins a record, for write.
func (a *Attachment) about(kind record.Kind) *record.Record {
	r := spare.Get().(*record.Record)
	*r = record.Record{
		Kind: kind, Attachment: a.shim.Attachment, Session: a.shim.Session, Agent: a.shim.Agent,
		Server: a.shim.Server, Launch: a.shim.Launch, Profile: string(a.Profile()),
	}
	return r
}

// write writes a record of about down, which is not to be used any more.
func (a *Attachment) write(ctx context.Context, r *record.Record, values []byte) {
	defer spare.Put(r)
	if err := a.gate.Recorder.Record(ctx, r, values, nil); err != nil && !errors.Is(err, context.Canceled) {
		a.gate.Logger.Error("record", "kind", r.Kind, "server_id", r.Server, "err", err)
	}
}

// correlation names a call in refusals, questions and records alike.
func correlation(attachment string, seq uint64) string {
	if len(attachment) > 8 {
		attachment = attachment[:8]
	}
	id := append(make([]byte, 0, 32), "c-"...) // enough for any
	id = append(append(id, attachment...), '-')
	return string(strconv.AppendUint(id, seq, 10))
}

// What passes or is refused unjudged is written down as it comes, and verdicts
// are told in the daemon's log, but neither without end: a peer that writes nonsense
// as fast as it can must not fill the disk with it.
const (
	notesInARow = 200
	notesRefill = time.Minute
)

// allowance is how much one attachment may have written in a time.
type allowance struct {
	mu    sync.Mutex // guards what follows
	taken int
	since time.Time
	left  uint64 // was not written
}

// rest returns how many were not written since the last that was, and forgets them.
func (a *allowance) rest() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	left := a.left
	a.left = 0
	return left
}

// take reports whether one more may be written now, and how many were not since
// the last that was.
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

// putCall writes a verdict on c down, with what is kept of c, and tells it in the
// daemon's log.
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
