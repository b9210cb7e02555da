package notify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/client/inbox"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/proc"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

const (
	// minPressDelay is how long Approve does nothing after it has appeared. Nobody reads and
	// presses that fast, but a click meant for something else may be on its way.
	minPressDelay = 300 * time.Millisecond

	// forgeryLogInterval is how long after the report of a forged press no other is reported.
	forgeryLogInterval = 10 * time.Second
)

// desktopSurface is the surface of answers from this program.
const desktopSurface = "desktop"

// Actions of the buttons. A key on the bus is one of these, a colon, and the nonce of the
// notification.
const (
	pressApprove = "approve"
	pressDeny    = "deny"
	pressShow    = "show"
)

// event handles an event of the notification daemon about any program's notification.
func (n *notifier) event(ctx context.Context, e deskEvent) {
	if e.sender != n.desk.server() {
		return // from a previous notification daemon
	}
	verb, nonce, _ := strings.Cut(e.key, ":")
	// genuine reports whether the pressed button is one that this process has added.
	genuine := func(s *shown) bool {
		if nonce == s.nonce {
			return true
		}
		n.log.Warn("refused a press of a button that was not offered", "notification", e.id, "key", string(display.Name(verb)))
		return false
	}
	i := slices.IndexFunc(n.questions, func(q *question) bool { return q.note != nil && q.note.id == e.id })
	at := slices.IndexFunc(n.late, func(l retired) bool { return l.id == e.id })
	switch {
	case i >= 0 && e.key == "":
		n.questions[i].note, n.questions[i].away = nil, true
	case i >= 0 && genuine(n.questions[i].note):
		n.press(ctx, n.questions[i], verb)
	case i >= 0:
	case n.summary != nil && n.summary.id == e.id && e.key == "":
		n.handleSummaryClosed()
	case n.summary != nil && n.summary.id == e.id && genuine(&n.summary.shown):
		n.openTerminal(ctx, n.summary.of, "approvals", "watch")
	case at >= 0 && e.key != "" && verb != pressShow && genuine(&n.late[at].shown):
		n.tooLate(ctx, n.late[at].question, verb, n.late[at].how)
	}
}

// handleSummaryClosed handles that the summary was closed: its questions are not shown again.
func (n *notifier) handleSummaryClosed() {
	for _, id := range n.summary.of {
		if q := n.find(id); q != nil {
			q.away = true
		}
	}
	n.summary = nil
}

// press handles a press of a question's button.
func (n *notifier) press(ctx context.Context, q *question, verb string) {
	switch verb {
	case pressShow:
		n.openTerminal(ctx, []string{q.row.ID}, "approvals", "watch", q.row.ID)
	case pressDeny:
		n.decide(ctx, q, verb, pb.Answer_ANSWER_DENY)
	case pressApprove:
		switch {
		case !q.note.approve:
			n.log.Warn("refused a press of a button that was not offered", "question", q.row.ID, "key", verb)
		case n.now().Sub(q.note.at) < minPressDelay:
			n.retire(ctx, q, "")
			n.showMessage(ctx, display.Name(q.row.ID)+": not approved", "The button was pressed too soon after it appeared. The question is shown again.")
		default:
			n.decide(ctx, q, verb, pb.Answer_ANSWER_APPROVE)
		}
	}
}

// decide answers a question as its notification showed it.
func (n *notifier) decide(ctx context.Context, q *question, verb string, answer pb.Answer) {
	// An answer on its way is waited for, even if this process is told to stop.
	_, err := inbox.Decide(context.WithoutCancel(ctx), n.client,
		&pb.Decision{Id: q.row.ID, Subject: q.row.Subject, Answer: answer, Surface: desktopSurface})
	switch {
	case err == nil:
		n.log.Info("answered", "question", q.row.ID, "answer", verb)
		n.retire(ctx, q, "")
		q.ended = true // the daemon will report it
	case errors.Is(err, client.ErrDecided):
		how := approval.FailureLine(q.row.ID, err)
		n.retire(ctx, q, how)
		q.ended = true
		n.tooLate(ctx, q.row.ID, verb, how)
	default:
		n.log.Warn("an answer was not accepted", "question", q.row.ID, "answer", verb, "err", err)
		n.retire(ctx, q, "") // it is shown again
		n.showMessage(ctx, display.Name(q.row.ID)+": nothing was decided", approval.FailureLine(q.row.ID, err))
	}
}

// tooLate shows that a question had ended before it was answered.
func (n *notifier) tooLate(ctx context.Context, id, verb string, how display.Safe) {
	if how == "" {
		return // answered here by the same person
	}
	n.log.Info("an answer came too late", "question", id, "answer", verb)
	n.showMessage(ctx, "Too late to "+display.Safe(verb)+" "+display.Name(id), how)
}

// terminalOpened is how long a terminal must last to count as opened, whatever its exit
// code is.
const terminalOpened = 2 * time.Second

// openTerminal shows questions in a terminal. It does not wait for the terminal.
func (n *notifier) openTerminal(ctx context.Context, ids []string, args ...string) {
	n.work.Go(func() {
		began := time.Now()
		err := n.app.runTerminal(ctx, args...)
		if err != nil && time.Since(began) > terminalOpened {
			n.log.Debug("a terminal ended", "err", err) // it was opened, so its exit code does not matter
			err = nil
		}
		n.later(ctx, func() { n.terminalEnded(ctx, ids, "tgctl "+strings.Join(args, " "), err) })
	})
}

// terminalEnded lets the questions that are still open be shown again, if pressing the
// button has closed their notification. err is not nil if no terminal could be opened to
// run command.
func (n *notifier) terminalEnded(ctx context.Context, ids []string, command string, err error) {
	for _, id := range ids {
		if q := n.find(id); q != nil {
			q.away = false
		}
	}
	if err == nil {
		return
	}
	n.log.Warn("cannot show questions in a terminal", "err", err)
	if n.desk != nil {
		n.showMessage(ctx, "No terminal could be opened", display.Text(err.Error())+". Run this in a terminal: "+display.Text(command))
	}
}

// forgery reports a press that did not come from the notification daemon.
func (n *notifier) forgery(ctx context.Context, e deskEvent) {
	verb, _, _ := strings.Cut(e.key, ":")
	args := append([]any{"notification", e.id, "key", string(display.Name(verb)), "sender", e.sender}, n.processOf(ctx, e.sender)...)
	if more := n.desk.droppedForged.Swap(0); more > 0 {
		args = append(args, "more_before", more)
	}
	n.log.Warn("refused a forged button press: it was not sent by the notification daemon", args...)
	n.quietUntil = n.now().Add(forgeryLogInterval)
	n.report(ctx, e, fmt.Sprintln(append([]any{"a button press did not come from the notification daemon,"}, args...)...))
}

// maxReportBytes limits the length of a report, in bytes. The daemon takes no more.
const maxReportBytes = 512

// report has the daemon record a refused press.
func (n *notifier) report(ctx context.Context, e deskEvent, why string) {
	r := &pb.ReportRequest{Surface: desktopSurface, Reason: strings.ToValidUTF8(strings.TrimSpace(why[:min(len(why), maxReportBytes)]), "")}
	if i := slices.IndexFunc(n.questions, func(q *question) bool { return q.note != nil && q.note.id == e.id }); i >= 0 {
		r.Id = n.questions[i].row.ID
	}
	ctx, cancel := context.WithTimeout(ctx, inbox.Timeout)
	defer cancel()
	if err := n.client.Report(ctx, r); err != nil && ctx.Err() == nil {
		n.log.Warn("a refused press was not recorded", "err", err)
	}
}

// processOf returns log attributes of the process behind a connection to the bus.
func (n *notifier) processOf(ctx context.Context, name string) []any {
	pid, err := n.desk.pidOf(ctx, name)
	if err != nil {
		return nil
	}
	args := []any{"pid", pid}
	if p, err := proc.Look(int32(pid)); err == nil {
		args = append(args, "program", string(display.Name(p.Exe)))
	}
	return args
}
