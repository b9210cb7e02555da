package soak

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

// measure is one of the things that are looked at over time.
type measure struct {
	name string
	unit string // MB is shown of what is kept in bytes
	room tolerance
	of   int // the least of so many samples counts as one; see least
}

const mb = 1 << 20

// measures are all of them, with what each may rise before that is a drift.
// A ratio of times may be half as much again: the machine does other things, too.
// Of the slowest calls in a hundred there are few in a sample, so they may double.
var measures = []measure{
	{"resident", "MB", tolerance{.15, 6 * mb}, 6},
	{"share", "MB", tolerance{.15, 6 * mb}, 6},
	{"heap", "MB", tolerance{.20, 6 * mb}, 6},
	{"descriptors", "", tolerance{.10, 8}, 1},
	{"threads", "", tolerance{.10, 8}, 1},
	{"goroutines", "", tolerance{.10, 24}, 1},
	{"files", "", tolerance{.10, 8}, 1},
	{"bytes", "MB", tolerance{.25, 4 * mb}, 1},
	{"p50", "ratio", tolerance{.5, .5}, 1},
	{"p99", "ratio", tolerance{1, 2}, 1},
}

// book is what was seen over a run. It may be used by any number of goroutines.
type book struct {
	mu   sync.Mutex // guards what follows
	all  []*series  // in the order of their first sample
	find map[[2]string]*series
}

// series are the samples of one measure of one who.
type series struct {
	who string
	measure
	samples []sample
}

func newBook() *book { return &book{find: map[[2]string]*series{}} }

// note writes down one value, with the time since the run began.
func (b *book) note(at time.Duration, who string, life int, name string, value float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.find[[2]string{who, name}]
	if s == nil {
		i := slices.IndexFunc(measures, func(m measure) bool { return m.name == name })
		s = &series{who: who, measure: measures[i]}
		b.all, b.find[[2]string{who, name}] = append(b.all, s), s
	}
	s.samples = append(s.samples, sample{at, life, value})
}

// look writes down what a process holds.
func (b *book) look(at time.Duration, who string, life, pid int) error {
	use, err := rig.Use(pid)
	if err != nil {
		return fmt.Errorf("look at %s: %w", who, err)
	}
	b.note(at, who, life, "resident", float64(use.Resident))
	b.note(at, who, life, "share", float64(use.Share))
	b.note(at, who, life, "descriptors", float64(use.Descriptors))
	b.note(at, who, life, "threads", float64(use.Threads))
	return nil
}

// row is a line of the table: what became of one measure.
type row struct {
	who  string
	name string
	unit string
	verdict
	room tolerance
}

// rows judges everything that was seen.
func (b *book) rows() []row {
	b.mu.Lock()
	defer b.mu.Unlock()
	var rows []row
	for _, s := range b.all {
		rows = append(rows, row{s.who, s.name, s.unit, judge(least(s.samples, s.of), s.room), s.room})
	}
	return rows
}

// drifting returns what drifts, in words.
func drifting(rows []row) []string {
	var all []string
	for _, r := range rows {
		if r.drifts {
			all = append(all, fmt.Sprintf("%s, %s: from %s to %s, %s an hour: %s", r.who, r.name, r.show(r.first), r.show(r.last), r.show(r.slope), r.why))
		}
	}
	return all
}

func (r row) show(value float64) string {
	switch r.unit {
	case "MB":
		return fmt.Sprintf("%.1f MB", value/mb)
	case "ratio":
		return fmt.Sprintf("%.2f x", value)
	}
	return fmt.Sprintf("%.0f", value)
}

// table shows rows for people.
func table(w io.Writer, rows []row) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "who\tmeasure\tfirst third\tlast third\tan hour\tmay rise\tverdict\t")
	for _, r := range rows {
		if !r.judged {
			fmt.Fprintf(t, "%s\t%s\t-\t-\t-\t-\ttoo few samples\t\n", r.who, r.name)
			continue
		}
		word := "steady"
		if r.drifts {
			word = "DRIFTS"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", r.who, r.name, r.show(r.first), r.show(r.last), r.show(r.slope), r.show(r.room.of(r.first)), word)
	}
	t.Flush() // what cannot be written is not missed by who judges
}

// save writes every sample as a line of comma-separated values.
func (b *book) save(w io.Writer) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := csv.NewWriter(w)
	_ = out.Write([]string{"who", "measure", "life", "seconds", "value"}) // Error tells
	for _, s := range b.all {
		for _, v := range s.samples {
			_ = out.Write([]string{s.who, s.name, fmt.Sprint(v.life), fmt.Sprintf("%.1f", v.at.Seconds()), fmt.Sprintf("%.6g", v.value)})
		}
	}
	out.Flush()
	return out.Error()
}
