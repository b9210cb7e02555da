package inbox

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// prompt is what the bottom lines of the screen ask for.
type prompt int

const (
	askNothing prompt = iota
	askYes            // only y approves
	askNo             // enter denies, with the typed reason
	askGrant          // the person sets the terms of a grant; y approves with it
	askEdit           // the arguments are edited first
	askProof          // says where to approve a question that needs a secret
	askLogin          // says how to log in, which nobody can approve
)

// detail is one question shown in full. An answer given here names its subject.
type detail struct {
	id       string
	title    display.Safe
	expires  time.Time
	then     prompt       // prompt to show once the question is on the screen
	question *pb.Approval // nil until it is read
	past     *past

	body    []ui.Line // laid out for columns columns
	columns int
	top     int    // index of the first line of body on the screen
	must    int    // how many lines of body, from the first, must have been on the screen before an approval
	seen    []bool // which lines of body have been on the screen

	edit     []byte     // arguments to send instead; nil for the agent's
	inEditor bool       // the person is editing the arguments
	grant    *grantForm // for askGrant

	ask   prompt
	typed typed        // the reason typed so far
	sent  bool         // an answer was sent, and no reply has arrived
	ended display.Safe // why it can no longer be answered; empty if it can
}

// end marks the question as ended. An open prompt stays until the person leaves it, since the
// keys being typed would have another meaning elsewhere.
func (d *detail) end(how display.Safe) { d.ended, d.then = how, askNothing }

// loaded handles the question read for d, or the error of reading it.
func (q *queue) loaded(d *detail, read *pb.Approval, err error) action {
	if q.detail != d {
		return action{} // it is no longer shown
	}
	if err != nil {
		q.status = approval.FailureLine(d.id, err)
		if d.question == nil || errors.Is(err, client.ErrNotFound) {
			d.end(q.status)
		}
		return action{}
	}
	switch {
	case !approval.IsOpen(read):
		d.end(approval.EndLine(read))
	case d.question != nil && !bytes.Equal(d.question.GetSubject(), read.GetSubject()):
		d.end(display.Name(d.id) + " is a different question now; show it again")
	case d.question == nil:
		d.question, d.expires = read, read.GetExpires().AsTime()
		q.layout()
		q.look() // it is drawn together with what is asked
		then := d.then
		d.then = askNothing
		return q.prompt(then)
	}
	return action{}
}

// prompt shows the prompt then for the shown question, if the question can be answered.
func (q *queue) prompt(then prompt) action {
	d := q.detail
	switch {
	case then == askNothing:
	case !q.answerable() && q.offline && d.ended == "":
		q.status = "not connected: answering is not possible now"
	case !q.answerable():
	case then != askNo && approval.LoginCommand(d.question) != "":
		d.ask = askLogin
	case (then == askGrant || then == askEdit) && d.question.GetDevice() != "": // the keys below do not offer it
	case then != askNo && approval.NeedsProof(d.question): // no secret is typed where keys have a meaning
		d.ask = askProof
	case (then == askYes || then == askGrant) && d.unread() > 0:
		q.scroll(d.firstUnread() - d.top)
	case then == askEdit:
		d.inEditor = true
		return action{edit: d.question}
	case then == askGrant && d.edit != nil:
		q.status = "a grant needs the agent's arguments: esc discards yours"
	case then == askGrant:
		d.ask, d.grant = askGrant, newShaping(d.question)
	default:
		d.ask = then
	}
	return action{}
}

// setHistory handles the history of the question shown in d.
func (q *queue) setHistory(d *detail, p *past) action {
	if q.detail == d && d.question != nil {
		d.past = p
		q.layout()
	}
	return action{}
}

// layout lays out the shown question for the width of the screen: what it is about, its arguments, how
// they differ from those approved last, what the agent did before, and where it comes from.
func (q *queue) layout() {
	d := q.detail
	if d == nil || d.question == nil {
		return
	}
	columns, now := q.paneWidth(), q.app.Now()
	rewrapped := d.columns != columns
	d.columns, d.body = columns, nil
	add := func(lines []ui.Line) {
		for _, l := range lines {
			d.body = append(d.body, broken(l, columns)...)
		}
	}
	blank := []ui.Line{{}}
	core := &ui.Sheet{}
	approval.AddCore(core, d.question, now)
	add(core.Toned(columns))
	if d.edit != nil {
		add(blank)
		add(editedLines(d.question, d.edit, columns))
		d.must = len(d.body)
		add(ui.InTone(display.Faint, "", "the call of the agent:"))
	}
	if len(d.question.GetArguments()) > 0 {
		add(paramLines(d.question, columns))
	}
	if d.edit == nil {
		d.must = len(d.body)
	}
	if d.past != nil {
		add(blank)
		add(d.past.lines(d.question, now, columns))
	}
	context := &ui.Sheet{}
	approval.AddContext(context, d.question, now)
	addTraces(context, d.question)
	add(blank)
	add(context.Toned(columns))
	if rewrapped || len(d.body) < len(d.seen) {
		d.seen = nil // the lines are not the same any more
	}
	d.seen = append(d.seen, make([]bool, len(d.body)-len(d.seen))...)
	q.scroll(0)
}

// scroll scrolls the question by lines, within its bounds.
func (q *queue) scroll(lines int) {
	d := q.detail
	d.top = max(0, min(d.top+lines, len(d.body)-q.bodyHeight()))
}

// look records which lines of the question are on the screen.
func (q *queue) look() {
	d := q.detail
	if d == nil || d.question == nil || q.tooSmall() || q.help || d.ask == askGrant || d.inEditor {
		return
	}
	for i := d.top; i < min(d.top+q.bodyHeight(), len(d.body)); i++ {
		d.seen[i] = true
	}
	if d.unread() == 0 && d.edit == nil && d.ended == "" {
		if q.read == nil {
			q.read = map[string][]byte{}
		}
		q.read[d.id] = d.question.GetSubject()
	}
}

// countSeen returns how many lines have been on the screen.
func (d *detail) countSeen() int {
	return len(ui.Filter(d.seen, func(seen bool) bool { return seen }))
}

// unread returns how many lines that must be read before an approval have not been on the screen.
func (d *detail) unread() int {
	return len(ui.Filter(d.seen[:min(d.must, len(d.seen))], func(seen bool) bool { return !seen }))
}

// firstUnread returns the first line that has not been on the screen.
func (d *detail) firstUnread() int { return slices.Index(d.seen, false) }

// bodyHeight returns how many lines of a question fit between the title and the two bottom
// lines.
func (q *queue) bodyHeight() int { return max(0, q.height-3) }

// answerable reports whether the shown question can be answered now.
func (q *queue) answerable() bool {
	d := q.detail
	return d != nil && d.question != nil && d.ended == "" && !d.sent && !d.inEditor && !q.offline && !q.tooSmall()
}
