package main

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/display"
)

const (
	// gathering is how long a question waits for others before it is shown, so
	// that a burst is known to be one, and what is taken back at once is not seen.
	gathering = 250 * time.Millisecond

	// shownMost is how many questions are shown at a time, each by itself. If
	// more are to be, those that are not shown yet become one notification.
	shownMost = 3

	// popupsMost is how many notifications of questions may come up in popupsIn.
	popupsMost = 20
	popupsIn   = time.Minute

	// summaryPause is how long the notification of many stays as it is.
	summaryPause = 2 * time.Second

	// retry is how long after a failure the desktop is tried again.
	retry = 30 * time.Second

	// How long after the session bus or the daemon has gone it is looked for, at
	// first and at most.
	firstLook = 100 * time.Millisecond
	lastLook  = 2 * time.Second

	// endedRemembered is how many notifications are remembered after their
	// question has ended, for a press that was on its way.
	endedRemembered = 64
)

// notifier keeps the notifications on the desktop in line with the questions
// that are open. It is used by one goroutine.
type notifier struct {
	app     *app
	client  *client.Client
	log     *slog.Logger
	address string // of the session bus
	now     func() time.Time

	todo chan func()    // for run to call
	work sync.WaitGroup // what runs beside it: the inbox, and terminals

	desk     *desktop // nil: there is no session bus
	busPause time.Duration
	busAt    time.Time // when the bus is tried again
	findAt   time.Time // when the notification daemon is looked for again
	server   string    // unique name of the notification daemon that shows what is shown
	said     string    // what was logged last of bus and notification daemon
	showAt   time.Time // not before then, since showing has failed

	questions []*question // open, oldest first
	offline   bool        // the daemon has gone
	summary   *summary    // nil: none is shown
	popups    []time.Time
	late      []retired // newest last

	quietUntil time.Time // before then no forged press is told of
	timer      *time.Timer
	wake       time.Time // when there is something to do next; zero for never
}

// question is an open question.
type question struct {
	row  *openRow
	came time.Time
	note *shown // nil: none is shown
	away bool   // not to be shown: it was put away, or is not for here

	ended bool // it was answered from here, or could not be any more
}

// shown is a notification of a question.
type shown struct {
	id      uint32
	nonce   string // in the keys of its buttons
	at      time.Time
	approve bool // it offers that
}

// summary is a notification of many questions.
type summary struct {
	shown
	of []string // their ids
}

// retired is a notification whose question has ended.
type retired struct {
	shown
	question string
	how      display.Safe
}

func newNotifier(a *app, c *client.Client, log *slog.Logger, address string) *notifier {
	return &notifier{app: a, client: c, log: log, address: address, now: a.now, todo: make(chan func()), timer: time.NewTimer(0), busPause: firstLook}
}

// due reports whether t has come, and otherwise has arrange called again then.
func (n *notifier) due(t time.Time) bool {
	if n.now().Before(t) {
		n.wakeAt(t)
		return false
	}
	return true
}

// wakeAt has arrange called again at a time, if not before.
func (n *notifier) wakeAt(t time.Time) {
	if n.wake.IsZero() || t.Before(n.wake) {
		n.wake = t
	}
}

// alarm is when the next thing is to be done.
func (n *notifier) alarm() <-chan time.Time {
	if n.wake.IsZero() {
		return nil
	}
	n.timer.Reset(max(n.wake.Sub(n.now()), 0))
	return n.timer.C
}

// find returns an open question, nil when there is none of that id.
func (n *notifier) find(id string) *question {
	i := slices.IndexFunc(n.questions, func(q *question) bool { return q.row.id == id })
	if i < 0 {
		return nil
	}
	return n.questions[i]
}

// retire takes away the notification of a question, and remembers why for a
// press that is on its way.
func (n *notifier) retire(ctx context.Context, q *question, how display.Safe) {
	if q.note == nil {
		return
	}
	n.late = append(n.late, retired{*q.note, q.row.id, how})
	n.late = n.late[max(0, len(n.late)-endedRemembered):]
	n.withdraw(ctx, q.note.id)
	q.note = nil
}

// withdraw takes a notification away. One that has gone by itself is no error
// worth telling.
func (n *notifier) withdraw(ctx context.Context, id uint32) {
	if err := n.desk.withdraw(ctx, id); err != nil {
		n.log.Debug("withdraw a notification", "err", err)
	}
}

// serverChanged tells that the notification daemon is another one, or none: what
// was shown has gone with the old one.
func (n *notifier) serverChanged() {
	if n.server != "" && n.desk.server() == n.server {
		return // it was found after it had changed
	}
	n.forgetServer()
	n.findAt, n.showAt = n.now(), time.Time{}
}

// busLost tells that the session bus has gone.
func (n *notifier) busLost() {
	n.forgetShown()
	n.desk.close()
	n.desk = nil
	n.busAt = n.now().Add(n.busPause)
	n.state(slog.LevelWarn, "the session bus has gone; waiting for it")
}

func (n *notifier) forgetShown() {
	for _, q := range n.questions {
		q.note = nil
	}
	n.summary, n.late, n.server = nil, nil, ""
}

// state logs how bus and notification daemon are, once.
func (n *notifier) state(level slog.Level, text string, args ...any) {
	if n.said != text {
		n.said = text
		n.log.Log(context.Background(), level, text, args...)
	}
}

// leave takes every notification away and closes what is open.
func (n *notifier) leave(ctx context.Context) {
	n.timer.Stop()
	if n.desk == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, busPatience)
	defer cancel()
	for _, q := range n.questions {
		if q.note != nil {
			n.withdraw(ctx, q.note.id)
		}
	}
	if n.summary != nil {
		n.withdraw(ctx, n.summary.id)
	}
	n.desk.close()
}
