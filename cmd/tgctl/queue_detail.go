package main

import (
	"bytes"
	"errors"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// prompt is what the last lines of the screen ask for.
type prompt int

const (
	askNothing prompt = iota
	askYes            // y and nothing else approves
	askNo             // enter denies, with the reason typed
	askGrant          // a grant is shaped, and y approves and gives it
	askEdit           // nothing: the arguments are to be edited first
	askProof          // says where a yes can be given, which needs a secret
)

// detail is one question in full. Everything in it is of the question whose
// subject it names, and an answer given here names that subject.
type detail struct {
	id       string
	title    display.Safe
	expires  time.Time
	then     prompt       // to be asked once the question is on the screen
	question *pb.Approval // nil before it was read
	past     *past

	body    []display.Safe // as laid out for columns columns
	columns int
	top     int    // the first line of body on the screen
	seen    []bool // which lines of body were on the screen

	edit     []byte   // the arguments that are to be sent instead; nil for the agent's
	inEditor bool     // they are being written
	grant    *shaping // of askGrant

	ask   prompt
	typed string       // the reason, so far
	sent  bool         // an answer is on its way
	ended display.Safe // it can't be answered any more, and why
}

// end tells that the question can't be answered any more. A prompt stays until
// it is left: what is being typed into it would mean something else elsewhere.
func (d *detail) end(how display.Safe) { d.ended, d.then = how, askNothing }

// loaded tells of the question that was read for d, or why it could not be.
func (q *queue) loaded(d *detail, read *pb.Approval, err error) wish {
	if q.detail != d {
		return wish{} // it is not looked at any more
	}
	if err != nil {
		q.status = failureLine(d.id, err)
		if d.question == nil || errors.Is(err, client.ErrNotFound) {
			d.end(q.status)
		}
		return wish{}
	}
	switch {
	case !isOpen(read):
		d.end(endLine(read))
	case d.question != nil && !bytes.Equal(d.question.GetSubject(), read.GetSubject()):
		d.end(display.Name(d.id) + " is another question by now; look at it again")
	case d.question == nil:
		d.question, d.expires = read, read.GetExpires().AsTime()
		q.layout()
		then := d.then
		d.then = askNothing
		return q.prompt(then)
	}
	return wish{}
}

// prompt asks for what is wanted of the question that is shown, if it can be
// answered.
func (q *queue) prompt(then prompt) wish {
	d := q.detail
	switch {
	case then == askNothing:
	case !q.answerable() && q.offline && d.ended == "":
		q.status = "not connected: nothing can be answered now"
	case !q.answerable():
	case then != askNo && needsProof(d.question): // a secret is not typed where keys mean something
		d.ask = askProof
	case then == askEdit:
		d.inEditor = true
		return wish{edit: d.question}
	case then == askGrant && d.edit != nil:
		q.status = "a grant is for calls as they were asked about: esc drops what you wrote"
	case then == askGrant:
		d.ask, d.grant = askGrant, newShaping(d.question)
	default:
		d.ask = then
	}
	return wish{}
}

// recalled tells what went before the question that was read for d.
func (q *queue) recalled(d *detail, p *past) wish {
	if q.detail == d && d.question != nil {
		d.past = p
		q.layout()
	}
	return wish{}
}

// layout lays out the question that is shown for the width of the screen.
func (q *queue) layout() {
	d := q.detail
	if d == nil || d.question == nil {
		return
	}
	rewrapped := d.columns != q.width
	d.columns, d.body = q.width, nil
	add := func(lines []display.Safe) {
		for _, line := range lines {
			d.body = append(d.body, broken(line, q.width)...)
		}
	}
	about := q.app.questionSheet(d.question)
	about.names, about.values = about.names[1:], about.values[1:] // its id and time stand above
	add(about.lines(q.width))
	if d.edit != nil {
		add([]display.Safe{""})
		add(editedLines(d.question, d.edit, q.width))
	}
	if len(d.question.GetArguments()) > 0 {
		add(jsonLines("params", d.question.GetArguments(), q.width))
	}
	if d.past != nil {
		add([]display.Safe{""})
		add(d.past.lines(d.question, q.app.now(), q.width))
	}
	traces := &sheet{}
	addTraces(traces, d.question)
	add([]display.Safe{""})
	add(traces.lines(q.width))
	if rewrapped || len(d.body) < len(d.seen) {
		d.seen = nil // they were other lines
	}
	d.seen = append(d.seen, make([]bool, len(d.body)-len(d.seen))...)
	q.scroll(0)
}

// scroll moves what is shown of the question by lines, as far as there are any,
// and notes what is on the screen now.
func (q *queue) scroll(lines int) {
	d := q.detail
	room := q.bodyHeight()
	d.top = max(0, min(d.top+lines, len(d.body)-room))
	for i := d.top; i < min(d.top+room, len(d.body)) && !q.tooSmall(); i++ {
		d.seen[i] = true
	}
}

// bodyHeight is how many lines of a question fit on the screen: a title stands
// above them, two lines below.
func (q *queue) bodyHeight() int { return max(0, q.height-3) }

// answerable reports whether the question that is shown can be answered now.
func (q *queue) answerable() bool {
	d := q.detail
	return d != nil && d.question != nil && d.ended == "" && !d.sent && !d.inEditor && !q.offline && !q.tooSmall()
}
