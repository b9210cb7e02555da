package notify

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/client/inbox"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// arrange connects to the desktop if that is due, and updates the notifications to show
// the open questions.
func (n *notifier) arrange(ctx context.Context) {
	n.wake = time.Time{}
	n.due(n.quietUntil) // forged presses are handled again after that
	if !n.reach(ctx) || n.offline {
		return // the daemon lists the open questions when it is back
	}
	waiting := n.waiting()
	if len(waiting) == 0 {
		n.dropSummary(ctx)
		return
	}
	if !n.due(waiting[0].came.Add(gathering)) || !n.due(n.showAt) {
		return
	}
	workflows, err := inbox.Workflows(ctx, n.client)
	if err != nil {
		n.log.Warn("cannot read the workflows from the daemon; notifications offer no approval until then", "err", err)
	}
	waiting = slices.DeleteFunc(waiting, func(q *question) bool {
		q.away = workflows[q.row.Workflow].GetAsks() == "slack" // those are not shown here
		return q.away
	})
	if err = n.showAll(ctx, waiting, workflows); err != nil {
		n.log.Warn("cannot show questions; see them with tgctl approvals", "err", err)
		n.showAt = n.now().Add(retry)
		n.wakeAt(n.showAt)
	}
}

// reach reports whether there is a notification daemon. If it is time to, it looks for
// one.
func (n *notifier) reach(ctx context.Context) bool {
	if n.desk == nil {
		if !n.due(n.busAt) {
			return false
		}
		d, err := openDesktop(ctx, n.address)
		if err != nil {
			n.logStateChange(slog.LevelWarn, "no session bus; waiting for it", "err", err)
			n.busAt = n.now().Add(n.busPause)
			n.busPause = min(2*n.busPause, lastLook)
			return n.due(n.busAt)
		}
		n.desk, n.busPause, n.findAt = d, firstLook, n.now()
	}
	if n.desk.server() != "" {
		return true
	}
	if !n.now().Before(n.findAt) {
		if n.findServer(ctx) {
			return true
		}
		n.findAt = n.now().Add(retry)
	}
	if len(n.waiting()) > 0 {
		n.wakeAt(n.findAt)
	}
	return false
}

// findServer looks for a notification daemon and reports whether there is one.
func (n *notifier) findServer(ctx context.Context) bool {
	n.forgetServer() // its loss may be noticed before the bus reports it
	what, err := n.desk.find(ctx)
	switch {
	case errors.Is(err, errNoServer):
		n.logStateChange(slog.LevelWarn, "no notification daemon on the session bus; waiting for one; see questions with tgctl approvals", "err", err)
	case err != nil:
		n.logStateChange(slog.LevelWarn, "the notification daemon does not answer; waiting for it; see questions with tgctl approvals", "err", err)
	default:
		n.server = n.desk.server()
		args := append([]any{"buttons", n.desk.hasCapability("actions")}, n.processOf(ctx, n.desk.server())...)
		n.logStateChange(slog.LevelInfo, "questions are shown by "+string(what), args...)
	}
	return err == nil
}

// forgetServer forgets a notification daemon that has ended. The next one will be logged,
// even if it has the same name.
func (n *notifier) forgetServer() {
	if n.server != "" {
		n.said = ""
	}
	n.forgetShown()
}

// waiting returns the questions that should be shown and have no notification of their
// own, oldest first.
func (n *notifier) waiting() []*question {
	return ui.Filter(n.questions, func(q *question) bool { return q.note == nil && !q.away && !q.ended })
}

// showAll shows each waiting question by itself, or all in one notification if they are
// too many or arrive too fast.
func (n *notifier) showAll(ctx context.Context, waiting []*question, workflows map[string]*pb.PolicyWorkflow) error {
	n.popups = slices.DeleteFunc(n.popups, func(t time.Time) bool { return n.now().Sub(t) >= popupsIn })
	room := min(maxShownAlone-n.shownAlone(), maxPopups-len(n.popups))
	if len(waiting) > room {
		if len(n.popups) > 0 {
			n.wakeAt(n.popups[0].Add(popupsIn))
		}
		return n.summarise(ctx, waiting)
	}
	n.dropSummary(ctx)
	for _, q := range waiting {
		s := shown{nonce: rand.Text(), at: n.now()}
		note := n.questionNote(q.row, workflows[q.row.Workflow], &s)
		var err error
		if s.id, err = n.desk.show(ctx, note, 0); err != nil {
			return fmt.Errorf("%s: %w", q.row.ID, err)
		}
		q.note = &s
		n.popups = append(n.popups, n.now())
	}
	return nil
}

// shownAlone counts the questions with their own notification.
func (n *notifier) shownAlone() int {
	return len(ui.Filter(n.questions, func(q *question) bool { return q.note != nil }))
}

// summarise shows the waiting questions in one notification.
func (n *notifier) summarise(ctx context.Context, waiting []*question) error {
	ids := ui.Map(waiting, func(q *question) string { return q.row.ID })
	s := summary{shown: shown{nonce: rand.Text(), at: n.now()}, of: ids}
	replaced := uint32(0)
	if old := n.summary; old != nil {
		if slices.Equal(old.of, ids) || !n.due(old.at.Add(summaryPause)) {
			return nil
		}
		replaced = old.id
	}
	var err error
	if s.id, err = n.desk.show(ctx, summaryNote(waiting, n.shownAlone(), s.nonce), replaced); err != nil {
		return err
	}
	n.summary = &s
	return nil
}

// dropSummary withdraws the summary.
func (n *notifier) dropSummary(ctx context.Context) {
	if n.summary != nil {
		n.withdraw(ctx, n.summary.id)
		n.summary = nil
	}
}

// showMessage shows a notification that asks nothing.
func (n *notifier) showMessage(ctx context.Context, title, text display.Safe) {
	note := &note{title: title, body: []line{{text: text}}, urgency: urgencyNormal}
	if _, err := n.desk.show(ctx, note, 0); err != nil {
		n.log.Warn("cannot show the result of a button press", "what", string(title+": "+text), "err", err)
	}
}
