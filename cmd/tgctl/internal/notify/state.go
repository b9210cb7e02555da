package notify

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/internal/display"
)

const (
	// gathering is how long a question waits for others before it is shown, so that a
	// burst can be summarised and a question that is withdrawn at once is never shown.
	gathering = 250 * time.Millisecond

	// maxShownAlone is how many questions are shown by themselves at a time. If there are
	// more, those that are not shown yet share one notification.
	maxShownAlone = 3

	// maxPopups is how many notifications of questions may appear within popupsIn.
	maxPopups = 20
	popupsIn  = time.Minute

	// summaryPause is the minimum time between two versions of the summary.
	summaryPause = 2 * time.Second

	// retry is the delay after a failure of the desktop before the next attempt.
	retry = 30 * time.Second

	// The backoff while the session bus or the daemon is lost: its first delay and its
	// maximum.
	firstLook = 100 * time.Millisecond
	lastLook  = 2 * time.Second

	// endedRemembered is how many notifications are remembered after their question has
	// ended, for a press that is on its way.
	endedRemembered = 64
)

// notifier keeps the notifications on the desktop up to date with the open questions. Its
// state is used by one goroutine only.
type notifier struct {
	app     *app
	client  *client.Client
	log     *slog.Logger
	address string // of the session bus
	now     func() time.Time

	todo chan func()    // functions for run to call
	work sync.WaitGroup // other goroutines: the inbox and terminals

	desk     *desktop // nil if there is no session bus
	busPause time.Duration
	busAt    time.Time // time of the next attempt to connect to the bus
	findAt   time.Time // time of the next search for the notification daemon
	server   string    // unique name of the notification daemon that has the notifications
	said     string    // last logged state of the bus and the notification daemon
	showAt   time.Time // showing has failed; not again before this time

	questions []*question // open, oldest first
	offline   bool        // the connection to the daemon is lost
	summary   *summary    // nil if there is none
	popups    []time.Time
	late      []retired // newest last

	quietUntil time.Time // forged presses are not reported before this time
	timer      *time.Timer
	wake       time.Time // time of the next call of arrange; zero for none
}

// question is an open question.
type question struct {
	row  *approval.Row
	came time.Time
	note *shown // nil if there is none
	away bool   // not to be shown: it was closed, or belongs elsewhere

	ended bool // it was answered from here, or too late
}

// shown is a notification of a question.
type shown struct {
	id      uint32
	nonce   string // part of the keys of its buttons
	at      time.Time
	approve bool // it has an Approve button
}

// summary is a notification of several questions.
type summary struct {
	shown
	of []string // ids of the questions
}

// retired is a notification whose question has ended.
type retired struct {
	shown
	question string
	how      display.Safe
}

func newNotifier(a *app, c *client.Client, log *slog.Logger, address string) *notifier {
	return &notifier{app: a, client: c, log: log, address: address, now: a.Now, todo: make(chan func()), timer: time.NewTimer(0), busPause: firstLook}
}

// due reports whether t has passed. If not, it has arrange called at t.
func (n *notifier) due(t time.Time) bool {
	if n.now().Before(t) {
		n.wakeAt(t)
		return false
	}
	return true
}

// wakeAt has arrange called at t at the latest.
func (n *notifier) wakeAt(t time.Time) {
	if n.wake.IsZero() || t.Before(n.wake) {
		n.wake = t
	}
}

// alarm returns a channel that fires when arrange is to be called, nil if there is no
// such time.
func (n *notifier) alarm() <-chan time.Time {
	if n.wake.IsZero() {
		return nil
	}
	n.timer.Reset(max(n.wake.Sub(n.now()), 0))
	return n.timer.C
}

// find returns the open question with the id, nil if there is none.
func (n *notifier) find(id string) *question {
	i := slices.IndexFunc(n.questions, func(q *question) bool { return q.row.ID == id })
	if i < 0 {
		return nil
	}
	return n.questions[i]
}

// retire withdraws the notification of a question. It remembers how the question ended,
// for a press that is on its way.
func (n *notifier) retire(ctx context.Context, q *question, how display.Safe) {
	if q.note == nil {
		return
	}
	n.late = append(n.late, retired{*q.note, q.row.ID, how})
	n.late = n.late[max(0, len(n.late)-endedRemembered):]
	n.withdraw(ctx, q.note.id)
	q.note = nil
}

// withdraw closes a notification. An error is only logged: the notification may have been
// closed already.
func (n *notifier) withdraw(ctx context.Context, id uint32) {
	if err := n.desk.withdraw(ctx, id); err != nil {
		n.log.Debug("withdraw a notification", "err", err)
	}
}

// serverChanged handles that the notification daemon was replaced or has ended. Its
// notifications are gone.
func (n *notifier) serverChanged() {
	if n.server != "" && n.desk.server() == n.server {
		return // the change was before it was found
	}
	n.forgetServer()
	n.findAt, n.showAt = n.now(), time.Time{}
}

// busLost handles the loss of the session bus.
func (n *notifier) busLost() {
	n.forgetShown()
	n.desk.close()
	n.desk = nil
	n.busAt = n.now().Add(n.busPause)
	n.logStateChange(slog.LevelWarn, "lost the connection to the session bus; waiting for it")
}

func (n *notifier) forgetShown() {
	for _, q := range n.questions {
		q.note = nil
	}
	n.summary, n.late, n.server = nil, nil, ""
}

// logStateChange logs the state of the bus and the notification daemon, unless it was logged last.
func (n *notifier) logStateChange(level slog.Level, text string, args ...any) {
	if n.said != text {
		n.said = text
		n.log.Log(context.Background(), level, text, args...)
	}
}

// closeDesktop withdraws all notifications and closes the connection.
func (n *notifier) closeDesktop(ctx context.Context) {
	n.timer.Stop()
	if n.desk == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, busTimeout)
	defer cancel()
	for _, q := range n.questions {
		if q.note != nil {
			n.withdraw(ctx, q.note.id)
		}
	}
	n.dropSummary(ctx)
	n.desk.close()
}
