package inbox

import (
	"slices"
	"strings"
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
// Three invariants hold. An approval names the subject of a question that was shown in full, never
// of one that is only listed, and all that must be read of it was on the screen. An event, such as
// a new question or the end of one, never changes the meaning of a key: the answer keys pause after
// the selection has moved by itself, and a question that ends while keys go to it stays on the screen
// until the person leaves it. What is denied without being shown was listed when it was asked for.
type queue struct {
	app           *app // for the clock and the layout of questions
	width, height int

	rows     []*approval.Row // open questions, oldest first; those whose agents moved on come last
	listed   []*approval.Row // the rows that the filter lets through
	ended    []display.Safe  // how the latest questions ended, newest first
	selected string          // id of a row; empty if none is listed
	wanted   string          // id to select when its question arrives
	fallback bool            // nothing but questions whose agents moved on was there to select, and no key was pressed since
	moved    time.Time       // when the selection last moved by itself
	status   display.Safe    // the latest event
	offline  bool            // not connected to the daemon

	filter typed
	typing bool // keys go to the filter
	marked map[string]bool
	read   map[string][]byte // subjects of open questions of which all that must be read was on the screen
	bulk   *bulk             // an answer to several questions that is being confirmed; nil if there is none

	detail *detail // the question that is shown in full; nil if there is none
	inside bool    // keys go to the detail; true whenever it is shown alone

	help    bool // the keys are shown instead
	helpTop int

	bell    bool // rings for new questions
	rang    time.Time
	started time.Time // older questions don't ring
}

// action is what the queue wants done after an event or key.
type action struct {
	read          *detail // read the question of this detail
	decide        *pb.Decision
	decideAll     []*pb.Decision // several, one after the other
	edit          *pb.Approval   // let the person edit the arguments of this question
	quit, suspend bool
	ring          bool
}

// isNothing reports whether nothing is wanted but a bell.
func (a action) isNothing() bool {
	return a.read == nil && a.decide == nil && a.decideAll == nil && a.edit == nil && !a.quit && !a.suspend
}

// event handles an event of the inbox.
func (q *queue) event(e inbox.Event) action {
	switch e.Kind {
	case inbox.Connected:
		return q.connected()
	case inbox.Lost:
		q.offline = true // the shown question stays on the screen
	case inbox.Open:
		return action{ring: q.addRow(approval.NewRow(e.Question))}
	case inbox.Ended:
		q.handleEnd(e.Question.GetId(), approval.EndLine(e.Question))
	}
	return action{}
}

// bellPause is how long the bell is silent after it has rung.
const bellPause = time.Second

// addRow adds or replaces the row of an open question, and reports whether the bell is to ring.
func (q *queue) addRow(r *approval.Row) bool {
	i := q.find(r.ID)
	switch {
	case i >= 0 && q.rows[i].MovedOn == r.MovedOn:
		q.rows[i] = r
	case i >= 0:
		q.rows = slices.Delete(q.rows, i, i+1)
		fallthrough
	default:
		at := len(q.rows)
		if first := slices.IndexFunc(q.rows, func(r *approval.Row) bool { return r.MovedOn }); first >= 0 && !r.MovedOn {
			at = first
		}
		q.rows = slices.Insert(q.rows, at, r)
	}
	q.list()
	if q.isListed(r.ID) && (q.selected == "" || q.fallback && !r.MovedOn) || r.ID == q.wanted {
		q.selected, q.fallback, q.moved = r.ID, r.MovedOn, q.app.Now()
		if r.ID == q.wanted {
			q.wanted = ""
		}
	}
	now := q.app.Now()
	rings := q.bell && i < 0 && r.Created.After(q.started) && now.Sub(q.rang) >= bellPause
	if rings {
		q.rang = now
	}
	return rings
}

// list finds the rows that the filter lets through.
func (q *queue) list() {
	if q.filter == "" {
		q.listed = q.rows
		return
	}
	want := strings.ToLower(string(q.filter))
	q.listed = ui.Filter(q.rows, func(r *approval.Row) bool {
		text := ui.Join([]display.Safe{display.Name(r.ID), r.Agent, r.Server, r.Call, r.Why, r.Danger, r.Short, display.Bytes(r.Params)}, "\n")
		return strings.Contains(strings.ToLower(string(text)), want)
	})
}

// at returns where a question is in the list, -1 if it is not listed.
func (q *queue) at(id string) int {
	return slices.IndexFunc(q.listed, func(r *approval.Row) bool { return r.ID == id })
}

func (q *queue) isListed(id string) bool { return q.at(id) >= 0 }

// handleEnd handles the end of a question. It may be called more than once for the same end.
func (q *queue) handleEnd(id string, how display.Safe) {
	q.remove(id)
	if d := q.detail; d != nil && d.id == id {
		if d.end(how); !q.inside { // keys go to the list, which has gone on
			q.detail = nil
		}
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
	delete(q.marked, id)
	delete(q.read, id)
	i := q.find(id)
	if i < 0 {
		return
	}
	at := q.at(id)
	q.rows = slices.Delete(q.rows, i, i+1)
	q.list()
	if id == q.selected {
		q.selected, q.moved = "", q.app.Now()
		q.selectRow(at)
	}
}

// selectRow selects the row at a place in the list, or the last one before it.
func (q *queue) selectRow(at int) {
	q.selected = ""
	if len(q.listed) > 0 {
		q.selected = q.listed[max(0, min(at, len(q.listed)-1))].ID
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

// open gives the keys to the selected question, shown in full. Once it is read, the prompt then is shown.
func (q *queue) open(then prompt) action {
	q.inside = true
	if d := q.detail; d != nil && d.id == q.selected && d.question != nil {
		return q.prompt(then)
	}
	return q.show(then)
}

// show shows the selected question in full.
func (q *queue) show(then prompt) action {
	i := q.find(q.selected)
	if i < 0 {
		q.detail, q.inside = nil, false
		return action{}
	}
	q.detail = &detail{id: q.selected, title: q.rows[i].Call + " on " + q.rows[i].Server, expires: q.rows[i].Expires, then: then}
	return action{read: q.detail}
}

// follow shows the selected question beside the list, if there is room and keys go to the list.
func (q *queue) follow() action {
	switch d := q.detail; {
	case q.inside:
		return action{}
	case !q.split() || q.selected == "":
		q.detail = nil
		return action{}
	case d != nil && d.id == q.selected:
		return action{}
	}
	return q.show(askNothing)
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
	if shown != nil {
		q.status += ": " + shown.title
		q.leave()
		q.detail = nil
	}
	q.remove(d.GetId())
	return action{}
}
