package inbox

import (
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
)

// listLayout describes how the list is laid out on the screen.
type listLayout struct {
	narrow bool // only the most important columns fit
	heads  bool // the column heads fit
	tall   int  // lines per question: itself, its arguments, the reason
	room   int  // lines available for questions
	fit    int  // how many questions fit, at least one
}

func (q *queue) listLayout() listLayout {
	l := listLayout{narrow: q.width < 72, heads: q.height >= 8, tall: 3}
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

// listScreen draws the list of open questions.
func (q *queue) listScreen() []line {
	l := q.listLayout()
	at := q.find(q.selected)
	first := max(0, at) / l.fit * l.fit // whole pages, so that rows stay in place on the screen
	last := min(first+l.fit, len(q.rows))
	title := ui.Choose(len(q.rows) > 0, ui.Plural(len(q.rows), "question waits", "questions wait"), "No question is waiting")
	title += ui.Choose(last-first < len(q.rows), ", showing "+display.Count(first+1)+"-"+display.Count(last), "")
	lines := []line{{text: title, strong: true}}
	if l.heads && len(q.rows) > 0 {
		lines = append(lines, line{text: q.columns(l, "  ", "ID", "SUBJECT", "AGE", "LEFT", "AGENT", "SERVER", "CALL")})
	}
	for i := first; i < last; i++ {
		lines = append(lines, q.rowLines(l, q.rows[i], i == at)...)
	}
	if len(q.rows) == 0 {
		lines = append(lines, line{}, line{text: "New questions appear here."})
	}
	if free := q.height - 2 - len(lines); len(q.ended) > 0 && free > 2 {
		lines = append(lines, line{}, line{text: "Ended:"})
		for _, how := range q.ended[:min(len(q.ended), free-2)] {
			lines = append(lines, line{text: "  " + how})
		}
	}
	return append(filled(lines, q.height-2), q.listFoot()...)
}

// columns draws one line of the list.
func (q *queue) columns(l listLayout, marker, id, subject, age, left, agent, server, call display.Safe) display.Safe {
	ids := 4
	for _, r := range q.rows {
		ids = min(max(ids, len(r.ID)), 8)
	}
	s := marker + padded(id, ids, false) + " " + padded(subject, approval.SubjectShown, false) + " "
	if l.narrow {
		return s + padded(left, 7, true) + "  " + call
	}
	return s + padded(age, 7, true) + " " + padded(left, 7, true) + "  " + padded(agent, 11, false) + " " + padded(server, 12, false) + " " + call
}

// rowLines draws one question of the list.
func (q *queue) rowLines(l listLayout, r *approval.Row, selected bool) []line {
	now := q.app.Now()
	call := r.Call + ui.Choose(l.narrow, " on "+r.Server, "")
	lines := []line{{strong: selected, text: q.columns(l, ui.Choose(selected, "> ", "  "), display.Name(r.ID), approval.ShortSubject(r.Subject),
		display.Span(now.Sub(r.Created)), countdown(r.Expires.Sub(now)), r.Agent, r.Server, call)}}
	const indent = "       "
	if l.tall > 1 {
		lines = append(lines, line{text: indent + rowArgs(r, q.width-len(indent))})
	}
	if l.tall > 2 {
		lines = append(lines, line{text: indent + r.Why})
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
	if q.offline {
		status = line{text: q.offlineLine(), strong: true}
	}
	if len(q.rows) == 0 {
		return []line{status, {text: "q quit"}}
	}
	return []line{status, q.keysLine("up/down move   enter show   a approve   d deny   g grant   e edit   q quit", "a approve  d deny  g grant  e edit  q")}
}
