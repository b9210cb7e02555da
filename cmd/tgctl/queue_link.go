package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// What the queue is told of. All but the keys comes from a link.
type (
	cameMsg struct{ row *openRow }
	wentMsg struct {
		id  string
		how display.Safe
	}
	connectedMsg struct{}
	lostMsg      struct{ err error }
	loadedMsg    struct {
		number   int
		question *pb.Approval
		err      error
	}
	recalledMsg struct {
		number int
		past   *past
	}
	answeredMsg struct {
		decision *pb.Decision
		done     *pb.Decided // nil when err is not
		err      error
	}
	editedMsg struct {
		asked     *pb.Approval
		arguments []byte
		err       error
	}
	secondMsg struct{} // a second has passed
	panicMsg  struct{ text string }
)

const (
	// patience is how long the daemon may take to answer.
	patience = 15 * time.Second

	// How long after the daemon has gone it is looked for, at first and at most.
	firstLook = 100 * time.Millisecond
	lastLook  = 2 * time.Second
)

// link is what runs beside the screen: it passes on what the daemon says, and
// does what the queue wishes. Close ends it all and waits for it.
type link struct {
	client *client.Client
	tell   func(tea.Msg) // safe for concurrent use, and returns when the screen has ended
	ctx    context.Context
	stop   context.CancelFunc
	work   sync.WaitGroup
}

// newLink starts a link. Its lifetime is that of the screen, which ctx bounds.
func newLink(ctx context.Context, c *client.Client, tell func(tea.Msg)) *link {
	l := &link{client: c, tell: tell}
	l.ctx, l.stop = context.WithCancel(ctx)
	return l
}

// start begins to watch the daemon and the clock.
func (l *link) start() {
	l.begin(l.watch)
	l.begin(func() {
		second := time.NewTicker(time.Second)
		defer second.Stop()
		for {
			select {
			case <-second.C:
				l.tell(secondMsg{})
			case <-l.ctx.Done():
				return
			}
		}
	})
}

func (l *link) close() {
	l.stop()
	l.work.Wait()
}

// begin runs f beside the screen. A panic there is passed to the screen, which
// gives the terminal back before it goes on.
func (l *link) begin(f func()) {
	l.work.Go(func() {
		defer func() {
			if cause := recover(); cause != nil {
				l.tell(panicMsg{fmt.Sprintf("%v\n%s", cause, debug.Stack())})
			}
		}()
		f()
	})
}

// watch passes on every open question and each change. When the daemon goes it
// looks for it until it is back.
func (l *link) watch() {
	pause := firstLook
	for l.ctx.Err() == nil {
		_, err := l.client.Status(l.ctx)
		if err == nil {
			pause = firstLook
			l.tell(connectedMsg{})
			err = l.follow()
		}
		if l.ctx.Err() != nil {
			return
		}
		l.tell(lostMsg{err})
		select {
		case <-time.After(pause):
		case <-l.ctx.Done():
		}
		pause = min(2*pause, lastLook)
	}
}

// follow passes on what the daemon says of questions until that ends.
func (l *link) follow() error {
	for event, err := range l.client.WatchApprovals(l.ctx) {
		if err != nil {
			return err
		}
		if asked := event.GetApproval(); isOpen(asked) {
			l.tell(cameMsg{newRow(asked)})
		} else {
			l.tell(wentMsg{asked.GetId(), endLine(asked)})
		}
	}
	return nil
}

// do begins what the queue wishes of the daemon.
func (l *link) do(w wish, number int) {
	if id := w.read; id != "" {
		l.begin(func() {
			ctx, cancel := context.WithTimeout(l.ctx, patience)
			defer cancel()
			asked, err := l.client.GetApproval(ctx, id)
			l.tell(loadedMsg{number, asked, err})
			if err == nil && isOpen(asked) {
				l.tell(recalledMsg{number, readPast(ctx, l.client, asked)})
			}
		})
	}
	if d := w.decide; d != nil {
		l.begin(func() {
			ctx, cancel := context.WithTimeout(l.ctx, patience)
			defer cancel()
			done, err := l.client.Decide(ctx, d)
			l.tell(answeredMsg{d, done, err})
		})
	}
}
