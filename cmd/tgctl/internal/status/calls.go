package status

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/audit"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/record/calls"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// RecentCalls counts the calls of the last 24 hours. Each counts once, by its end.
type RecentCalls struct {
	Forwarded uint64   `json:"forwarded"` // of the last hour, as Held and Denied
	Held      uint64   `json:"held"`      // waiting for a person, told to repeat, or given up
	Denied    uint64   `json:"denied"`
	ByHour    []uint64 `json:"by_hour"` // calls that began in each of the last 24 hours, the oldest first

	last *calls.Call // nil if there was none
	all  uint64
}

const hoursShown = 24

// countWithin is how long counting may take: a busy log has many records.
const countWithin = 3 * time.Second

// countCalls counts the calls of the last 24 hours. It returns nil if that takes too long.
func countCalls(ctx context.Context, c *client.Client, now time.Time) (*RecentCalls, error) {
	within, cancel := context.WithTimeout(ctx, countWithin)
	defer cancel()
	n := &RecentCalls{ByHour: make([]uint64, hoursShown)}
	hour := calls.Tally{}
	reader := calls.NewReader(func(one *calls.Call) {
		ago := int(now.Sub(one.Time) / time.Hour)
		if ago < 0 || ago >= hoursShown {
			return
		}
		if n.ByHour[hoursShown-1-ago]++; ago == 0 {
			hour[one.End()]++
		}
		n.last = one
		n.all++
	})
	for r, err := range c.ReadAudit(within, &pb.AuditQuery{Since: timestamppb.New(now.Add(-hoursShown * time.Hour))}) {
		if err != nil && within.Err() != nil && ctx.Err() == nil {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if rec, err := record.Parse(r.GetLine()); err == nil { // `tgctl audit verify` says which are damaged
			reader.Add(&rec)
		}
	}
	reader.Close()
	n.Forwarded, n.Held, n.Denied = hour[calls.Forwarded], hour[calls.Held], hour[calls.Denied]
	return n, nil
}

// errNotCounted says why there are no numbers.
var errNotCounted = errors.New("too many to count at once; see: tgctl audit report --since 1d -o FILE")

// addCalls adds the calls of the last hour and day.
func (a *app) addCalls(s *ui.Sheet, n *RecentCalls) {
	switch {
	case n == nil:
		s.Add("calls", display.Text(errNotCounted.Error()))
		return
	case n.all == 0:
		s.Add("calls", "none in the last 24 hours")
		return
	}
	s.Add("last hour", display.Safe(audit.TallyText(calls.Tally{calls.Forwarded: n.Forwarded, calls.Held: n.Held, calls.Denied: n.Denied})))
	s.Add("24 hours", sparkline(n.ByHour, a.Getenv("TERM"))+" "+ui.Plural(n.all, "call", "calls"))
	s.Add("last call", ui.Ago(n.last.Time, a.Now())+": "+ui.CallName(n.last.Method, n.last.Tool)+" on "+display.Name(n.last.Server)+
		": "+audit.EndOf(n.last, a.Now()))
}

// sparkline draws numbers as bars of up to eight steps, of which the fonts of a console know none. A dot stands for 0.
func sparkline(numbers []uint64, term string) display.Safe {
	bars := []rune("▁▂▃▄▅▆▇█")
	if term == "linux" || term == "dumb" {
		bars = []rune("__--==##")
	}
	largest := uint64(1)
	for _, n := range numbers {
		largest = max(largest, n)
	}
	var b strings.Builder
	for _, n := range numbers {
		if n == 0 {
			b.WriteByte('.')
			continue
		}
		b.WriteRune(bars[(n*uint64(len(bars))-1)/largest])
	}
	return display.Safe(b.String())
}
