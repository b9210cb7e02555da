package inbox

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/audit"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/record"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

const (
	// pastCalls is how many previous calls are shown beside a question. pastRecords is
	// how many records are read to find them: a held call has more than one.
	pastCalls   = 8
	pastRecords = 4 * pastCalls

	// pastArgumentColumns limits the arguments kept of a previous call, in columns.
	pastArgumentColumns = 200

	// decidedBefore is how many approvals are searched for the last one like a question:
	// a query matches by names, but not by all that must be equal.
	decidedBefore = 16

	// maxCompareBytes limits the total size of two sets of arguments that are compared line
	// by line, in bytes.
	maxCompareBytes = 256 << 10
)

// past is what the audit log has to help judge a question: the last approved call of the
// same tool, and the previous calls of the session.
type past struct {
	approved *pastCall
	calls    []pastCall // oldest first
	failed   error      // why the audit log could not be read
}

// pastCall is one call on record.
type pastCall struct {
	seq      uint64
	at       time.Time
	id       string // of the call
	question string
	launch   string
	verdict  display.Safe
	what     display.Safe
	short    display.Safe // its arguments
	args     []byte       // of the approved call only, as recorded; nil if not recorded in full
	params   bool         // args holds all params, because the call has more than arguments
	kept     bool         // args or a preview of them is on record
}

// values is the line of values beside a record.
type values struct {
	Arguments json.RawMessage `json:"arguments"`
	Params    json.RawMessage `json:"params"`  // instead of arguments, if the call has other params
	Preview   string          `json:"preview"` // the beginning of long arguments
	Bytes     int64           `json:"bytes"`
}

// readPast reads what happened before q. A read error is kept in the result, since a
// question can be answered without its past.
func readPast(ctx context.Context, c *client.Client, q *pb.Approval) *past {
	if q.GetDevice() != "" { // its past is in the log of the other machine
		return &past{}
	}
	p := &past{}
	if p.approved, p.failed = lastApproved(ctx, c, q); p.failed == nil {
		p.calls, p.failed = callsBefore(ctx, c, q)
	}
	return p
}

// lastApproved finds the last call like q that a person approved. It returns nil if there
// is none on record.
func lastApproved(ctx context.Context, c *client.Client, q *pb.Approval) (*pastCall, error) {
	var last *record.Record
	decisions := &pb.AuditQuery{
		Kind: string(record.KindDecision), Verdict: "approved",
		Server: ui.LiteralGlob(q.GetServer()), Tool: ui.LiteralGlob(q.GetTool()), Last: decidedBefore,
	}
	for r, err := range c.ReadAudit(ctx, decisions) {
		if err != nil {
			return nil, err
		}
		rec, err := record.Parse(r.GetLine())
		if err == nil && rec.Kind == record.KindDecision && rec.Verdict == "approved" && rec.Server == q.GetServer() &&
			rec.Method == q.GetMethod() && rec.Tool == q.GetTool() && rec.Approval != q.GetId() {
			last = &rec
		}
	}
	if last == nil {
		return nil, nil
	}
	call := &pastCall{seq: last.Seq, at: last.Time, id: last.ID, question: last.Approval, launch: last.Launch}
	asked := last.Time.Add(-time.Duration(last.LatencyUS) * time.Microsecond)
	calls := &pb.AuditQuery{
		Kind: string(record.KindCall), Server: ui.LiteralGlob(last.Server), Tool: ui.LiteralGlob(last.Tool), Session: last.Session,
		Since: timestamppb.New(asked.Add(-time.Minute)), Until: timestamppb.New(last.Time.Add(time.Second)),
	}
	for r, err := range c.ReadAudit(ctx, calls) {
		if err != nil {
			return nil, err
		}
		rec, err := record.Parse(r.GetLine())
		if err != nil || rec.Kind != record.KindCall || rec.ID != last.ID || len(r.GetValues()) == 0 {
			continue
		}
		var v values
		if json.Unmarshal(r.GetValues(), &v) == nil {
			call.seq, call.args, call.params = rec.Seq, v.Arguments, v.Params != nil
			if call.params {
				call.args = v.Params
			}
			call.kept = call.args != nil || v.Preview != ""
		}
		break
	}
	return call, nil
}

// callsBefore finds the last calls that were judged before q was asked, in the session of
// q, or in its attachment if it has no session.
func callsBefore(ctx context.Context, c *client.Client, q *pb.Approval) ([]pastCall, error) {
	query := &pb.AuditQuery{Kind: string(record.KindCall), Session: q.GetSession(), Last: pastRecords}
	if q.GetSession() == "" {
		query.Server = ui.LiteralGlob(q.GetServer())
	}
	asked, err := askedAt(ctx, c, q, query)
	if err != nil {
		return nil, err
	}
	if q.GetCreated() != nil {
		query.Until = timestamppb.New(q.GetCreated().AsTime().Add(time.Microsecond)) // exclusive
	}
	var calls []pastCall
	for r, err := range c.ReadAudit(ctx, query) {
		if err != nil {
			return nil, err
		}
		rec, err := record.Parse(r.GetLine())
		if err != nil || rec.Kind != record.KindCall || rec.Session != q.GetSession() || rec.ID == q.GetCall() || asked > 0 && rec.Seq > asked ||
			q.GetSession() == "" && rec.Attachment != q.GetAttachment() {
			continue
		}
		call := pastCall{seq: rec.Seq, at: rec.Time, id: rec.ID, verdict: audit.VerdictWord(&rec) + ui.Choose(rec.Surface == record.SurfaceHost, " if its user agrees", ""), what: display.Name(rec.Server) + ui.Spaced(ui.CallName(rec.Method, rec.Tool))}
		var v values
		if len(r.GetValues()) > 0 && json.Unmarshal(r.GetValues(), &v) == nil {
			call.short = approval.Clipped(shortValues(&v))
		}
		// A held call has a second record once it was forwarded or denied.
		if i := slices.IndexFunc(calls, func(c pastCall) bool { return c.id != "" && c.id == call.id }); i >= 0 {
			call.short = cmp.Or(call.short, calls[i].short)
			calls = slices.Delete(calls, i, i+1)
		}
		calls = append(calls, call)
	}
	return calls[max(0, len(calls)-pastCalls):], nil
}

// askedAt returns the sequence number of the record with which q was asked, 0 if there is
// none. The order of records is certain, unlike that of times: clocks can be set.
func askedAt(ctx context.Context, c *client.Client, q *pb.Approval, of *pb.AuditQuery) (uint64, error) {
	if q.GetCreated() == nil {
		return 0, nil
	}
	const around = 10 * time.Second
	created := q.GetCreated().AsTime()
	query := &pb.AuditQuery{
		Kind: of.GetKind(), Session: of.GetSession(), Server: of.GetServer(),
		Since: timestamppb.New(created.Add(-around)), Until: timestamppb.New(created.Add(around)),
	}
	for r, err := range c.ReadAudit(ctx, query) {
		if err != nil {
			return 0, err
		}
		if rec, err := record.Parse(r.GetLine()); err == nil && rec.ID == q.GetCall() && rec.Attachment == q.GetAttachment() && rec.Approval == q.GetId() {
			return rec.Seq, nil
		}
	}
	return 0, nil
}

func shortValues(v *values) display.Safe {
	switch {
	case v.Params != nil:
		return display.JSONLine(v.Params, pastArgumentColumns, "")
	case v.Arguments != nil:
		return display.JSONLine(v.Arguments, pastArgumentColumns, "")
	case v.Preview != "":
		return display.Clip(v.Preview, pastArgumentColumns, "")
	}
	return ""
}

// lines lays out what happened before q. columns below one means no limit.
func (p *past) lines(q *pb.Approval, now time.Time, columns int) []ui.Line {
	if q.GetDevice() != "" {
		return ui.InTone(display.Faint, display.Wrap("The calls before it are in the log of the other machine.", columns)...)
	}
	if p.failed != nil {
		return ui.InTone(display.Warn, display.Wrap("Previous calls cannot be shown: "+display.Text(p.failed.Error()), columns)...)
	}
	lines := p.compared(q, now, columns)
	if len(p.calls) == 0 {
		return lines
	}
	of := ui.Choose(q.GetSession() != "", "of this session", "to this server")
	lines = append(lines, ui.InTone(display.Faint, "", "previous calls "+of+", oldest first:")...)
	widest := slices.Max(ui.Map(p.calls, func(c pastCall) int { return display.Width(c.verdict) }))
	for _, c := range p.calls {
		line := display.Safe(fmt.Sprintf("  %s  %-*s  %s", ui.ShortTime(c.at, now), widest, c.verdict, c.what)) + ui.Spaced(c.short)
		lines = append(lines, ui.InTone(display.Plain, ui.Hanging(line, columns, 4)...)...)
	}
	return lines
}

// PastLines says what happened before q: how its arguments differ from the last approved call's, and the
// previous calls of its session.
func PastLines(ctx context.Context, c *client.Client, q *pb.Approval, now time.Time) []ui.Line {
	return readPast(ctx, c, q).lines(q, now, 0)
}
