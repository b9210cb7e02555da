package inbox

import (
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/client/inbox"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

const (
	// settling is how long the answer keys do nothing after the selection has moved by itself:
	// such a key was meant for another question.
	settling = 500 * time.Millisecond

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

	rows     []*approval.Row // open questions, oldest first
	ended    []display.Safe  // how the latest questions ended, newest first
	selected string          // id of a row; empty if there are no rows
	wanted   string          // id to select when its question arrives
	moved    time.Time       // when the selection last moved by itself
	status   display.Safe    // the latest event
	offline  bool            // not connected to the daemon

	detail *detail // the question that is shown in full; nil if the list is shown
}

// action is what the queue wants done after an event or key.
type action struct {
	read          *detail // read the question of this detail
	decide        *pb.Decision
	edit          *pb.Approval // let the person edit the arguments of this question
	quit, suspend bool
}

// event handles an event of the inbox.
func (q *queue) event(e inbox.Event) action {
	switch e.Kind {
	case inbox.Connected:
		return q.connected()
	case inbox.Lost:
		q.offline = true // the shown question stays on the screen
	case inbox.Open:
		q.addRow(approval.NewRow(e.Question))
	case inbox.Ended:
		q.handleEnd(e.Question.GetId(), approval.EndLine(e.Question))
	}
	return action{}
}

// addRow adds or replaces the row of an open question.
func (q *queue) addRow(r *approval.Row) {
	if i := q.find(r.ID); i >= 0 {
		q.rows[i] = r
	} else {
		q.rows = append(q.rows, r)
	}
	if q.selected == "" || r.ID == q.wanted {
		q.selected, q.moved = r.ID, q.app.Now()
		if r.ID == q.wanted {
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
		q.selected = q.rows[min(i, len(q.rows)-1)].ID
	}
}

func (q *queue) find(id string) int {
	return slices.IndexFunc(q.rows, func(r *approval.Row) bool { return r.ID == id })
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
	q.detail = &detail{id: q.selected, title: q.rows[i].Call + " on " + q.rows[i].Server, expires: q.rows[i].Expires, then: then}
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
		q.status = approval.FailureLine(d.GetId(), err)
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
