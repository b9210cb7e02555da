package inbox

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
)

// leastWidth and leastHeight are the smallest screen on which a question can be answered.
const (
	leastWidth  = 24
	leastHeight = 6
)

// line is one line of the screen.
type line struct {
	text   display.Safe
	strong bool // highlighted; never the only sign of something
}

// tooSmall reports whether the screen has no room for a question.
func (q *queue) tooSmall() bool { return q.width < leastWidth || q.height < leastHeight }

// screen draws the queue. The result has exactly as many lines as the screen, and no line is
// wider.
func (q *queue) screen() []line {
	var lines []line
	switch {
	case q.width < 1 || q.height < 1: // not known yet
		return nil
	case q.tooSmall():
		lines = []line{{text: "too small"}}
	case q.detail != nil:
		lines = q.detailScreen()
	default:
		lines = q.listScreen()
	}
	for i := range lines {
		lines[i].text = fit(lines[i].text, q.width)
	}
	return filled(lines, q.height)[:q.height]
}

// filled adds empty lines up to the given height.
func filled(lines []line, height int) []line {
	return append(lines, make([]line, max(0, height-len(lines)))...)
}

// detailScreen draws the question that is shown in full.
func (q *queue) detailScreen() []line {
	d := q.detail
	title := display.Name(d.id) + ui.Spaced(approval.ShortSubject(d.question.GetSubject()))
	title += ui.Choose(d.ended == "", "  "+countdown(d.expires.Sub(q.app.Now()))+" left", "")
	title += ui.Choose(d.edit != nil, "  EDITED", "")
	lines := []line{{text: title + "  " + d.title, strong: true}}
	room := q.bodyHeight()
	switch {
	case d.ask == askGrant:
		lines = append(lines, d.grant.lines(d.question, q.width, room)...)
	case d.question != nil:
		lines = append(lines, plain(d.body[d.top:min(d.top+room, len(d.body))])...)
	case d.ended == "":
		lines = append(lines, line{text: "reading ..."})
	}
	return append(filled(lines, 1+room), q.detailFoot()...)
}

// detailFoot draws the two lines below a question: the position or the prompt, and the keys.
func (q *queue) detailFoot() []line {
	d := q.detail
	id := display.Name(d.id) + ui.Spaced(approval.ShortSubject(d.question.GetSubject()))
	seen := ui.Filter(d.seen, func(yes bool) bool { return yes })
	where := "seen " + display.Count(len(seen)) + " of " + ui.Plural(len(d.body), "line", "lines")
	switch {
	case d.ended != "" && d.ask == askNo:
		return []line{{text: d.ended, strong: true}, {text: "too late; enter or esc back"}}
	case d.ended != "":
		return []line{{text: d.ended, strong: true}, {text: "esc back"}}
	case q.offline:
		return []line{{text: q.offlineLine(), strong: true}, {text: "esc back"}}
	case d.sent:
		return []line{{text: "sending the answer ...", strong: true}, {}}
	case d.inEditor:
		return []line{{text: "waiting for the editor ...", strong: true}, {}}
	case d.ask == askYes:
		with := ui.Choose(d.edit != nil, " with your arguments", "")
		return []line{{text: "Approve " + id + with + "? y/N", strong: true}, {text: where + ": " + d.title}}
	case d.ask == askGrant && d.grant.sure:
		below := where + ": " + d.title
		if n := d.grant.below; n > 0 {
			below = "space: " + ui.Plural(n, "more line", "more lines") + " of the grant"
		}
		return []line{{text: "Approve " + id + " and grant this? y/N", strong: true}, {text: below}}
	case d.ask == askGrant:
		return []line{{text: "row " + display.Count(d.grant.at+1) + " of " + display.Count(len(d.grant.rows()))}, q.keysLine("up/down row   left/right choose   or type   enter next   esc back", "up/down  left/right  enter  esc")}
	case d.ask == askProof:
		return []line{
			{text: "Needs your passphrase. In a shell:", strong: true},
			{text: "tgctl approvals approve " + display.Name(d.id)},
		}
	case d.ask == askNo:
		label := display.Safe("reason (optional): ")
		return []line{
			{text: "Deny " + id + "? enter deny, esc back", strong: true},
			{text: label + lastPart(display.Text(d.typed), q.width-len(label)-1) + "_"},
		}
	case d.question == nil:
		return []line{{}, {text: "esc back"}}
	}
	lines := "lines " + display.Count(d.top+1) + "-" + display.Count(min(d.top+q.bodyHeight(), len(d.body))) + " of " + display.Count(len(d.body))
	if q.status != "" {
		lines += "  " + q.status
	}
	if d.edit != nil {
		return []line{{text: lines}, q.keysLine("space scroll   a approve your arguments   d deny   e edit again   esc discard", "a approve  d deny  e edit  esc discard")}
	}
	return []line{{text: lines}, q.keysLine("up/down/space scroll   a approve   d deny   g grant   e edit   esc back", "a approve  d deny  g grant  e edit  esc")}
}

// keysLine returns long, or short if long is wider than the screen.
func (q *queue) keysLine(long, short display.Safe) line {
	if display.Width(long) > q.width {
		return line{text: short}
	}
	return line{text: long}
}

// offlineLine says that the daemon is not reachable.
func (q *queue) offlineLine() display.Safe {
	const long, short = "Not connected to the daemon, which keeps its questions; reconnecting ...", "Not connected; reconnecting ..."
	if len(long) > q.width {
		return short
	}
	return long
}

// broken breaks a line into lines of at most columns columns without losing a character.
// Continuation lines begin with a bar, so that they cannot be mistaken for lines of their own.
func broken(s display.Safe, columns int) []display.Safe {
	const bar = "┊ "
	if cellsOf(s) <= columns {
		return []display.Safe{s}
	}
	for room := columns - cellsOf(bar); ; room-- {
		parts := display.Break(s, room)
		if slices.Max(ui.Map(parts, cellsOf)) > columns-cellsOf(bar) && room > 1 {
			continue // cellsOf can be more than display's width; try with less room
		}
		for i := range parts[1:] {
			parts[i+1] = bar + parts[i+1]
		}
		return parts
	}
}

// fit is like display.Fit, but measures with cellsOf, because a terminal may draw a character
// wider than display assumes.
func fit(s display.Safe, columns int) display.Safe {
	short := s
	for n := columns; cellsOf(short) > columns && n > 0; n-- {
		short = display.Fit(s, n)
	}
	return short
}

// lastPart returns as much of the end of s as fits into columns columns.
func lastPart(s display.Safe, columns int) display.Safe {
	if cellsOf(s) <= columns {
		return s
	}
	end := display.Safe("")
	for _, piece := range slices.Backward(display.Break(s, 1)) {
		if cellsOf(piece+end)+1 > columns {
			break
		}
		end = piece + end
	}
	return "…" + end
}

// countdown formats the remaining time with seconds: 9:48 or 1:02:33.
func countdown(left time.Duration) display.Safe {
	seconds := int(max(0, left) / time.Second)
	if hours := seconds / 3600; hours > 0 {
		return display.Safe(fmt.Sprintf("%d:%02d:%02d", hours, seconds/60%60, seconds%60))
	}
	return display.Safe(fmt.Sprintf("%d:%02d", seconds/60, seconds%60))
}

// cellsOf returns how many columns s takes on a terminal. Terminals disagree about some
// characters, so it returns the largest common width.
func cellsOf(s display.Safe) int {
	return max(display.Width(s), ansi.StringWidth(string(s)), ansi.StringWidthWc(string(s)))
}

// padded returns s in exactly columns columns, right-aligned if right.
func padded(s display.Safe, columns int, right bool) display.Safe {
	s = fit(s, columns)
	blank := display.Safe(strings.Repeat(" ", max(0, columns-cellsOf(s))))
	if right {
		return blank + s
	}
	return s + blank
}
