package inbox

import (
	"bytes"
	"slices"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// bulk is an answer to several questions, of which each was listed when the person asked for it.
type bulk struct {
	answer pb.Answer
	rows   []*approval.Row
	what   display.Safe // names them
	note   typed        // the reason of a denial
}

// mark marks or unmarks the selected question and selects the next one.
func (q *queue) mark() {
	if q.selected == "" {
		return
	}
	if q.marked == nil {
		q.marked = map[string]bool{}
	}
	if q.marked[q.selected] {
		delete(q.marked, q.selected)
	} else {
		q.marked[q.selected] = true
	}
	q.move(1)
}

// unmark removes all marks, and the filter if there are none.
func (q *queue) unmark() {
	if len(q.marked) == 0 {
		q.setFilter("")
	}
	q.marked = nil
}

// askBulk asks for confirmation of an answer to several questions: A approves those that are marked, D
// denies them, and S denies all of the selected one's server.
func (q *queue) askBulk(key string) {
	b := &bulk{answer: pb.Answer_ANSWER_DENY}
	ofServer := ""
	if i := q.find(q.selected); i >= 0 {
		ofServer = q.rows[i].ServerID
	}
	b.rows = ui.Filter(q.rows, func(r *approval.Row) bool {
		return key == "S" && r.ServerID == ofServer && ofServer != "" || key != "S" && q.marked[r.ID]
	})
	ids := ui.Join(ui.Map(b.rows, func(r *approval.Row) display.Safe { return display.Name(r.ID) }), ", ")
	b.what = display.Count(len(b.rows)) + " marked (" + ids + ")"
	switch {
	case q.offline:
		q.status = "not connected: answering is not possible now"
		return
	case len(b.rows) == 0:
		q.status = ui.Choose(key == "S", "no question is selected", "nothing is marked: space marks a question")
		return
	case key == "S" && !q.settled():
		q.status = "press S again: the list has just changed"
		return
	case key == "S":
		b.what = ui.Choose(len(b.rows) > 1, "all "+display.Count(len(b.rows))+" questions", "the only question") + " of " + display.Name(ofServer)
	case key == "A" && !q.allRead(b.rows):
		return
	case key == "A":
		b.answer = pb.Answer_ANSWER_APPROVE
	}
	q.status, q.bulk = "", b
}

// allRead reports whether each question can be approved here: all that must be read of it was on the
// screen, and it needs no secret. Otherwise it selects the first that can't, and says why.
func (q *queue) allRead(rows []*approval.Row) bool {
	for _, r := range rows {
		why := display.Safe("")
		switch {
		case r.Proof:
			why = " needs your passphrase: unmark it"
		case !bytes.Equal(q.read[r.ID], r.Subject):
			why = " has not been shown in full: enter shows it"
		default:
			continue
		}
		q.setFilter("")
		q.selectRow(q.at(r.ID))
		q.status = display.Name(r.ID) + why
		return false
	}
	return true
}

// pressBulk handles a key while an answer to several questions is confirmed: y approves, and enter
// denies with the reason typed.
func (q *queue) pressBulk(key, text string) action {
	b := q.bulk
	approves := b.answer == pb.Answer_ANSWER_APPROVE
	switch {
	case !q.offline && (approves && (key == "y" || key == "Y") || !approves && key == "enter"):
		q.bulk = nil
		return action{decideAll: q.decisions(b)}
	case approves || key == "esc":
		q.bulk = nil
	default:
		b.note.press(key, text)
	}
	return action{}
}

// decisions returns the answers to those questions of b that still wait and are still the same.
func (q *queue) decisions(b *bulk) []*pb.Decision {
	var all []*pb.Decision
	for _, r := range b.rows {
		if i := q.find(r.ID); i >= 0 && bytes.Equal(q.rows[i].Subject, r.Subject) {
			all = append(all, &pb.Decision{Id: r.ID, Subject: r.Subject, Answer: b.answer, Note: b.note.trimmed(), Surface: q.app.Surface()})
		}
	}
	return all
}

// foot draws the two bottom lines.
func (b *bulk) foot(q *queue) []line {
	if b.answer == pb.Answer_ANSWER_APPROVE {
		return []line{{text: "Approve " + b.what + "? y/N", strong: true}, {text: "each once, exactly as it was shown", tone: display.Faint}}
	}
	label := display.Safe("reason (optional): ")
	return []line{
		{text: "Deny " + b.what + "? enter deny, esc back", strong: true},
		{text: label + lastPart(display.Text(string(b.note)), q.width-len(label)-1) + "_"},
	}
}

// pressFilter edits the filter.
func (q *queue) pressFilter(key, text string) {
	switch key {
	case "enter":
		q.typing = false
	case "esc":
		q.typing = false
		q.setFilter("")
	default:
		q.typeFilter(key, text)
	}
}

// typeFilter edits the filter, and lists what it lets through.
func (q *queue) typeFilter(key, text string) {
	filter := q.filter
	filter.press(key, text)
	q.setFilter(filter)
}

// setFilter lists what filter lets through. If the selected question is not among it, the first one is
// selected.
func (q *queue) setFilter(filter typed) {
	q.filter = filter
	q.list()
	if !slices.ContainsFunc(q.listed, func(r *approval.Row) bool { return r.ID == q.selected }) {
		q.selectRow(0)
		q.moved = q.app.Now().Add(-settling) // by a person
	}
}
