package audit

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/record/calls"
)

//go:embed report.html
var reportHTML string

// reportPage renders a page as HTML. Text from agents and servers was made visible by package
// display before; the template escapes it.
var reportPage = template.Must(template.New("report").Parse(reportHTML))

// page is the content of a report.
type page struct {
	Title, Made, From, Until string
	Log, Sum                 string // id of the audit log; SHA-256 of the last record
	First, Last, Records     uint64
	Facts                    []fact
	Besides                  string // what was judged and is no call
	Chart                    chart
	Servers, Tools           table
	Denials, Outcomes        []bar
	Waits                    []bar
	Waited                   string
	Deciders                 table // forwarded counts approvals, denied counts denials
	Changes                  []reportChange
	ChangesLeft              uint64
}

// fact is a number at the top of the page.
type fact struct{ Value, Name string }

// chart shows the verdicts over time as stacked columns.
type chart struct {
	Width, Height int
	Columns       []column
	Scale         []tick
	Unit          string
}

type column struct {
	X, Width                float64
	Forwarded, Held, Denied part
	Label, Tip              string
	LabelX                  float64
}

type part struct{ Y, Height float64 }

type tick struct {
	Y    float64
	Text string
}

// table lists calls by name, the most frequent first.
type table struct {
	Rows []row
	Left int // names that are not shown
}

type row struct {
	Name, Of                string
	Total                   uint64
	Forwarded, Held, Denied share
}

type share struct {
	N       uint64
	Percent float64 // of the largest row
}

type bar struct {
	Name    string
	N       uint64
	Percent float64
}

type reportChange struct {
	Seq              uint64
	At, What, Detail string
}

// writeReport writes the counts of c as a self-contained page. Nothing can be added to c afterwards.
func writeReport(w io.Writer, c *counter, lastLine []byte, log string, now time.Time) error {
	c.reader.Close()
	p := page{
		Title: "ThoughtGate report", Made: when(now, now), Log: string(display.Name(log)),
		First: c.first.Seq, Last: c.last.Seq, Records: c.records, Waited: waited(c.waits),
		Servers: tableOf(c.servers, 20), Tools: tableOf(c.tools, 30), Deciders: tableOf(c.deciders, 20),
		Denials: bars(c.reasons, 15), Outcomes: bars(c.outcomes, 15), Waits: waitBars(c.waits), ChangesLeft: c.unseen,
		Chart: chartOf(c, now.Location()),
	}
	if c.records > 0 {
		sum := sha256.Sum256(lastLine)
		p.From, p.Until, p.Sum = when(c.first.Time, now), when(c.last.Time, now), hex.EncodeToString(sum[:])
	}
	p.Facts = []fact{
		{count(c.calls.Total()), "calls"}, {count(c.calls[calls.Forwarded]), "forwarded"}, {count(c.calls[calls.Held]), "held, without an answer"}, {count(c.calls[calls.Denied]), "denied"},
		{count(c.approved), "forwarded with an approval"}, {count(c.parked), "told to repeat the call"},
		{count(c.questions["approved"] - c.unattended), "questions approved"}, {count(c.questions["rejected"]), "questions denied"},
		{count(c.questions["expired"] + c.questions["withdrawn"]), "questions expired or withdrawn"},
	}
	if c.unattended > 0 {
		p.Facts = append(p.Facts, fact{count(c.unattended), "approved automatically (development)"})
	}
	p.Besides = besides(c)
	for _, r := range slices.Backward(c.changes) {
		p.Changes = append(p.Changes, changeOf(&r, now))
	}
	return reportPage.Execute(w, p)
}

// besides says what was judged and is not counted as a call.
func besides(c *counter) string {
	var all []string
	if n := c.reader.Protocol; n > 0 {
		all = append(all, fmt.Sprintf("%s of the protocol, such as lists (%s denied)", ui.Plural(n, "message", "messages"), count(c.reader.ProtocolDenied)))
	}
	if n := c.reader.Canaries; n > 0 {
		all = append(all, fmt.Sprintf("%s of tgctl doctor, denied as they must be", ui.Plural(n, "test call", "test calls")))
	}
	return strings.Join(all, "; ")
}

func count(n uint64) string { return string(display.Count(n)) }

func when(t, now time.Time) string { return string(display.Moment(t, now)) }

// changeOf describes one change in words.
func changeOf(r *record.Record, now time.Time) reportChange {
	what := string(r.Kind)
	if r.Verdict != "" {
		what += ", " + strings.ReplaceAll(r.Verdict, "_", " ")
	}
	detail := ui.Join(ui.NonEmpty(display.Text(r.Server), display.Text(r.Tool), display.Text(r.Decider), display.Text(r.Reason)), " · ")
	return reportChange{Seq: r.Seq, At: when(r.Time, now), What: string(display.Text(what)), Detail: string(detail)}
}

// tableOf lists the names with the most calls.
func tableOf(n tallies, limit int) table {
	keys, all := most(n, limit, (*calls.Tally).Total, strings.Compare)
	t := table{Left: all - len(keys)}
	for _, key := range keys {
		v := n[key]
		of := func(e calls.End) share { return share{v[e], percent(v[e], n[keys[0]].Total())} }
		server, tool, both := strings.Cut(key, "\x00")
		r := row{Name: string(display.Text(cmp.Or(server, "(none)"))), Total: v.Total(), Forwarded: of(calls.Forwarded), Held: of(calls.Held), Denied: of(calls.Denied)}
		if both {
			r.Name, r.Of = string(display.Text(cmp.Or(tool, "(none)"))), r.Name
		}
		t.Rows = append(t.Rows, r)
	}
	return t
}

func percent(n, of uint64) float64 { return float64(n) * 100 / float64(max(of, 1)) }

// bars lists the largest counts.
func bars(m map[string]uint64, limit int) []bar {
	keys, _ := most(m, limit, func(n uint64) uint64 { return n }, strings.Compare)
	return ui.Map(keys, func(key string) bar { return bar{string(display.Text(key)), m[key], percent(m[key], m[keys[0]])} })
}

// waitBars counts how long people took to answer.
func waitBars(waits []time.Duration) []bar {
	if len(waits) == 0 {
		return nil
	}
	limits := []struct {
		name string
		up   time.Duration
	}{{"under 5 s", 5 * time.Second}, {"5 to 30 s", 30 * time.Second}, {"30 s to 2 min", 2 * time.Minute}, {"2 to 10 min", 10 * time.Minute}, {"10 min to 1 h", time.Hour}, {"longer", 1 << 62}}
	all := make([]bar, len(limits))
	largest := uint64(0)
	for i, l := range limits {
		all[i].Name = l.name
	}
	for _, w := range waits {
		i := 0
		for w >= limits[i].up {
			i++
		}
		all[i].N++
		largest = max(largest, all[i].N)
	}
	for i := range all {
		all[i].Percent = percent(all[i].N, largest)
	}
	return all
}

// waited returns the median and the 90th percentile of the waits in words.
func waited(waits []time.Duration) string {
	if len(waits) == 0 {
		return ""
	}
	sorted := slices.Sorted(slices.Values(waits))
	at := func(p int) string { return string(display.Span(sorted[(len(sorted)-1)*p/100])) }
	return fmt.Sprintf("50%% within %s, 90%% within %s", at(50), at(90))
}
