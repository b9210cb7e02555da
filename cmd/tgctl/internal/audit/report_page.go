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

// writeReport writes the counts of c as a self-contained page.
func writeReport(w io.Writer, c *counter, lastLine []byte, log string, now time.Time) error {
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
		{count(c.calls.total()), "calls judged"}, {count(c.calls[forwarded]), "forwarded at once"}, {count(c.calls[held]), "held for a person"},
		{count(c.calls[denied]), "denied"}, {count(c.questions["approved"]), "questions approved"}, {count(c.questions["rejected"]), "questions denied"},
		{count(c.questions["expired"] + c.questions["withdrawn"]), "questions expired or withdrawn"}, {count(c.unattended), "approved automatically (development)"},
	}
	for _, r := range slices.Backward(c.changes) {
		p.Changes = append(p.Changes, changeOf(&r, now))
	}
	return reportPage.Execute(w, p)
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
func tableOf(n names, limit int) table {
	keys, all := most(n, limit, func(t *tally) uint64 { return t.total() }, strings.Compare)
	t := table{Left: all - len(keys)}
	for _, key := range keys {
		v := n[key]
		of := func(i int) share { return share{v[i], percent(v[i], n[keys[0]].total())} }
		server, tool, both := strings.Cut(key, "\x00")
		r := row{Name: string(display.Text(cmp.Or(server, "(none)"))), Total: v.total(), Forwarded: of(forwarded), Held: of(held), Denied: of(denied)}
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
