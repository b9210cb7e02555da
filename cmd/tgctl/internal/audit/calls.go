package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/record/calls"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// past holds the calls of a part of the log.
type past struct {
	all     []*calls.Call // oldest first
	reader  *calls.Reader
	last    uint64 // number of the last record that was read
	damaged int    // records that can't be read
}

// perCall is how many records are read for each call that is to be listed: a call has a verdict and an
// outcome, a question two more. If they are not enough, more are read.
const perCall = 4

// mostRead is how many records are read for a list of a limited length.
const mostRead = 1 << 20

// read reads the newest q.Last calls that q selects; all if that is 0.
func read(ctx context.Context, c *client.Client, q *pb.AuditQuery) (*past, error) {
	limit, word := int(q.GetLast()), q.GetVerdict()
	q.Verdict = "" // of the records of a call, one may have it
	for records := perCall * limit; ; records *= perCall {
		p := &past{}
		p.reader = calls.NewReader(func(c *calls.Call) { p.all = append(p.all, c) })
		q.Last = uint32(records)
		n := 0
		for r, err := range c.ReadAudit(ctx, q) {
			if err != nil {
				return nil, err
			}
			n++
			p.last = max(p.last, r.GetSeq())
			rec, err := record.Parse(r.GetLine())
			if err != nil {
				p.damaged++
				continue
			}
			p.reader.Add(&rec)
		}
		p.all = append(p.all, p.reader.Calls()...)
		if word != "" {
			p.all = ui.Filter(p.all, func(c *calls.Call) bool { return c.Has(word) })
		}
		if limit == 0 || len(p.all) >= limit || n < records || records >= mostRead {
			if limit > 0 && len(p.all) > limit {
				p.all = p.all[len(p.all)-limit:]
			}
			return p, nil
		}
	}
}

// printCalls lists the calls that q selects, and follows the log if follow is true.
func (a *app) printCalls(ctx context.Context, c *client.Client, q *pb.AuditQuery, follow bool) error {
	word := q.GetVerdict()
	p, err := read(ctx, c, q)
	if err != nil {
		return err
	}
	if follow {
		return a.follow(ctx, c, q, p, word)
	}
	if p.damaged > 0 {
		a.PrintMessage("warning: %s can't be read; run `tgctl audit verify`", ui.Plural(p.damaged, "record", "records"))
	}
	if len(p.all) == 0 {
		a.PrintMessage("No call matches. To list every record: tgctl audit list --all")
		return nil
	}
	t := &display.Table{Columns: callColumns()}
	if a.whyBelow() {
		t.Columns = t.Columns[:whyColumn]
	}
	for _, call := range p.all {
		row := a.callRow(call)
		t.Add(row[:len(t.Columns)]...)
		if a.whyBelow() {
			t.Note(row[whyColumn])
		}
	}
	if err := a.PrintTable(t); err != nil {
		return err
	}
	for _, line := range display.Wrap(display.Safe(a.summary(p)), a.Width()) {
		fmt.Fprintln(a.Out, a.Paint().In(display.Faint, string(line)))
	}
	return nil
}

// follow prints the calls of p, and then each call when it is held and when it is over.
func (a *app) follow(ctx context.Context, c *client.Client, q *pb.AuditQuery, p *past, word string) error {
	columns := callColumns()
	for i, width := range []int{6, 8, 0, 10, 18, 24} {
		columns[i].Width = width
	}
	columns = slices.DeleteFunc(columns, func(c display.Column) bool { return c.Head == "AGENT" || c.Head == "WHY" && a.whyBelow() })
	out := display.NewStream(a.Out, a.Width(), a.Paint(), columns...)
	if err := out.Head(); err != nil {
		return err
	}
	print := func(call *calls.Call) error {
		row := slices.Delete(a.callRow(call), 2, 3)
		if !a.whyBelow() {
			return out.Row(row...)
		}
		why := len(row) - 1
		return errors.Join(out.Row(row[:why]...), out.Note(row[why]))
	}
	said := map[*calls.Call]bool{} // calls that were printed while they waited
	for _, call := range p.all {
		if err := print(call); err != nil {
			return err
		}
		said[call] = !call.IsOver()
	}
	q.From, q.Last, q.Follow = p.last+1, 0, true
	for r, err := range c.ReadAudit(ctx, q) {
		if err != nil {
			return err
		}
		rec, err := record.Parse(r.GetLine())
		if err != nil {
			continue // `tgctl audit verify` says which
		}
		call := p.reader.Add(&rec)
		switch {
		case call == nil, word != "" && !call.Has(word):
		case call.IsOver(), call.Waits() && !said[call]:
			if err := print(call); err != nil {
				return err
			}
			if said[call] = true; call.IsOver() {
				delete(said, call)
			}
		}
	}
	return nil
}

// whyBelow reports whether the reason for a verdict stands below a call: beside the other columns it would
// be cut.
func (a *app) whyBelow() bool { return a.Width() > 0 && a.Width() < 120 }

// whyColumn is the last of callColumns.
const whyColumn = 6

func callColumns() []display.Column {
	return []display.Column{
		{Head: "SEQ", Right: true}, {Head: "TIME"}, {Head: "AGENT", Shrink: 8, Drop: 1, Repeats: true}, {Head: "SERVER", Shrink: 8, Repeats: true},
		{Head: "CALL", Shrink: 12}, {Head: "END", Shrink: 26, Tone: EndTone}, {Head: "WHY", Shrink: 14},
	}
}

// callRow returns a call as a row of a list.
func (a *app) callRow(c *calls.Call) []display.Safe {
	id := display.Name(c.Approval)
	if c.Grant != "" {
		id = display.Name(c.Grant)
	}
	return []display.Safe{
		display.Safe(strconv.FormatUint(c.Seq, 10)), ui.ShortTime(c.Time, a.Now()), display.Name(c.Agent), display.Name(c.Server),
		ui.CallName(c.Method, c.Tool), EndOf(c, a.Now()), ui.Join(ui.NonEmpty(id, display.Text(c.Reason)), ": "),
	}
}

// EndOf says how a call has ended, such as "held 31s, approved, ok". now is for one that still waits.
func EndOf(c *calls.Call, now time.Time) display.Safe {
	parts := []display.Safe{}
	switch {
	case c.Waits():
		parts = append(parts, "waiting "+display.Span(now.Sub(c.Asked)))
	case !c.Asked.IsZero():
		parts = append(parts, "held "+display.Span(c.Wait))
	}
	switch {
	case c.Verdict == record.Park:
		parts = append(parts, "parked")
	case c.Would != "":
		parts = append(parts, display.Name(strings.ToLower(c.Would)))
	case c.Answer == "rejected":
		parts = append(parts, "denied")
	case c.Answer == "approved" && c.Verdict == record.Deny:
		parts = append(parts, "approved", "denied") // the approval no longer held
	case c.Answer != "":
		parts = append(parts, display.Name(c.Answer))
	case c.Grant != "":
		parts = append(parts, "granted")
	case c.Verdict == record.Forward:
		parts = append(parts, "forwarded")
	case c.Verdict == record.Deny:
		parts = append(parts, "denied")
	}
	edited, withheld := ui.Choose(c.Edited, "edited", ""), ui.Choose(c.Withheld, "withheld", "")
	return ui.Join(append(parts, ui.NonEmpty(edited, display.Name(c.Outcome), withheld)...), ", ")
}

// EndTone returns the tone of what EndOf returns: that of its gravest word.
func EndTone(end display.Safe) display.Tone {
	gravity := []display.Tone{display.Plain, display.OK, display.Held, display.Warn, display.Deny}
	tone := display.Plain
	for part := range strings.SplitSeq(string(end), ", ") {
		if strings.HasPrefix(part, "held ") {
			continue // that was before
		}
		of := ui.ToneOf(display.Safe(part))
		if slices.Index(gravity, of) > slices.Index(gravity, tone) {
			tone = of
		}
	}
	return tone
}

// summary counts the calls of a list in one sentence.
func (a *app) summary(p *past) string {
	var t calls.Tally
	for _, c := range p.all {
		t[c.End()]++
	}
	text := fmt.Sprintf("%s: %s", ui.Plural(len(p.all), "call", "calls"), TallyText(t))
	if n := p.reader.Protocol; n > 0 {
		text += "; besides, " + string(ui.Plural(n, "message", "messages")) + " of the protocol"
	}
	return text + ". Every record: tgctl audit --all"
}

// TallyText says how many calls have ended how: "40 forwarded, 3 held, 1 denied".
func TallyText(t calls.Tally) string {
	return fmt.Sprintf("%s forwarded, %s held, %s denied", display.Count(t[calls.Forwarded]), display.Count(t[calls.Held]), display.Count(t[calls.Denied]))
}
