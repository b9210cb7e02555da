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
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

const (
	// settling is how long the answer keys do nothing after the selection has moved by itself:
	// such a key was meant for another question.
	settling = 500 * time.Millisecond

	// rowParams is the maximum size in bytes of the params that a row keeps. Of longer params
	// it keeps only what fits into rowShort columns, so that 256 questions of any size use
	// little memory.
	rowParams = 4 << 10
	rowShort  = 200

	// endedKept is how many questions that have ended are listed.
	endedKept = 8
)

// queue is the state of the full-screen queue. The screen depends only on the queue and the
// time. Its methods handle keys and the daemon's events, and return a wish: what to do next. A
// queue knows neither the terminal nor the connection. It is used by one goroutine.
//
// Two invariants hold. An answer names the subject of the question that is shown in full, never
// of one that is only listed. And an event, such as a new question or the end of one, never
// changes the meaning of a key: the answer keys pause after the selection has moved by itself,
// and a question that ends while it is shown stays on the screen until the person leaves it.
type queue struct {
	app           *app // for the clock and the layout of questions
	width, height int

	rows     []*openRow     // open questions, oldest first
	ended    []display.Safe // how the latest questions ended, newest first
	selected string         // id of a row; empty if there are no rows
	wanted   string         // id to select when its question arrives
	moved    time.Time      // when the selection last moved by itself
	status   display.Safe   // the latest event
	offline  bool           // not connected to the daemon

	detail *detail // the question that is shown in full; nil if the list is shown
}

// openRow is an open question in the list.
type openRow struct {
	id               string
	subject          []byte
	created, expires time.Time

	agent, server, call, why display.Safe

	workflow string
	grave    bool // its facts mark it as risky
	proof    bool // approving it needs a secret

	params []byte       // params of the call, unless they are long
	short  display.Safe // the beginning of long params
	size   int          // size of the params in bytes
}

// action is what the queue wants done after an event or key.
type action struct {
	read          *detail // read the question of this detail
	decide        *pb.Decision
	edit          *pb.Approval // let the person edit the arguments of this question
	quit, suspend bool
}

// newRow returns a row for an open question. It does not retain q.
func newRow(q *pb.Approval) *openRow {
	r := &openRow{
		id: q.GetId(), subject: bytes.Clone(q.GetSubject()),
		created: q.GetCreated().AsTime(), expires: q.GetExpires().AsTime(),
		agent: clipped(ui.OrDash(q.GetAgent())), server: clipped(display.Name(q.GetServer())),
		call: clipped(ui.CallName(q.GetMethod(), q.GetTool())), why: clipped(because(q)),
		workflow: strings.Clone(q.GetWorkflow()), grave: isGrave(q.GetFacts()), proof: needsProof(q),
	}
	params := shownParams(q)
	r.size = max(len(params), int(min(q.GetArgumentsBytes(), math.MaxInt32)))
	if r.size <= rowParams && q.GetArgumentsBytes() == 0 {
		r.params = slices.Clone(params)
	} else { // long, or only the beginning was sent
		r.short = clipped(display.JSONLine(params, rowShort, ""))
	}
	return r
}

// endLine says how a question ended.
func endLine(q *pb.Approval) display.Safe {
	if q.GetState() == pb.ApprovalState_APPROVAL_STATE_UNSPECIFIED {
		return display.Name(q.GetId()) + " is no longer known to the daemon"
	}
	line := display.Name(q.GetId()) + " " + stateWord(q)
	line += ui.Choose(q.GetDecider() != "", " by "+display.Text(q.GetDecider()), "")
	line += ui.Choose(q.GetSurface() != "", ", "+display.Name(q.GetSurface()), "")
	line += ui.Spaced(display.Name(q.GetApprover())) + ui.AfterColon(display.Text(q.GetNote()))
	return clipped(line + "; " + ui.CallName(q.GetMethod(), q.GetTool()))
}

// event handles an event of the inbox.
func (q *queue) event(e inbox.Event) action {
	switch e.Kind {
	case inbox.Connected:
		return q.connected()
	case inbox.Lost:
		q.offline = true // the shown question stays on the screen
	case inbox.Open:
		q.addRow(newRow(e.Question))
	case inbox.Ended:
		q.handleEnd(e.Question.GetId(), endLine(e.Question))
	}
	return action{}
}

// addRow adds or replaces the row of an open question.
func (q *queue) addRow(r *openRow) {
	if i := q.find(r.id); i >= 0 {
		q.rows[i] = r
	} else {
		q.rows = append(q.rows, r)
	}
	if q.selected == "" || r.id == q.wanted {
		q.selected, q.moved = r.id, q.app.Now()
		if r.id == q.wanted {
			q.wanted = ""
		}
	}
}

// handleEnd handles the end of a question. It may be called more than once for the same end.
func (q *queue) handleEnd(id string, how display.Safe) {
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

// remove removes a row. If it was selected, the next row becomes selected.
func (q *queue) remove(id string) {
	i := q.find(id)
	if i < 0 {
		return
	}
	q.rows = slices.Delete(q.rows, i, i+1)
	if id != q.selected {
		return
	}
	q.selected, q.moved = "", q.app.Now()
	if len(q.rows) > 0 {
		q.selected = q.rows[min(i, len(q.rows)-1)].id
	}
}

func (q *queue) find(id string) int {
	return slices.IndexFunc(q.rows, func(r *openRow) bool { return r.id == id })
}

// connected handles a new connection to the daemon.
func (q *queue) connected() action {
	if q.offline {
		q.offline, q.status = false, "connected again"
	}
	if q.detail != nil && q.detail.ended == "" {
		return action{read: q.detail} // it may have ended meanwhile
	}
	return action{}
}

// settled reports whether the selection has not moved by itself within the last settling.
func (q *queue) settled() bool { return q.app.Now().Sub(q.moved) >= settling }

// open shows the selected question in full. Once it is read, the prompt then is shown.
func (q *queue) open(then prompt) action {
	i := q.find(q.selected)
	if i < 0 {
		return action{}
	}
	q.detail = &detail{id: q.selected, title: q.rows[i].call + " on " + q.rows[i].server, expires: q.rows[i].expires, then: then}
	return action{read: q.detail}
}

// handleDecided handles the result of the decision d. If err is nil, the decision counts and done
// describes it.
func (q *queue) handleDecided(d *pb.Decision, done *pb.Decided, err error) action {
	shown := q.detail
	if shown != nil && shown.id != d.GetId() {
		shown = nil
	}
	if shown != nil {
		shown.sent = false
	}
	if err != nil {
		q.status = failureLine(d.GetId(), err)
		return action{}
	}
	q.status = ui.Choose(d.GetAnswer() == pb.Answer_ANSWER_DENY, "denied ", "approved ") + display.Name(d.GetId())
	q.status += ui.Choose(d.GetEdit() != nil, " with your arguments", "")
	if id := done.GetGrant().GetId(); id != "" {
		q.status += ", granted " + display.Name(id) + " (undo: tgctl grants revoke " + display.Name(id) + ")"
	}
	q.remove(d.GetId())
	if shown != nil {
		q.status += ": " + shown.title
		q.leave()
	}
	return action{}
}

// failureLine says in one line why a question could not be read or answered.
func failureLine(id string, err error) display.Safe {
	if ui.ExitCode(err) == ui.ExitNotRunning {
		return display.Name(approvalID(id)) + ": no answer from the daemon; check whether it is still listed (" + display.Text(client.ErrNotRunning.Error()) + ")"
	}
	err = approvalFailure(id, err)
	line := err.Error()
	if hint, ok := errors.AsType[*ui.HintError](err); ok {
		line += ". " + hint.Hint
	}
	return clipped(display.Text(line))
}
