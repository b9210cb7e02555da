// Package phone asks a person on their phone, through an ntfy server, and takes the answers of its buttons.
//
// It is a surface, and as such a client of the daemon's Approvals service. Each waiting question becomes a
// message to a topic that nobody can guess. Its buttons publish a code to a second such topic, which this
// program reads. Three rules hold:
//
//   - Whoever reads the first topic, the server above all, reads the questions and can press the buttons. So
//     the arguments of a call are sent only if the person has asked for that, and an approval counts only if the
//     workflow lists the surface.
//   - A code is for one button of one question, as its digest has it. What has no valid code is refused and
//     reported to the daemon, and so is a code that comes twice or too late.
//   - Nothing that the server does answers a question. If it is away, the question waits until it expires.
package phone

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/thoughtgate/thoughtgated/client/inbox"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/sock"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// surface is the surface of the answers that are given here.
const surface = "phone"

// Daemon is the part of the daemon's API that is used here. A *client.Client implements it.
type Daemon interface {
	inbox.Daemon
	Report(ctx context.Context, r *pb.ReportRequest) error
}

// Options configures Run.
type Options struct {
	Daemon Daemon
	Paths  sock.Paths
	Log    *slog.Logger
	Now    func() time.Time
	Values bool // arguments of calls are sent, also if the settings do not say so

	pace pace // the zero value means the usual one
}

// pace says how fast things happen. Tests are faster.
type pace struct {
	gathering  time.Duration // how long a question waits for others before it is sent
	between    time.Duration // minimum time between two messages
	summaries  time.Duration // minimum time between two versions of the summary
	retryFirst time.Duration // first delay before a failed request is tried again
	retryLast  time.Duration // maximum of that delay
	reports    time.Duration // minimum time between two reports of refused answers
	idle       time.Duration // how long a stream may have no complete line; ntfy sends one every 45 s by default
}

var usualPace = pace{
	gathering: 250 * time.Millisecond, between: time.Second, summaries: 30 * time.Second,
	retryFirst: time.Second, retryLast: 2 * time.Minute, reports: 10 * time.Second, idle: 3 * time.Minute,
}

const (
	// maxRecent is how many questions get a message of their own within recentIn. Servers limit messages, and
	// people look less at the next one.
	maxRecent = 30
	recentIn  = 10 * time.Minute

	// maxAlone is how many waiting questions have a message of their own at a time. The others share one.
	maxAlone = 5

	// endedRemembered is how many ended questions are remembered, for an answer that is on its way.
	endedRemembered = 64
)

// phone sends the waiting questions and takes answers.
type phone struct {
	o      *Options
	s      *settings
	server *server
	memory *memory
	wake   chan struct{} // holds a token when there may be something to send

	lastProblem string    // last logged problem of sending; used by deliver only
	reportAt    time.Time // when a refused answer may be reported again; used by listen only, as the next
	unreported  int       // refused answers since the last report

	mu        sync.Mutex  // guards the fields below and every card
	cards     []*card     // oldest first
	used      []string    // codes that were used
	recent    []time.Time // when questions were sent first, within recentIn
	summary   string      // title of the summary that is shown; empty if none is
	summaryAt time.Time   // when it was sent
}

// card is one question, and what the phone shows of it.
type card struct {
	sent
	q    *pb.Approval // latest state; nil before the first
	came time.Time

	posted  bool         // it may be on the phone
	done    bool         // the phone shows that it has ended
	pressed bool         // a button was pressed, so that a message is due in any case
	detail  bool         // Show was pressed
	plain   bool         // it is shown without its values, since the server did not accept them
	refused bool         // the server accepts no message about it
	late    display.Safe // an answer came too late: which
	problem display.Safe // an answer was not accepted: why
}

func (c *card) open() bool { return c.q != nil && approval.IsOpen(c.q) }

// Run asks on the phone until ctx ends, and then returns nil. It returns after all its goroutines have ended. It
// returns an error for what waiting does not solve: no phone is set up, or the server does not accept the token.
func Run(ctx context.Context, o Options) error {
	if o.pace == (pace{}) {
		o.pace = usualPace
	}
	s, err := loadSettings(settingsFile(o.Paths))
	if err != nil {
		return err
	}
	s.Values = s.Values || o.Values
	m, err := remember(o.Paths, s)
	if err != nil {
		return err
	}
	defer m.close()
	p := &phone{o: &o, s: s, server: newServer(s), memory: m, wake: make(chan struct{}, 1)}
	p.server.idle = o.pace.idle
	defer p.server.close()
	var known []*pb.Approval
	for _, old := range m.kept.Posted {
		p.cards = append(p.cards, &card{sent: old, posted: true})
		known = append(known, &pb.Approval{Id: old.ID, Subject: old.Subject})
	}
	o.Log.Info("asking on the phone", "server", s.Server, "values", s.Values)
	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() error { return p.deliver(ctx) })
	work.Go(func() error { return p.listen(ctx) })
	work.Go(func() error {
		p.watch(ctx, known)
		return nil
	})
	return work.Wait()
}

// watch updates the cards from the daemon's questions until ctx ends. known are those of the last run.
func (p *phone) watch(ctx context.Context, known []*pb.Approval) {
	for e := range inbox.Watch(ctx, p.o.Daemon, known...) {
		switch e.Kind {
		case inbox.Lost:
			p.o.Log.Warn("lost the connection to the daemon; waiting for it", "err", e.Err)
		case inbox.Connected:
			p.o.Log.Info("connected to the daemon")
		default:
			p.update(e.Question)
		}
	}
}

// update updates the card of q, or creates it.
func (p *phone) update(q *pb.Approval) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.find(q.GetId())
	if c != nil && !bytes.Equal(c.Subject, q.GetSubject()) { // the daemon has lost its state
		p.cards = slices.DeleteFunc(p.cards, func(other *card) bool { return other == c })
		c = nil
	}
	if c == nil {
		if !approval.IsOpen(q) {
			return
		}
		c = &card{sent: sent{ID: q.GetId(), Subject: bytes.Clone(q.GetSubject())}, came: p.o.Now()}
		p.cards = append(p.cards, c)
	}
	c.q, c.problem = q, ""
	p.forget()
	p.wakeUp()
}

// forget drops what has ended and no answer can be on its way to. p.mu must be held.
func (p *phone) forget() {
	ended := 0
	for i := len(p.cards) - 1; i >= 0; i-- {
		c := p.cards[i]
		if c.q == nil || c.open() {
			continue
		}
		if c.posted {
			ended++
		}
		if !c.posted || ended > endedRemembered {
			p.cards = slices.Delete(p.cards, i, i+1)
		}
	}
}

// find returns the card of a question, nil if there is none. p.mu must be held.
func (p *phone) find(id string) *card {
	i := slices.IndexFunc(p.cards, func(c *card) bool { return c.ID == id })
	if i < 0 {
		return nil
	}
	return p.cards[i]
}

// wakeUp has deliver look for something to send.
func (p *phone) wakeUp() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}
