package main

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/client/inbox"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

const (
	// settling is for how long a and d do nothing after the selection has moved
	// by itself: a key that was meant for another question is on its way by then.
	settling = 500 * time.Millisecond

	// rowParams is how many bytes of params a row keeps. A row with more keeps
	// what of them fits into rowShort columns, so that 256 questions of any size
	// take little memory.
	rowParams = 4 << 10
	rowShort  = 200

	// endedKept is how many questions that have ended are still listed.
	endedKept = 8
)

// queue is what the full-screen queue knows: its screen is made of this and of
// the time alone. It is told of keys and of what the daemon says, and answers
// with what is to be done; it knows neither a terminal nor a connection. It is
// used by one goroutine.
//
// Two things hold at any time. An answer names the subject of the question that
// is on the screen in full, never one that is only listed. And what happens by
// itself, a question that comes or ends, never makes a key mean something else:
// a and d pause after the selection has moved by itself, and a question that
// ends while it is looked at stays on the screen until it is left.
type queue struct {
	app           *app // the clock, and how questions are laid out
	width, height int

	rows     []*openRow     // open questions, oldest first
	ended    []display.Safe // how the last others ended, newest first
	selected string         // id of a row; empty when there is none
	wanted   string         // id to select when it comes
	moved    time.Time      // when the selection moved by itself
	status   display.Safe   // what happened last
	offline  bool           // there is no daemon

	detail *detail // the question that is shown in full; nil: the list is shown
}

// openRow is an open question in the list.
type openRow struct {
	id               string
	subject          []byte
	created, expires time.Time

	agent, server, call, why display.Safe

	workflow string
	grave    bool // facts say that it should not be overlooked
	proof    bool // a yes needs a secret

	params []byte       // what is shown of the call, if that is not long
	short  display.Safe // the beginning of longer ones
	size   int          // bytes of params
}

// wish is what is to be done after the queue was told something.
type wish struct {
	read          *detail // for which its question is to be read
	decide        *pb.Decision
	edit          *pb.Approval // the question whose arguments are to be edited
	quit, suspend bool
}

// newRow makes the row of an open question. It keeps nothing of q.
func newRow(q *pb.Approval) *openRow {
	r := &openRow{
		id: q.GetId(), subject: bytes.Clone(q.GetSubject()),
		created: q.GetCreated().AsTime(), expires: q.GetExpires().AsTime(),
		agent: clipped(orDash(q.GetAgent())), server: clipped(display.Name(q.GetServer())),
		call: clipped(callName(q.GetMethod(), q.GetTool())), why: clipped(because(q)),
		workflow: strings.Clone(q.GetWorkflow()), grave: isGrave(q.GetFacts()), proof: needsProof(q),
	}
	params := shownParams(q)
	r.size = max(len(params), int(min(q.GetArgumentsBytes(), math.MaxInt32)))
	if r.size <= rowParams && q.GetArgumentsBytes() == 0 {
		r.params = slices.Clone(params)
	} else { // or they are the beginnings of longer ones
		r.short = clipped(display.JSONLine(params, rowShort, ""))
	}
	return r
}

// endLine says how a question ended.
func endLine(q *pb.Approval) display.Safe {
	if q.GetState() == pb.ApprovalState_APPROVAL_STATE_UNSPECIFIED {
		return display.Name(q.GetId()) + " is not known to the daemon any more"
	}
	line := display.Name(q.GetId()) + " " + stateWord(q)
	if q.GetDecider() != "" {
		line += " by " + display.Text(q.GetDecider())
	}
	if q.GetSurface() != "" {
		line += ", " + display.Name(q.GetSurface())
	}
	if q.GetApprover() != "" {
		line += " " + display.Name(q.GetApprover())
	}
	if q.GetNote() != "" {
		line += ": " + display.Text(q.GetNote())
	}
	return clipped(line + "; " + callName(q.GetMethod(), q.GetTool()))
}

// event takes what the inbox says.
func (q *queue) event(e inbox.Event) wish {
	switch e.Kind {
	case inbox.Connected:
		return q.connected()
	case inbox.Lost:
		q.offline = true // what is asked stays on the screen
	case inbox.Open:
		q.came(newRow(e.Question))
	case inbox.Ended:
		q.went(e.Question.GetId(), endLine(e.Question))
	}
	return wish{}
}

// came tells of a question that is open.
func (q *queue) came(r *openRow) {
	if i := q.find(r.id); i >= 0 {
		q.rows[i] = r
	} else {
		q.rows = append(q.rows, r)
	}
	if q.selected == "" || r.id == q.wanted {
		q.selected, q.moved = r.id, q.app.now()
		if r.id == q.wanted {
			q.wanted = ""
		}
	}
}

// went tells of a question that has ended, and how. It may be told of one again.
func (q *queue) went(id string, how display.Safe) {
	q.remove(id)
	if d := q.detail; d != nil && d.id == id {
		d.end(how)
	}
	if slices.Contains(q.ended, how) {
		return
	}
	q.status = how
	q.ended = append([]display.Safe{how}, q.ended...)
	q.ended = q.ended[:min(len(q.ended), endedKept)]
}

// remove takes a row out of the list. The one after it is selected instead.
func (q *queue) remove(id string) {
	i := q.find(id)
	if i < 0 {
		return
	}
	q.rows = slices.Delete(q.rows, i, i+1)
	if id != q.selected {
		return
	}
	q.selected, q.moved = "", q.app.now()
	if len(q.rows) > 0 {
		q.selected = q.rows[min(i, len(q.rows)-1)].id
	}
}

func (q *queue) find(id string) int {
	return slices.IndexFunc(q.rows, func(r *openRow) bool { return r.id == id })
}

// connected tells that the daemon is there.
func (q *queue) connected() wish {
	if q.offline {
		q.offline, q.status = false, "connected again"
	}
	if q.detail != nil && q.detail.ended == "" {
		return wish{read: q.detail} // it may have ended meanwhile
	}
	return wish{}
}

// settled reports whether the selection is what the person at the keyboard sees.
func (q *queue) settled() bool { return q.app.now().Sub(q.moved) >= settling }

// open shows the selected question in full, and once that is done asks for an
// answer, if one is wanted.
func (q *queue) open(then prompt) wish {
	i := q.find(q.selected)
	if i < 0 {
		return wish{}
	}
	q.detail = &detail{id: q.selected, title: q.rows[i].call + " on " + q.rows[i].server, expires: q.rows[i].expires, then: then}
	return wish{read: q.detail}
}

// answered tells what became of an answer; err is nil when it counts, and done says
// how.
func (q *queue) answered(d *pb.Decision, done *pb.Decided, err error) wish {
	shown := q.detail
	if shown != nil && shown.id != d.GetId() {
		shown = nil
	}
	if shown != nil {
		shown.sent = false
	}
	if err != nil {
		q.status = failureLine(d.GetId(), err)
		return wish{}
	}
	q.status = "approved " + display.Name(d.GetId())
	if d.GetAnswer() == pb.Answer_ANSWER_DENY {
		q.status = "denied " + display.Name(d.GetId())
	}
	if d.GetEdit() != nil {
		q.status += " with your arguments"
	}
	if id := done.GetGrant().GetId(); id != "" {
		q.status += ", granted " + display.Name(id) + " (undo: tgctl grants revoke " + display.Name(id) + ")"
	}
	q.remove(d.GetId())
	if shown != nil {
		q.status += ": " + shown.title
		q.leave()
	}
	return wish{}
}

// failureLine says in one line why a question could not be read or answered.
func failureLine(id string, err error) display.Safe {
	if exitCode(err) == exitNotRunning {
		return display.Name(approvalID(id)) + ": no answer from the daemon; see whether it is still listed (" + display.Text(client.ErrNotRunning.Error()) + ")"
	}
	err = approvalFailure(id, err)
	line := err.Error()
	if hint := new(hintError); errors.As(err, &hint) {
		line += ". " + hint.hint
	}
	return clipped(display.Text(line))
}
