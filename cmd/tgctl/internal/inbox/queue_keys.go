package inbox

import (
	"strings"
	"unicode/utf8"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// reasonMost is the maximum length in bytes of a typed reason.
const reasonMost = 1000

// press handles a key. key is its name, such as "a", "enter" or "ctrl+c"; text is the text it
// produces, if any.
func (q *queue) press(key, text string) action {
	q.fallback = false
	switch {
	case key == "ctrl+c":
		return action{quit: true}
	case key == "ctrl+z":
		return action{suspend: true}
	case q.tooSmall():
		return action{quit: key == "q"}
	case q.help:
		q.pressHelp(key)
		return action{}
	case q.detail == nil || !q.inside:
		return q.pressList(key, text)
	case q.detail.sent, q.detail.inEditor:
		return action{} // until the daemon or the editor has replied
	case q.detail.ask == askYes:
		return q.pressYes(key)
	case q.detail.ask == askProof, q.detail.ask == askLogin:
		q.detail.ask = askNothing
		return action{}
	case q.detail.ask == askNo:
		return q.pressReason(key, text)
	case q.detail.ask == askGrant:
		return q.pressGrant(key, text)
	}
	return q.pressDetail(key)
}

// pasted handles pasted text. It is never interpreted as keys.
func (q *queue) pasted(text string) {
	switch d := q.detail; {
	case q.bulk != nil && q.bulk.answer == pb.Answer_ANSWER_DENY:
		q.bulk.note.write(text)
	case q.typing:
		q.typeFilter("", text)
	case d != nil && q.inside && d.ask == askNo && !d.sent:
		d.typed.write(text)
	}
}

func (q *queue) pressList(key, text string) action {
	switch {
	case q.bulk != nil:
		return q.pressBulk(key, text)
	case q.typing:
		q.pressFilter(key, text)
		return action{}
	case key == "space":
		q.mark()
		return action{}
	}
	if n := linesDown(key, q.listLayout().fit, len(q.listed)); n != 0 {
		q.move(n)
		return action{}
	}
	switch key {
	case "q":
		return action{quit: true}
	case "enter", "right", "l", "tab":
		return q.open(askNothing)
	case "?":
		q.help, q.helpTop = true, 0
	case "/":
		q.typing = true
	case "B":
		q.bell = !q.bell
		q.status = ui.Choose(q.bell, "the bell rings for new questions", "the bell is off")
	case "esc":
		q.unmark()
	case "A", "D", "S":
		q.askBulk(key)
	case "a", "d", "g", "e":
		switch {
		case q.selected == "":
		case q.offline:
			q.status = "not connected: answering is not possible now"
		case !q.settled():
			q.status = "press " + display.Safe(key) + " again: the list has just changed"
		default:
			return q.open(prompts[key])
		}
	}
	return action{}
}

// linesDown returns how many lines a key moves down, or 0 if it does not move. page is the
// number of lines on a screen, all the total.
func linesDown(key string, page, all int) int {
	switch key {
	case "up", "k":
		return -1
	case "down", "j":
		return 1
	case "pgup", "b":
		return -page
	case "pgdown", "space":
		return page
	case "home":
		return -all
	case "end":
		return all
	}
	return 0
}

// prompts maps keys to the prompts they open.
var prompts = map[string]prompt{"a": askYes, "d": askNo, "g": askGrant, "e": askEdit}

// move moves the selection by rows, within its bounds.
func (q *queue) move(rows int) {
	q.wanted = ""
	if len(q.listed) == 0 {
		return
	}
	q.selectRow(q.at(q.selected) + rows)
	q.moved = q.app.Now().Add(-settling) // moved by a person, so there is nothing to wait for
}

// leave returns to the list. If another question is selected there, that counts as a move by
// itself.
func (q *queue) leave() {
	if q.detail.id != q.selected {
		q.moved = q.app.Now()
	}
	q.inside = false
	if !q.split() || q.detail.ended != "" {
		q.detail = nil
	}
}

func (q *queue) pressDetail(key string) action {
	if n := linesDown(key, max(1, q.bodyHeight()-1), len(q.detail.body)); n != 0 {
		q.scroll(n)
		return action{}
	}
	switch key {
	case "esc":
		if q.detail.edit != nil && q.detail.ended == "" {
			q.replace(nil)
			break
		}
		q.leave()
	case "q", "enter", "left", "h", "tab":
		q.leave()
	case "?":
		q.help, q.helpTop = true, 0
	case "a", "d", "g", "e":
		return q.prompt(prompts[key])
	}
	return action{}
}

// pressGrant passes a key to the form for a grant.
func (q *queue) pressGrant(key, text string) action {
	d := q.detail
	give, leave := d.grant.press(key, text)
	switch {
	case leave || d.ended != "":
		d.ask, d.grant = askNothing, nil
	case give && q.answerable():
		return q.answer(pb.Answer_ANSWER_APPROVE, "")
	default:
		d.grant.lines(d.question, q.paneWidth(), q.bodyHeight()) // records what is on the screen
	}
	return action{}
}

// pressYes approves on y. Every other key leaves the prompt.
func (q *queue) pressYes(key string) action {
	if (key == "y" || key == "Y") && q.answerable() {
		return q.answer(pb.Answer_ANSWER_APPROVE, "")
	}
	q.detail.ask = askNothing
	return action{}
}

// pressReason edits the reason for a denial.
func (q *queue) pressReason(key, text string) action {
	d := q.detail
	switch key {
	case "enter":
		if q.answerable() {
			return q.answer(pb.Answer_ANSWER_DENY, d.typed.trimmed())
		}
		if d.ended != "" {
			d.ask = askNothing
		}
	case "esc":
		d.ask, d.typed = askNothing, ""
	default:
		d.typed.press(key, text)
	}
	return action{}
}

// typed is a line that a person types.
type typed string

// press edits the line.
func (t *typed) press(key, text string) {
	switch key {
	case "backspace":
		_, n := utf8.DecodeLastRuneInString(string(*t))
		*t = (*t)[:len(*t)-n]
	case "ctrl+u":
		*t = ""
	default:
		t.write(text)
	}
}

// write appends text. Line ends become spaces, and the length is limited.
func (t *typed) write(text string) {
	for _, c := range ui.OneLine(text) {
		if len(*t)+utf8.RuneLen(c) > reasonMost {
			return
		}
		*t += typed(c)
	}
}

func (t typed) trimmed() string { return strings.TrimSpace(string(t)) }

// answer answers the shown question.
func (q *queue) answer(answer pb.Answer, note string) action {
	d := q.detail
	decision := &pb.Decision{Id: d.id, Subject: d.question.GetSubject(), Answer: answer, Note: note, Surface: q.app.Surface()}
	if answer == pb.Answer_ANSWER_APPROVE {
		decision.Edit = d.edit
	}
	if d.grant != nil {
		var err error
		if decision.Grant, err = d.grant.terms(); err != nil {
			q.status = display.Text(err.Error())
			return action{}
		}
	}
	d.sent, d.ask, d.typed, d.grant = true, askNothing, "", nil
	return action{decide: decision}
}
