package inbox

import (
	"cmp"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
)

// listLayout describes how the list is laid out on the screen.
type listLayout struct {
	width  int
	narrow bool // only the most important columns fit
	heads  bool // the column heads fit
	tall   int  // lines per question: itself, its arguments, the reason
	room   int  // lines available for questions
	fit    int  // how many questions fit, at least one
}

func (q *queue) listLayout() listLayout {
	l := listLayout{width: q.listWidth(), heads: q.height >= 8, tall: 3}
	l.narrow = l.width < 72
	l.room = q.height - 3 // without a title and two bottom lines
	if l.heads {
		l.room--
	}
	switch {
	case l.room < 6:
		l.tall = 1
	case l.room < 12:
		l.tall = 2
	}
	l.fit = max(1, l.room/l.tall)
	return l
}

// listLines draws the list of open questions.
func (q *queue) listLines() []line {
	l := q.listLayout()
	at := q.at(q.selected)
	first := max(0, at) / l.fit * l.fit // whole pages, so that rows stay in place on the screen
	last := min(first+l.fit, len(q.listed))
	title := ui.Choose(len(q.rows) > 0, ui.Plural(len(q.rows), "question waits", "questions wait"), "No question is waiting")
	title += ui.Choose(len(q.listed) < len(q.rows), ", "+ui.Plural(len(q.listed), "matches", "match"), "")
	title += ui.Choose(last-first < len(q.listed), ", showing "+display.Count(first+1)+"-"+display.Count(last), "")
	title += ui.Choose(len(q.marked) > 0, ", "+display.Count(len(q.marked))+" marked", "")
	lines := []line{{text: title, strong: true}}
	if l.heads && len(q.rows) > 0 {
		lines = append(lines, line{text: q.columns(l, "  ", "ID", "SUBJECT", "AGE", "LEFT", "AGENT", "SERVER", "CALL"), tone: display.Faint})
	}
	for i := first; i < last; i++ {
		lines = append(lines, q.rowLines(l, q.listed[i], i == at)...)
	}
	if len(q.listed) == 0 {
		lines = append(lines, line{}, line{text: ui.Choose(q.filter == "", "New questions appear here.", "None matches the filter.")})
	}
	if free := q.height - 2 - len(lines); len(q.ended) > 0 && free > 2 {
		lines = append(lines, line{}, line{text: "Ended:", tone: display.Faint})
		for _, how := range q.ended[:min(len(q.ended), free-2)] {
			lines = append(lines, line{text: "  " + how, tone: display.Faint})
		}
	}
	return filled(lines, q.height-2)
}

// columns draws one line of the list.
func (q *queue) columns(l listLayout, marker, id, subject, age, left, agent, server, call display.Safe) display.Safe {
	ids := 4
	for _, r := range q.listed {
		ids = min(max(ids, len(r.ID)), 8)
	}
	s := marker + padded(id, ids, false) + " " + padded(subject, approval.SubjectShown, false) + " "
	if l.narrow {
		return s + padded(left, 7, true) + "  " + call
	}
	return s + padded(age, 7, true) + " " + padded(left, 7, true) + "  " + padded(agent, 11, false) + " " + padded(server, 12, false) + " " + call
}

// rowLines draws one question of the list: what is asked, its arguments, and what makes it dangerous.
func (q *queue) rowLines(l listLayout, r *approval.Row, selected bool) []line {
	now := q.app.Now()
	call := r.Call + ui.Choose(l.narrow, " on "+r.Server, "")
	marker := ui.Choose(selected, ">", " ") + ui.Choose(q.marked[r.ID], "*", " ")
	tone, danger, why := display.Plain, display.Warn, cmp.Or(r.Danger, r.Why)
	switch {
	case r.MovedOn:
		tone, danger, why = display.Faint, display.Faint, approval.WhenMovedOn
		if l.tall < 3 { // nowhere else to say so
			call = "(moved on) " + call
		}
	case r.Danger == "":
		danger = display.Faint
	}
	lines := []line{{strong: selected, tone: tone, text: q.columns(l, marker, display.Name(r.ID), approval.ShortSubject(r.Subject),
		display.Span(now.Sub(r.Created)), countdown(r.Expires.Sub(now)), r.Agent, r.Server, call)}}
	const indent = "       "
	if l.tall > 1 {
		args := rowArgs(r, l.width-len(indent))
		if q.split() && r.Params != nil { // all of them are beside the list
			args = fit(display.JSONLine(r.Params, 0, ""), l.width-len(indent))
		}
		lines = append(lines, line{text: indent + args, tone: tone})
	}
	if l.tall > 2 {
		lines = append(lines, line{text: indent + why, tone: danger})
	}
	return lines
}

// rowArgs shows the arguments of a row in at most columns columns. If they are cut, it adds their
// size.
func rowArgs(r *approval.Row, columns int) display.Safe {
	if r.Size == 0 {
		return ""
	}
	if r.Params != nil {
		return display.JSONLine(r.Params, columns, "")
	}
	note := " (" + ui.Plural(r.Size, "byte", "bytes") + " in all)"
	return fit(r.Short, columns-len(note)) + note
}

// listFoot draws the two lines below the list: the latest event and the keys.
func (q *queue) listFoot() []line {
	status := line{text: q.status}
	switch {
	case q.bulk != nil:
		return q.bulk.foot(q)
	case q.offline:
		status = line{text: q.offlineLine(), strong: true}
	case q.typing:
		label := display.Safe("filter: ")
		return []line{{text: label + lastPart(display.Text(string(q.filter)), q.width-len(label)-1) + "_", strong: true}, {text: "enter keep   esc show all", tone: display.Faint}}
	}
	keys := q.keysLine("up/down move  enter show  a approve  d deny  g grant  e edit  ? help  q quit", "a approve  d deny  enter show  ? help")
	switch {
	case len(q.rows) == 0:
		keys = line{text: "? help   q quit"}
	case len(q.marked) > 0:
		keys = q.keysLine("space mark   A approve the marked   D deny the marked   esc unmark   ? help", "A approve  D deny  esc unmark  ? help")
	case q.status == "" && q.filter == "" && q.detail != nil && q.detail.question != nil:
		status = line{text: q.detail.position(q), tone: display.Faint}
	case q.filter != "":
		status.text = "filter: " + display.Text(string(q.filter)) + "  " + status.text
	}
	if i := q.find(q.selected); i >= 0 && q.rows[i].Login != "" && len(q.marked) == 0 {
		keys = q.keysLine("up/down move  enter show  a how to log in  d deny  ? help  q quit", "a log in  d deny  ? help")
	}
	keys.tone = display.Faint
	return []line{status, keys}
}
