package audit

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/record/calls"
)

// Size of the chart in its own units; the page scales it.
const (
	chartWidth  = 960
	chartHeight = 220
	chartLeft   = 48
	chartBase   = 190 // base line of the columns
	chartTop    = 12
)

// maxColumns is how many columns can be told apart.
const maxColumns = 96

// chartOf draws the calls per hour, per day, or per several days, so that there are at most
// about maxColumns columns.
func chartOf(c *counter, zone *time.Location) chart {
	ch := chart{Width: chartWidth, Height: chartHeight}
	if len(c.hours) == 0 {
		return ch
	}
	hours := slices.Sorted(maps.Keys(c.hours))
	first, last := time.Unix(hours[0]*3600, 0).In(zone), time.Unix(hours[len(hours)-1]*3600, 0).In(zone)
	start, step, unit, layout := steps(first, last)
	ch.Unit = unit
	var ends []time.Time // ends of the columns
	for at := start; !at.After(last); {
		at = step(at)
		ends = append(ends, at)
	}
	sums := make([]calls.Tally, len(ends))
	highest := uint64(1)
	for _, hour := range hours {
		at := time.Unix(hour*3600, 0)
		i := sort.Search(len(ends), func(i int) bool { return ends[i].After(at) })
		for v, n := range c.hours[hour] {
			sums[i][v] += n
		}
		highest = max(highest, sums[i].Total())
	}
	top := niceTop(highest)
	scale := float64(chartBase-chartTop) / float64(top)
	for _, n := range slices.Compact([]uint64{0, top / 2, top}) {
		ch.Scale = append(ch.Scale, tick{chartBase - float64(n)*scale, count(n)})
	}
	width := float64(chartWidth-chartLeft) / float64(len(ends))
	labelled := "" // the day of the last label
	for i, sum := range sums {
		begin := start
		if i > 0 {
			begin = ends[i-1]
		}
		col := column{X: chartLeft + float64(i)*width + width*0.1, Width: width * 0.8, LabelX: chartLeft + (float64(i)+0.5)*width}
		y := float64(chartBase)
		for v, p := range []*part{&col.Forwarded, &col.Held, &col.Denied} {
			p.Height = float64(sum[v]) * scale
			y -= p.Height
			p.Y = y
		}
		col.Tip = fmt.Sprintf("%s: %d forwarded, %d held, %d denied", begin.Format("2006-01-02 15:04"), sum[calls.Forwarded], sum[calls.Held], sum[calls.Denied])
		if i%max(1, len(ends)/8) == 0 {
			col.Label = begin.Format(layout)
			if day := begin.Format("2 Jan"); unit == "hour" {
				col.Label = begin.Format("15:04")
				if day != labelled {
					col.Label, labelled = day+" "+col.Label, day
				}
			}
		}
		ch.Columns = append(ch.Columns, col)
	}
	return ch
}

// steps chooses the period of a column.
func steps(first, last time.Time) (start time.Time, step func(time.Time) time.Time, unit, layout string) {
	day := time.Date(first.Year(), first.Month(), first.Day(), 0, 0, 0, 0, first.Location())
	if last.Sub(first) < maxColumns*time.Hour {
		return first.Truncate(time.Hour), func(t time.Time) time.Time { return t.Add(time.Hour) }, "hour", ""
	}
	days := 1 + int(last.Sub(first)/(24*time.Hour))/maxColumns
	unit = "day"
	if days > 1 {
		unit = fmt.Sprintf("%d days", days)
	}
	return day, func(t time.Time) time.Time { return t.AddDate(0, 0, days) }, unit, "2 Jan"
}

// niceTop returns a round number that is at least n.
func niceTop(n uint64) uint64 {
	for unit := uint64(1); ; unit *= 10 {
		for _, m := range []uint64{1, 2, 4, 6, 8, 10} {
			if m*unit >= n {
				return m * unit
			}
		}
	}
}
