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

// splitWidth and splitHeight are the smallest screen on which the list and a question stand side by side.
const (
	splitWidth  = 100
	splitHeight = 12
)

// line is one line of the screen.
type line struct {
	text   display.Safe
	strong bool         // highlighted; never the only sign of something
	tone   display.Tone // of the text, if it has no spans
	spans  []span       // its parts, if their tones differ
}

// span is a part of a line.
type span struct {
	text display.Safe
	tone display.Tone
}

// joined returns a line of parts.
func joined(spans ...span) line {
	return line{text: ui.Join(ui.Map(spans, func(s span) display.Safe { return s.text }), ""), spans: spans}
}

// parts returns the line's parts.
func (l line) parts() []span {
	switch {
	case l.spans != nil:
		return l.spans
	case l.strong:
		return []span{{l.text, display.Strong}}
	}
	return []span{{l.text, l.tone}}
}

// cut returns the line in at most columns columns.
func (l line) cut(columns int) line {
	if cellsOf(l.text) <= columns {
		return l
	}
	l.text = fit(l.text, columns)
	if l.spans == nil {
		return l
	}
	spans, left := l.spans, l.text
	l.spans = nil
	for _, s := range spans { // what was cut off is replaced by an ellipsis
		n := min(len(s.text), len(left))
		if !strings.HasPrefix(string(s.text), string(left[:n])) || n == 0 {
			break
		}
		l.spans, left = append(l.spans, span{left[:n], s.tone}), left[n:]
	}
	l.spans = append(l.spans, span{left, display.Faint})
	return l
}

// tooSmall reports whether the screen has no room for a question.
func (q *queue) tooSmall() bool { return q.width < leastWidth || q.height < leastHeight }

// split reports whether the list and a question stand side by side.
func (q *queue) split() bool { return q.width >= splitWidth && q.height >= splitHeight }

// gutter stands between the list and a question.
const gutter display.Safe = " │ "

// listWidth returns how many columns the list takes.
func (q *queue) listWidth() int {
	if q.split() {
		return min(max(q.width*2/5, 44), 72)
	}
	return q.width
}

// paneWidth returns how many columns a question takes.
func (q *queue) paneWidth() int {
	if q.split() {
		return q.width - q.listWidth() - cellsOf(gutter)
	}
	return q.width
}

// screen draws the queue. The result has exactly as many lines as the screen, and no line is
// wider.
func (q *queue) screen() []line {
	var lines []line
	switch {
	case q.width < 1 || q.height < 1: // not known yet
		return nil
	case q.tooSmall():
		lines = []line{{text: "too small"}}
	case q.help:
		lines = q.helpScreen()
	case q.split() && (q.selected != "" || q.detail != nil):
		lines = append(q.beside(q.listLines(), q.detailLines()), q.foot()...)
	case q.detail != nil:
		lines = append(q.detailLines(), q.foot()...)
	default:
		lines = append(q.listLines(), q.foot()...)
	}
	for i := range lines {
		lines[i] = lines[i].cut(q.width)
	}
	return filled(lines, q.height)[:q.height]
}

// beside draws two columns of lines.
func (q *queue) beside(left, right []line) []line {
	var lines []line
	for i := range left {
		l := left[i].cut(q.listWidth())
		blank := display.Safe(strings.Repeat(" ", q.listWidth()-cellsOf(l.text)))
		spans := append(slices.Clone(l.parts()), span{blank, display.Plain}, span{gutter, display.Faint})
		if i < len(right) {
			spans = append(spans, right[i].cut(q.paneWidth()).parts()...)
		}
		l = joined(spans...)
		l.text = display.Safe(strings.TrimRight(string(l.text), " "))
		l.strong = left[i].strong
		lines = append(lines, l)
	}
	return lines
}

// foot draws the two bottom lines.
func (q *queue) foot() []line {
	if q.inside && q.detail != nil {
		return q.detailFoot()
	}
	return q.listFoot()
}

// filled adds empty lines up to the given height.
func filled(lines []line, height int) []line {
	return append(lines, make([]line, max(0, height-len(lines)))...)
}

// detailLines draws the question that is shown in full.
func (q *queue) detailLines() []line {
	d := q.detail
	if d == nil {
		return nil
	}
	title := display.Name(d.id) + ui.Spaced(approval.ShortSubject(d.question.GetSubject()))
	title += ui.Choose(d.ended == "", "  "+countdown(d.expires.Sub(q.app.Now()))+" left", "")
	title += ui.Choose(d.edit != nil, "  EDITED", "")
	lines := []line{{text: title + "  " + d.title, strong: true}}
	room := q.bodyHeight()
	switch {
	case d.ask == askGrant:
		lines = append(lines, d.grant.lines(d.question, q.paneWidth(), room)...)
	case d.question != nil:
		for _, b := range d.body[d.top:min(d.top+room, len(d.body))] {
			lines = append(lines, joined(span{b.Head, display.Faint}, span{b.Text, b.Tone}))
		}
	case d.ended == "":
		lines = append(lines, line{text: "reading ..."})
	}
	return filled(lines, 1+room)
}

// detailFoot draws the two lines below a question: the position or the prompt, and the keys.
func (q *queue) detailFoot() []line {
	d := q.detail
	id := display.Name(d.id) + ui.Spaced(approval.ShortSubject(d.question.GetSubject()))
	where := "seen " + display.Count(d.countSeen()) + " of " + ui.Plural(len(d.body), "line", "lines")
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
	case d.ask == askLogin:
		return []line{{text: "Nobody can approve this. In a shell:", strong: true}, {text: approval.LoginCommand(d.question)}}
	case d.ask == askNo:
		label := display.Safe("reason (optional): ")
		return []line{
			{text: "Deny " + id + "? enter deny, esc back", strong: true},
			{text: label + lastPart(display.Text(string(d.typed)), q.width-len(label)-1) + "_"},
		}
	case d.question == nil:
		return []line{{}, {text: "esc back"}}
	}
	lines := d.position(q)
	if q.status != "" {
		lines += "  " + q.status
	}
	if d.edit != nil {
		return []line{{text: lines, strong: d.unread() > 0}, q.keysLine("space scroll   a approve your arguments   d deny   e edit again   esc discard", "a approve  d deny  e edit  esc discard")}
	}
	if approval.LoginCommand(d.question) != "" {
		return []line{{text: lines}, q.keysLine("up/down/space scroll   a how to log in   d deny   esc back", "a log in  d deny  esc")}
	}
	if d.question.GetDevice() != "" {
		return []line{{text: lines, strong: d.unread() > 0}, q.keysLine("up/down/space scroll   a approve   d deny   esc back", "a approve  d deny  esc")}
	}
	return []line{{text: lines, strong: d.unread() > 0}, q.keysLine("up/down/space scroll   a approve   d deny   g grant   e edit   esc back", "a approve  d deny  g grant  e edit  esc")}
}

// position says which lines of the question are on the screen, and how many must still be read.
func (d *detail) position(q *queue) display.Safe {
	lines := "lines " + display.Count(d.top+1) + "-" + display.Count(min(d.top+q.bodyHeight(), len(d.body))) + " of " + display.Count(len(d.body))
	return lines + ui.Choose(d.unread() > 0, ", "+display.Count(d.unread())+" to read before an approval", "")
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
func broken(l ui.Line, columns int) []ui.Line {
	const bar = "┊ "
	if cellsOf(l.Head+l.Text) <= columns {
		return []ui.Line{l}
	}
	for room := columns - cellsOf(bar); ; room-- {
		parts := display.Break(l.Head+l.Text, room)
		if slices.Max(ui.Map(parts, cellsOf)) > columns-cellsOf(bar) && room > 1 {
			continue // cellsOf can be more than display's width; try with less room
		}
		lines := ui.InTone(l.Tone, parts...)
		for i := range lines[1:] {
			lines[i+1].Text = bar + lines[i+1].Text
		}
		return lines
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
